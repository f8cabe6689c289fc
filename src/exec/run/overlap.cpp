#include "exec/run/overlap.h"

#include <algorithm>

#include "base/pass_runner.h"

namespace toroid::exec {
namespace {

// What a processor does in a microsecond, at the least: so little work is not worth another thread's waking, which takes as long.
constexpr double kLeastUs = 60, kBytesPerUs = 1e4, kFlopsPerUs = 5e4;

// Whether the step may run before the collective has ended.
bool may_run_beside(const StepPlan& step, const CollectiveCall& c) {
  const int in = c.input.buffer, out = c.output.buffer;
  if (auto* l = std::get_if<Launch>(&step)) {
    for (size_t i = 0; i < l->buffers.size(); ++i) {
      const bool writes = i >= l->written.size() || l->written[i];
      if (l->buffers[i] == out || (l->buffers[i] == in && writes)) return false;
    }
    return true;
  }
  if (auto* l = std::get_if<LibraryCall>(&step))  // which buffers it writes is not known
    return std::none_of(l->buffers.begin(), l->buffers.end(), [&](int b) { return b == in || b == out; });
  if (auto* other = std::get_if<CollectiveCall>(&step))
    return other->input.buffer != out && other->output.buffer != out && other->output.buffer != in;
  return false;  // what runs on the host, and blocks, may call collectives
}

double us_of(const StepPlan& step, const Symbols& symbols) {
  if (std::holds_alternative<LibraryCall>(step)) return kLeastUs;  // what goes to a library is large
  const auto* l = std::get_if<Launch>(&step);
  if (!l) return 0;
  return std::max(static_cast<double>(evaluate(l->bytes, symbols)) / kBytesPerUs,
                  static_cast<double>(evaluate(l->flops, symbols)) / kFlopsPerUs);
}

}  // namespace

std::vector<size_t> ends_of(const Plan& plan) {
  std::vector<size_t> out(plan.steps.size(), 0);
  if (plan.device.is_cuda() || is_disabled("overlap_collectives", plan.options)) return out;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* c = std::get_if<CollectiveCall>(&plan.steps[i]);
    if (!c) continue;
    size_t end = i + 1;
    while (end < plan.steps.size() && may_run_beside(plan.steps[end], *c)) ++end;
    if (end > i + 1) out[i] = end;
  }
  return out;
}

std::vector<size_t> worthwhile_ends(const Plan& plan, const Symbols& symbols) {
  std::vector<size_t> out = ends_of(plan);
  for (size_t i = 0; i < out.size(); ++i) {
    double us = 0;
    for (size_t s = i + 1; s < out[i]; ++s) us += us_of(plan.steps[s], symbols);
    if (us < kLeastUs) out[i] = 0;
  }
  // Those behind one that is under way wait for it in any case: they go to the same thread, where none may run by itself.
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t s = i + 1; s < out[i]; ++s)
      if (std::holds_alternative<CollectiveCall>(plan.steps[s]) && out[s] == 0) out[s] = s + 1;
  return out;
}

}  // namespace toroid::exec

#include "exec/run/overlap.h"

#include <algorithm>
#include <optional>

#include "base/pass_runner.h"

namespace toroid::exec {
namespace {

// What a processor does in a microsecond, at the least; and so little work, in microseconds, that it is not worth another thread's waking,
// or what streams take to follow each other.
struct Rates {
  double least_us, bytes, flops;
};
constexpr Rates kCpu{60, 1e4, 5e4}, kGpu{15, 2e6, 3e8};
const Rates& rates_of(const Plan& plan) { return plan.device.is_cuda() ? kGpu : kCpu; }

bool has(const std::vector<int>& list, int buffer) { return std::find(list.begin(), list.end(), buffer) != list.end(); }

// What a step's ranks give each other, and where it comes to.
struct Meeting {
  std::vector<int> in, out;
};

bool is_role(const Plan& plan, int buffer, BufferRole role) { return plan.buffers[static_cast<size_t>(buffer)].role == role; }

// Whether the launch writes its buffer number i; it may where that is not known.
bool writes(const Launch& l, size_t i) { return i >= l.written.size() || l.written[i]; }

// None for other steps, and for kernels in which ranks only wait for each other, which keep what they wait for by their place.
std::optional<Meeting> meeting_of(const Plan& plan, const StepPlan& step) {
  if (auto* c = std::get_if<CollectiveCall>(&step)) return Meeting{{c->input.buffer}, {c->output.buffer}};
  const auto* l = std::get_if<Launch>(&step);
  if (!l || !std::any_of(l->buffers.begin(), l->buffers.end(), [&](int b) { return is_role(plan, b, BufferRole::Peers); })) return {};
  Meeting m;
  for (size_t i = 0; i < l->buffers.size(); ++i) {
    const int b = l->buffers[i];
    if (!is_role(plan, b, BufferRole::Peers)) (writes(*l, i) ? m.out : m.in).push_back(b);
  }
  if (m.in.empty() && m.out.empty()) return {};
  return m;
}

// Whether the step may run before the meeting has ended. Others come behind it in any case, as one thread or stream has all of them.
bool may_run_beside(const Plan& plan, const StepPlan& step, const Meeting& m) {
  const auto touched = [&](int b) { return has(m.in, b) || has(m.out, b); };
  if (const auto other = meeting_of(plan, step))
    return std::none_of(other->in.begin(), other->in.end(), [&](int b) { return has(m.out, b); }) &&
           std::none_of(other->out.begin(), other->out.end(), touched);
  if (auto* l = std::get_if<Launch>(&step)) {
    for (size_t i = 0; i < l->buffers.size(); ++i) {
      const int b = l->buffers[i];
      if (is_role(plan, b, BufferRole::Peers) || has(m.out, b) || (has(m.in, b) && writes(*l, i))) return false;
    }
    return true;
  }
  if (auto* l = std::get_if<LibraryCall>(&step))  // which buffers it writes is not known
    return !std::holds_alternative<PiecesProblem>(l->problem) && std::none_of(l->buffers.begin(), l->buffers.end(), touched);
  return false;  // what runs on the host, and blocks, may call collectives
}

// Microseconds of the step's work that `meeting` gains by running beside. On a GPU it takes multiprocessors from what computes on all of
// them: a kernel by which ranks meet gains nothing there, and NCCL only where calls are recorded.
double us_of(const Plan& plan, const StepPlan& step, const StepPlan& meeting, const Symbols& symbols) {
  const Rates& rates = rates_of(plan);
  const bool wants_room = plan.device.is_cuda() && (std::holds_alternative<Launch>(meeting) || !records_calls(plan.options.mode()));
  if (std::holds_alternative<LibraryCall>(step)) return wants_room ? 0 : rates.least_us;  // what goes to a library is large
  const auto* l = std::get_if<Launch>(&step);
  if (!l || meeting_of(plan, step)) return 0;
  const double moving = static_cast<double>(evaluate(l->bytes, symbols)) / rates.bytes,
               computing = static_cast<double>(evaluate(l->flops, symbols)) / rates.flops;
  return wants_room && computing > moving ? 0 : std::max(moving, computing);
}

}  // namespace

std::vector<size_t> ends_of(const Plan& plan) {
  std::vector<size_t> out(plan.steps.size(), 0);
  if (is_disabled("overlap_collectives", plan.options)) return out;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const auto meeting = meeting_of(plan, plan.steps[i]);
    if (!meeting) continue;
    size_t end = i + 1;
    while (end < plan.steps.size() && may_run_beside(plan, plan.steps[end], *meeting)) ++end;
    if (end > i + 1) out[i] = end;
  }
  return out;
}

std::vector<size_t> worthwhile_ends(const Plan& plan, const Symbols& symbols) {
  std::vector<size_t> out = ends_of(plan);
  for (size_t i = 0; i < out.size(); ++i) {
    double us = 0;
    for (size_t s = i + 1; s < out[i]; ++s) us += us_of(plan, plan.steps[s], plan.steps[i], symbols);
    if (us < rates_of(plan).least_us) out[i] = 0;
  }
  // Those behind one that is under way wait for it in any case: they go to the same thread or stream, where none may run by itself.
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t s = i + 1; s < out[i]; ++s)
      if (out[s] == 0 && meeting_of(plan, plan.steps[s])) out[s] = s + 1;
  return out;
}

}  // namespace toroid::exec

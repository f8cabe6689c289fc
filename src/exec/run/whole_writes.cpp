#include "exec/run/whole_writes.h"

#include <algorithm>

#include "exec/steps.h"

namespace toroid::exec {
namespace {

template <class F>
void for_each_buffer(const StepPlan& step, F&& f) {
  auto views = [&](const std::vector<HostCall::View>& list) {
    for (auto& v : list) f(v.buffer);
  };
  if (auto* l = std::get_if<Launch>(&step)) {
    for (int b : l->buffers) f(b);
  } else if (auto* h = std::get_if<HostCall>(&step)) {
    views(h->inputs);
    views(h->outputs);
  } else if (auto* c = std::get_if<LibraryCall>(&step)) {
    for (int b : c->buffers) f(b);
  } else {
    views(block_operands(step));
    views(block_results(step));
  }
}

// The first and the last step that takes the buffer; none: past the end, and -1.
std::pair<int64_t, int64_t> uses_of(const Plan& plan, int buffer) {
  const auto n = static_cast<int64_t>(plan.steps.size());
  std::pair<int64_t, int64_t> out(n, -1);
  for (int64_t s = 0; s < n; ++s)
    for_each_buffer(plan.steps[static_cast<size_t>(s)], [&](int b) {
      if (b != buffer) return;
      out.first = std::min(out.first, s);
      out.second = s;
    });
  return out;
}

std::pair<const std::byte*, const std::byte*> memory_of(const Tensor& t) {
  int64_t lo = 0, hi = 0;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    if (t.sizes()[d] == 0) return {nullptr, nullptr};
    (t.strides()[d] < 0 ? lo : hi) += (t.sizes()[d] - 1) * t.strides()[d];
  }
  const auto width = static_cast<int64_t>(size_of(t.dtype()));
  const std::byte* first = t.raw_data();
  return {first + lo * width, first + (hi + 1) * width};
}

}  // namespace

std::vector<bool> whole_writes(const Plan& plan) {
  std::vector<bool> out(plan.outputs.size(), false);
  if (plan.device.is_cuda()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    const OutputPlan& o = plan.outputs[i];
    if (o.mutates < 0 || o.buffer < 0 || plan.buffers[static_cast<size_t>(o.buffer)].role != BufferRole::Output) continue;
    const InputPlan& in = plan.inputs[static_cast<size_t>(o.mutates)];
    if (in.draws || !in.type.strides.empty() || in.type.dtype != o.type.dtype || in.type.sizes != o.type.sizes) continue;
    const bool alone = std::none_of(plan.outputs.begin(), plan.outputs.end(), [&](auto& other) {
      return &other != &o && (other.buffer == o.buffer || other.buffer == in.buffer || other.mutates == o.mutates);
    });
    out[i] = alone && uses_of(plan, in.buffer).second < uses_of(plan, o.buffer).first;
  }
  return out;
}

bool overlaps_another(const Tensor& t, std::span<const Tensor> tensors) {
  const auto [lo, hi] = memory_of(t);
  size_t same = 0;
  for (auto& other : tensors) {
    if (!other.defined()) continue;
    if (other.impl() == t.impl() && same++ == 0) continue;
    const auto [from, to] = memory_of(other);
    if (lo < to && from < hi) return true;
  }
  return false;
}

}  // namespace toroid::exec

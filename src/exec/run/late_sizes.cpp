#include "exec/run/late_sizes.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "exec/run/requirements.h"
#include "exec/steps.h"
#include "tensor/layout.h"

namespace toroid::exec {
namespace {

// Whether nothing else lies in t's memory: an operation may return what it was given, or several results in the same memory.
bool is_alone(const Tensor& t, std::span<const Tensor> inputs, std::span<const Tensor> results) {
  const auto shares = [&](const Tensor& o) { return o.defined() && o.impl()->storage == t.impl()->storage; };
  return std::none_of(inputs.begin(), inputs.end(), shares) && std::count_if(results.begin(), results.end(), shares) == 1;
}

}  // namespace

LateSizes::LateSizes(const Plan& plan, const Loaded& loaded, Symbols symbols) : plan_(plan), loaded_(loaded) {
  bound_.symbols = std::move(symbols);
  check_guards(plan_, bound_.symbols);
  bound_.offsets.assign(plan_.buffers.size(), -1);
  bound_.steps.resize(plan_.steps.size());
  bound_.output_sizes.resize(plan_.outputs.size());
  for (auto& in : plan_.inputs) bound_.input_strides.push_back(evaluate(in.type.strides, bound_.symbols));
}

void LateSizes::provide(int buffer, Workspace& memory) {
  const auto i = static_cast<size_t>(buffer);
  if (memory.at[i] || memory.held[i].defined()) return;
  const BufferPlan& b = plan_.buffers[i];
  memory.hold(i, Tensor::empty({evaluate(b.numel, bound_.symbols)}, b.dtype, plan_.device));
}

void LateSizes::prepare(size_t step, Lane& lane, Workspace& memory) {
  BoundStep& s = bound_.steps[step];
  int64_t scratch = 0;
  if (auto* l = std::get_if<Launch>(&plan_.steps[step])) {
    for (int b : l->buffers) provide(b, memory);
    s = bind_launch(plan_, *l, loaded_.steps[step].kernel, bound_.symbols);
    scratch = scratch_of(*l, s, bound_.symbols);
    const CounterRange counters = counters_of(*l, bound_.symbols, bound_.zeros);
    s.counters = counters.at, bound_.zeros = counters.end;
  } else if (auto* h = std::get_if<HostCall>(&plan_.steps[step])) {
    for (auto& v : h->inputs) provide(v.buffer, memory);
    if (h->on_gpu)  // which writes where its results lie
      for (auto& v : h->outputs) provide(v.buffer, memory);
  } else if (auto* c = std::get_if<LibraryCall>(&plan_.steps[step])) {
    for (int b : c->buffers) provide(b, memory);
    scratch = loaded_.steps[step].library->scratch_bytes();
  } else if (auto* m = std::get_if<CollectiveCall>(&plan_.steps[step])) {
    provide(m->input.buffer, memory), provide(m->output.buffer, memory);
  } else {
    for (auto& v : block_operands(plan_.steps[step])) provide(v.buffer, memory);
  }
  s.scratch = scratch > 0 ? 0 : -1;
  grow(lane, scratch, bound_.zeros, plan_.device);
}

void LateSizes::learn(const HostCall::View& view, const Tensor& result) {
  TOROID_CHECK(result.sizes().size() == view.sizes.size(), "a result has {} dimensions, {} are expected", result.sizes().size(),
               view.sizes.size());
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    const Expr& e = view.sizes[d];
    if (e.kind() != sym::Kind::Symbol) continue;
    const std::string& name = e.node()->name;
    if (std::any_of(bound_.symbols.begin(), bound_.symbols.end(), [&](auto& s) { return s.first == name; })) continue;
    bound_.symbols.emplace_back(name, result.sizes()[d]);
    check_guards(plan_, bound_.symbols, &e);
  }
}

// Whether the buffer holds the view's elements in their order, and nothing else.
bool LateSizes::is_whole(const HostCall::View& view, const Tensor& result) const {
  const BufferPlan& b = plan_.buffers[static_cast<size_t>(view.buffer)];
  return view.dtype == b.dtype && result.dtype() == b.dtype && result.numel() == evaluate(b.numel, bound_.symbols) &&
         evaluate(view.offset, bound_.symbols) == 0 && evaluate(view.strides, bound_.symbols) == contiguous_strides(result.sizes());
}

void LateSizes::accept(const HostCall& call, std::span<const Tensor> inputs, std::vector<Tensor>& results, Workspace& memory) {
  for (size_t r = 0; r < call.outputs.size(); ++r) learn(call.outputs[r], results.at(r));
  for (size_t r = 0; r < call.outputs.size(); ++r) {
    const HostCall::View& v = call.outputs[r];
    const auto buffer = static_cast<size_t>(v.buffer);
    const auto sizes = evaluate(v.sizes, bound_.symbols);
    TOROID_CHECK(results[r].sizes() == sizes, "result {} of {} has sizes {}, {} are expected", r, call.name, sizes_text(results[r].sizes()),
                 sizes_text(sizes));
    const bool is_placed = memory.at[buffer] || memory.held[buffer].defined();
    if (!is_placed && is_whole(v, results[r]) && (plan_.device.is_cuda() || is_alone(results[r], inputs, results)))
      memory.hold(buffer, moved(made_dense(std::exchange(results[r], {})), plan_.device));
    else
      provide(v.buffer, memory);
  }
}

void LateSizes::finish(Workspace& memory) {
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& o = plan_.outputs[i];
    if (o.buffer < 0) continue;
    const auto& sizes = bound_.output_sizes[i] = evaluate(o.type.sizes, bound_.symbols);
    const BufferRole role = plan_.buffers[static_cast<size_t>(o.buffer)].role;
    if (role == BufferRole::Input || is_loaded(role)) continue;  // the caller's, or the program's own
    provide(o.buffer, memory);
    Tensor& t = memory.held[static_cast<size_t>(o.buffer)];
    const int64_t numel = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
    if (t.sizes() != sizes && t.is_contiguous() && t.numel() == numel) t = seen_as(t, sizes, contiguous_strides(sizes));
  }
}

}  // namespace toroid::exec

#include "program/users_calls.h"

#include <algorithm>

#include "ops/cuda_kernels.h"
#include "ops/custom.h"
#include "ops/opaque.h"

namespace toroid::program {
namespace {

bool has_effect(const ops::Op& op) { return ops::is_opaque(op) && op.effect; }
bool has_effect(const graph::Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) {
    return has_effect(*n->op) || std::any_of(n->regions.begin(), n->regions.end(), [](auto& r) { return has_effect(*r); });
  });
}

}  // namespace

bool has_effect(const Node& n) {
  const auto* call = std::get_if<Extern>(&n.problem);
  return call && (has_effect(*call->op) || std::any_of(call->blocks.begin(), call->blocks.end(), [](auto& b) { return has_effect(*b); }));
}

std::vector<std::pair<size_t, size_t>> written_operands(const Extern& call) {
  std::vector<std::pair<size_t, size_t>> out;
  if (!ops::is_opaque(*call.op) || ops::writes_arguments(*call.op)) return out;
  const auto written = ops::written_arguments(*call.op);
  const size_t own_results = call.op->schema.returns.size() - written.size();
  for (size_t k = 0; k < written.size(); ++k) out.emplace_back(static_cast<size_t>(std::get<int>(call.args[written[k]])), own_results + k);
  return out;
}

bool writes_over(const Extern& call, int old, int result) {
  const auto reads = std::count_if(call.inputs.begin(), call.inputs.end(), [&](auto& v) { return v.memory.buffer == old; });
  if (reads != 1) return false;
  for (auto& [input, output] : written_operands(call)) {
    const Operand &from = call.inputs[input].memory, &to = call.outputs[output].memory;
    if (from.buffer == old && to.buffer == result) return from.offset == Expr(0) && to.offset == Expr(0) && from.strides == to.strides;
  }
  return false;
}

bool has_gpu_operands(const Extern& call) {
  const bool is_kernel = is_users_kernel(call);
  const auto is_row_major = [&](const Extern::View& v) {
    Expr stride = 1;
    bool fits = !is_kernel || v.memory.offset == Expr(0);
    for (size_t d = v.sizes.size(); d-- > 0; stride = stride * v.sizes[d])
      fits = fits && (v.sizes[d] == Expr(1) || v.memory.strides[d] == stride);
    return fits;
  };
  const auto written = written_operands(call);
  const bool with_gaps = !is_kernel && ops::takes_strides(*call.op);
  return (with_gaps || std::all_of(call.inputs.begin(), call.inputs.end(), is_row_major)) &&
         std::all_of(written.begin(), written.end(),
                     [&](auto& w) { return call.inputs[w.first].memory.buffer == call.outputs[w.second].memory.buffer; });
}

bool is_users_kernel(const Extern& call) { return ops::has_cuda_kernel(*call.op); }
bool is_users_function(const Extern& call) { return ops::has_cuda_function(*call.op); }

}  // namespace toroid::program

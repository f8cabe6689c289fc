#include "program/users_calls.h"

#include <algorithm>

#include "ops/custom.h"
#include "ops/opaque.h"

namespace toroid::program {

bool has_effect(const Node& n) {
  const auto* call = std::get_if<Extern>(&n.problem);
  return call && ops::is_opaque(*call->op) && call->op->effect;
}

bool writes_over(const Extern& call, int old, int result) {
  if (!ops::is_opaque(*call.op) || ops::writes_arguments(*call.op)) return false;
  const auto reads = std::count_if(call.inputs.begin(), call.inputs.end(), [&](auto& v) { return v.memory.buffer == old; });
  if (reads != 1) return false;
  const auto written = ops::written_arguments(*call.op);
  const size_t own_results = call.op->schema.returns.size() - written.size();
  for (size_t k = 0; k < written.size(); ++k) {
    const Extern::View& from = call.inputs[static_cast<size_t>(std::get<int>(call.args[written[k]]))];
    const Extern::View& to = call.outputs[own_results + k];
    if (from.memory.buffer == old && to.memory.buffer == result)
      return from.memory.offset == Expr(0) && to.memory.offset == Expr(0) && from.memory.strides == to.memory.strides;
  }
  return false;
}

}  // namespace toroid::program

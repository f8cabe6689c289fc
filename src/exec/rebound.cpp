// Programs on other memory in place of what they are bound to.
#include <algorithm>

#include "exec/blocks.h"
#include "exec/executable.h"

namespace toroid::exec {
namespace {

const Tensor* in_place_of(const InputPlan& in, std::span<const std::pair<Tensor, Tensor>> others) {
  if (in.user >= 0 || !in.data.defined()) return nullptr;
  auto found = std::find_if(others.begin(), others.end(), [&](auto& o) { return o.first.impl() == in.data.impl(); });
  return found == others.end() ? nullptr : &found->second;
}

// Whether control flow within the plan holds one of the tensors itself, instead of taking it as an operand.
bool blocks_hold(const Plan& plan, std::span<const std::pair<Tensor, Tensor>> others) {
  for (auto& step : plan.steps)
    for (auto& block : blocks_of(step)) {
      auto& inputs = block.plan->inputs;
      if (std::any_of(inputs.begin(), inputs.end(), [&](auto& in) { return in_place_of(in, others); })) return true;
      if (blocks_hold(*block.plan, others)) return true;
    }
  return false;
}

}  // namespace

std::unique_ptr<Executable> Executable::rebound(std::span<const std::pair<Tensor, Tensor>> others) const {
  if (blocks_hold(plan_, others)) return nullptr;
  Plan plan = plan_;
  for (InputPlan& in : plan.inputs)
    if (const Tensor* other = in_place_of(in, others)) in.data = *other;
  return std::make_unique<Executable>(std::move(plan));
}

}  // namespace toroid::exec

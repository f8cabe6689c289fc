// Programs on other memory in place of what they are bound to.
#include <algorithm>

#include "exec/run/executable.h"
#include "exec/steps.h"

namespace toroid::exec {
namespace {

const Tensor* in_place_of(const Tensor& mine, std::span<const std::pair<Tensor, Tensor>> others) {
  if (!mine.defined()) return nullptr;
  auto found = std::find_if(others.begin(), others.end(), [&](auto& o) { return o.first.impl() == mine.impl(); });
  return found == others.end() ? nullptr : &found->second;
}

// Whether control flow within the program holds one of the tensors itself, instead of taking it as an operand.
bool blocks_hold(const Loaded& loaded, std::span<const std::pair<Tensor, Tensor>> others) {
  for (auto& step : loaded.steps)
    for (auto& block : step.blocks) {
      if (std::any_of(block.inputs.begin(), block.inputs.end(), [&](auto& t) { return in_place_of(t, others); })) return true;
      if (blocks_hold(block, others)) return true;
    }
  return false;
}

}  // namespace

std::unique_ptr<Executable> Executable::rebound(std::span<const std::pair<Tensor, Tensor>> others) const {
  if (blocks_hold(loaded_, others)) return nullptr;
  Loaded loaded = loaded_;
  for (Tensor& t : loaded.inputs)
    if (const Tensor* other = in_place_of(t, others)) t = *other;
  return std::make_unique<Executable>(plan_, std::move(loaded));
}

}  // namespace toroid::exec

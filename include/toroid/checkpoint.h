// Parts of a function whose values are not kept for its gradients, but computed again when they are needed.
//
//   for (const Block& block : blocks) x = checkpoint([&] { return block(x); });
//
// Memory then holds what enters and leaves each part; arithmetic grows by one more forward pass at most.
#pragma once

#include <functional>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

struct CheckpointPolicy {
  // ATen names of operations whose results are kept all the same, as "mm" or "scaled_dot_product_attention"; without the overload, all of
  // its overloads.
  std::vector<std::string> save = {};
};

namespace detail {
std::vector<Tensor> checkpointed(const std::function<std::vector<Tensor>()>& fn, const CheckpointPolicy& policy,
                                 const std::source_location& where);
}

// fn(), which returns a Tensor or a std::vector<Tensor>. Gradients are the same: random numbers are drawn once more as they were
// drawn first, and products have the same bits; which products and sums are contracted to one rounding may change with what is fused.
// fn's writes to tensors in place happen once.
//
// Within a function that is compiled or differentiated this marks what fn calls. A checkpoint within another one has no effect of its own.
// Where operations are remembered for backward(), fn runs once, on stand-ins without elements, and all of it is computed again: a read of a
// value (item()) is a UserError there, and so is a write to a tensor that requires gradients. UserError, too, for a name in the policy that
// no operation has.
template <class Fn>
auto checkpoint(Fn&& fn, const CheckpointPolicy& policy = {}, const std::source_location& where = std::source_location::current()) {
  if constexpr (std::is_convertible_v<std::invoke_result_t<Fn&>, Tensor>)
    return detail::checkpointed([&] { return std::vector<Tensor>{fn()}; }, policy, where).at(0);
  else
    return detail::checkpointed([&] { return std::vector<Tensor>(fn()); }, policy, where);
}

}  // namespace toroid

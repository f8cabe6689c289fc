// Gradients that operations are made of. The room above this one differentiates, and says here how.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::ops {

// The product of `cotangents`, one a float result of fn in their order, with fn's Jacobian by `by`; see vjp() of toroid/grad.h. Whoever
// differentiates installs it; until then a call is an InternalError.
using VectorJacobian = std::vector<Tensor> (*)(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                                               std::span<const Tensor> cotangents);
void install_vector_jacobian(VectorJacobian f);
VectorJacobian vector_jacobian();

}  // namespace toroid::ops

// Gradients of custom operations (toroid/custom_op.h) that are given by a function, for backward() and for gradients of functions.
//
//   register_custom_op_gradient(cube, [](const CustomGradientCall& c) {
//     return std::vector<Tensor>{c.cotangents[0] * c.inputs[0] * c.inputs[0] * 3};
//   });
#pragma once

#include <functional>
#include <vector>

#include "toroid/custom_op.h"

namespace toroid {

// A call of a custom operation, as its gradient sees it. What the gradient needs besides is to be a result of the operation.
struct CustomGradientCall {
  std::vector<CustomArg> arguments;  // all of the call's
  std::vector<Tensor> inputs;        // the tensors among them, those of lists one after the other
  std::vector<Tensor> outputs;       // the call's results
  std::vector<Tensor> cotangents;    // by result, of its sizes and dtype: what a change of each element changes
};

// The gradients of `inputs`, in their order, each of the sizes and dtype of its input; undefined: 0.
using CustomGradient = std::function<std::vector<Tensor>(const CustomGradientCall&)>;

// Gives an operation a gradient in place of those of what it is made of. In compiled functions and for gradients of functions it is called
// on stand-ins without elements, and becomes a part of the program. backward() keeps all tensors of a call for it. UserError for an
// operation that writes to its arguments, for one that has a gradient already, and for an empty function.
void register_custom_op_gradient(const CustomOpBase& op, CustomGradient gradient);

}  // namespace toroid

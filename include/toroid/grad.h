// Gradients of functions over tensors.
//
//   auto [loss, gradients] = value_and_gradients([&] { return mse_loss(linear(x, w, b), y); }, {w, b});
//
// Inside of a compiled function they become a part of its program: forward and backward are fused, and what neither needs is not computed.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

// fn(), which is one float (a loss), and its gradients by the float tensors `by`, in their order: each of the sizes and dtype of its
// tensor, zeros where the loss does not depend on it. fn may write to tensors in place, as batch normalization does; what it writes stays
// written. It runs once, on stand-ins without elements: a read of a value (item()) is a UserError. UserError, too, for a result that is
// not one float, for tensors that are no floats, and naming operation and line where an operation between them has no gradient.
std::pair<Tensor, std::vector<Tensor>> value_and_gradients(const std::function<Tensor()>& fn, std::span<const Tensor> by,
                                                           Tensor::Where where = Tensor::Where::current());
inline std::pair<Tensor, std::vector<Tensor>> value_and_gradients(const std::function<Tensor()>& fn, std::initializer_list<Tensor> by,
                                                                  Tensor::Where where = Tensor::Where::current()) {
  return value_and_gradients(fn, std::span<const Tensor>(by.begin(), by.size()), where);
}

// The results of fn(), and the product of `cotangents`, one a float result in their order and of its sizes, with fn's Jacobian by `by`
// (a vector-Jacobian product). Otherwise as value_and_gradients.
std::pair<std::vector<Tensor>, std::vector<Tensor>> vjp(const std::function<std::vector<Tensor>()>& fn, std::span<const Tensor> by,
                                                        std::span<const Tensor> cotangents, Tensor::Where where = Tensor::Where::current());

namespace detail {
inline const Tensor* tensor_or_null(const Tensor& t) { return &t; }
template <class T>
const Tensor* tensor_or_null(const T&) {
  return nullptr;
}
// UserError where one of `positions` is no tensor among the arguments.
std::vector<Tensor> picked(std::span<const Tensor* const> arguments, std::span<const size_t> positions);
}  // namespace detail

// A function of fn's arguments that returns fn's value, one float, and its gradients by the tensors at `positions`.
template <class Fn>
auto value_and_grad(Fn fn, std::vector<size_t> positions = {0}) {
  return [fn = std::move(fn), positions = std::move(positions)](const auto&... arguments) {
    const std::array<const Tensor*, sizeof...(arguments)> tensors{detail::tensor_or_null(arguments)...};
    return value_and_gradients([&] { return Tensor(fn(arguments...)); }, detail::picked(tensors, positions));
  };
}

// A function of fn's arguments that returns the gradient of fn's value, one float, by its first argument. It can be given to grad() again.
template <class Fn>
auto grad(Fn fn) {
  return [f = value_and_grad(std::move(fn))](const auto&... arguments) { return f(arguments...).second[0]; };
}

}  // namespace toroid

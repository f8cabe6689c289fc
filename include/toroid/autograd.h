// Gradients of what is called operation by operation: Tensor::requires_grad_() and Tensor::backward(), and what goes with them.
//
//   Tensor w = rand({3, 3}).requires_grad_();
//   sum(matmul(x, w)).backward();
//   {
//     NoGrad updates;
//     sub_(w, w.grad() * 0.1);
//   }
//   w.zero_grad();
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "toroid/tensor.h"

namespace toroid {

struct GradHook;

// While it lives, this thread remembers no operation for backward(): results require no gradients, and leaves that do may be written in
// place. Scopes nest, and end in the reverse order. A function that is being compiled sees only the scopes within it; those around its call
// say whether the call is remembered. What it writes within one keeps the history that it had, which for a buffer is none.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

// The other way round, within a NoGrad.
class EnableGrad {
 public:
  EnableGrad();
  ~EnableGrad();
  EnableGrad(const EnableGrad&) = delete;
  EnableGrad& operator=(const EnableGrad&) = delete;

 private:
  bool before_;
};

// What is in force on this thread.
bool is_grad_enabled();

// fn() within a NoGrad.
template <class Fn>
decltype(auto) no_grad(Fn&& fn) {
  const NoGrad scope;
  return std::forward<Fn>(fn)();
}

// While it lives, backward() on this thread looks for NaN: the first operation whose gradients have one where none came in is a UserError
// that names the operation and the line that called it. Each gradient is read, which costs time.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(bool on = true);
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  bool before_;
};

// Of a hook (Tensor::register_hook). The hook stays where the handle goes.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::weak_ptr<GradHook> hook) : hook_(std::move(hook)) {}
  // The hook is not called any more. Nothing happens where it is gone.
  void remove();

 private:
  std::weak_ptr<GradHook> hook_;
};

}  // namespace toroid

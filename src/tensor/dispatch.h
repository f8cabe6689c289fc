// The dispatch hook: each operation on tensors is handed to the innermost Dispatcher of the thread (eager, or recording a graph).
#pragma once

#include <complex>
#include <string>
#include <variant>
#include <vector>

#include "tensor/tensor_impl.h"

namespace toroid {

namespace ops {
struct Op;
}

// One argument of an operation, in the order of the operation's schema. T is a tensor at the level in question: Tensor (calls),
// graph::Value* (nodes), const TensorType* (type rules). A null T in a list is a hole (Tensor?[]).
template <class T>
using Arg = std::variant<std::monostate, T, std::vector<T>, Expr, std::vector<Expr>, double, std::vector<double>, bool, std::vector<bool>,
                         std::string, DType, std::complex<double>>;
using CallArgs = std::vector<Arg<Tensor>>;

// Replaces the tensors of an argument.
template <class To, class From, class F>
Arg<To> map_arg(const Arg<From>& a, F&& f) {
  return std::visit(
      [&](const auto& v) -> Arg<To> {
        using V = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<V, From>) {
          return f(v);
        } else if constexpr (std::is_same_v<V, std::vector<From>>) {
          std::vector<To> out;
          for (auto& x : v) out.push_back(f(x));
          return out;
        } else {
          return v;
        }
      },
      a);
}

// Each function is pure, so that no dispatcher inherits an answer by oversight: a layer that handed on all but one would change what that
// one means to those below. Where the usual answer fits, an override calls it: Dispatcher::require(r, error).
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  // Performs or records op. Tensor lists among the results are flattened.
  virtual std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) = 0;
  // Truth of a relation between sizes; a recorder adds a guard when it is not known.
  virtual bool decide(const sym::Relation& r) = 0;
  // UserError with the message `error` unless the relation, which is not known, holds; a recorder makes it a guard that says so. The usual
  // answer decides.
  virtual void require(const sym::Relation& r, const std::string& error) = 0;
  // Value of a size; a recorder fixes it by a guard.
  virtual int64_t specialize(const Expr& e) = 0;
  // A tensor without memory, one that is being traced, is about to be read by `what` ("item()"): afterwards it has some.
  virtual void read(const Tensor& t, std::string_view what, const std::source_location& where) = 0;
  // t on another device: copied at once, unless a recorder makes it a part of the program. The usual answer reads and copies.
  virtual Tensor move(const Tensor& t, const Device& device, const std::source_location& where) = 0;
  // Copies between tensors of one GPU that differ in dtype or are not both dense, without the host. False, the usual answer: cannot.
  virtual bool copy(const Tensor& from, const Tensor& to) = 0;
};

// The innermost dispatcher of this thread; the process-wide eager one when none is active (InternalError if none was installed).
Dispatcher& current_dispatcher();
// The innermost one, and the eager one, where there is one; else null.
Dispatcher* innermost_dispatcher();
Dispatcher* eager_dispatcher();
void install_eager_dispatcher(Dispatcher* eager);

// Makes `d` the innermost dispatcher of this thread for the lifetime of the scope.
class DispatchScope {
 public:
  explicit DispatchScope(Dispatcher& d);
  ~DispatchScope();
  DispatchScope(const DispatchScope&) = delete;
  DispatchScope& operator=(const DispatchScope&) = delete;

 private:
  Dispatcher* before_;
};

// dtype, sizes and strides of a tensor value. Strides are set where memory is given (inputs, constants); empty means row-major.
struct TensorType {
  DType dtype = DType::F32;
  std::vector<Expr> sizes;
  std::vector<Expr> strides;

  int64_t dim() const { return static_cast<int64_t>(sizes.size()); }
  Expr numel() const;
  bool operator==(const TensorType&) const = default;
};
std::string to_string(const TensorType& t);  // "f32[2, s0]"

}  // namespace toroid

// Tensor: a cheap handle to typed, strided elements, or to a value of a graph that is being traced.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "toroid/device.h"
#include "toroid/dtype.h"
#include "toroid/error.h"
#include "toroid/sym_expr.h"
#include "toroid/tensor_watch.h"

namespace toroid {

// Whole numbers of C++, of any type and sign.
template <class I>
concept Integer = std::integral<I> && !std::same_as<std::remove_cv_t<I>, bool>;

namespace detail {
[[noreturn]] void fail_too_large(uint64_t v);
// As a size or an index. UserError for more than those have room for.
template <Integer I>
constexpr int64_t to_int64(I v) {
  if constexpr (std::is_unsigned_v<I> && sizeof(I) >= sizeof(int64_t))
    if (v > static_cast<uint64_t>(INT64_MAX)) fail_too_large(v);
  return static_cast<int64_t>(v);
}
}  // namespace detail

struct TensorImpl;
class HookHandle;  // toroid/autograd.h

// A size that may be symbolic while a function is traced with dynamic shapes. Comparing two of them while tracing decides by the
// sizes at hand and adds a guard; outside of tracing it is an ordinary integer.
class SymInt {
 public:
  template <Integer I>
  SymInt(I v) : expr_(detail::to_int64(v)) {}  // NOLINT
  SymInt(Expr e) : expr_(std::move(e)) {}      // NOLINT
  const Expr& expr() const { return expr_; }
  // The plain number. While tracing, a symbolic size becomes fixed by a guard.
  operator int64_t() const;

  friend SymInt operator+(const SymInt& a, const SymInt& b) { return a.expr_ + b.expr_; }
  friend SymInt operator-(const SymInt& a, const SymInt& b) { return a.expr_ - b.expr_; }
  friend SymInt operator-(const SymInt& a) { return Expr(0) - a.expr_; }
  friend SymInt operator*(const SymInt& a, const SymInt& b) { return a.expr_ * b.expr_; }
  friend SymInt operator/(const SymInt& a, const SymInt& b) { return sym::floor_div(a.expr_, b.expr_); }
  friend SymInt operator%(const SymInt& a, const SymInt& b) { return sym::mod(a.expr_, b.expr_); }
  friend bool operator==(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Eq, a, b); }
  friend bool operator!=(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Ne, a, b); }
  friend bool operator<(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Lt, a, b); }
  friend bool operator<=(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Le, a, b); }
  friend bool operator>(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Gt, a, b); }
  friend bool operator>=(const SymInt& a, const SymInt& b) { return decide(sym::Rel::Ge, a, b); }

// With plain integers: without these, the conversions of both sides would be equally good.
#define TOROID_SIZE_OPERATOR(result, op) \
  template <std::integral I> \
  friend result operator op(const SymInt& a, I b) { \
    return a op SymInt(+b); \
  } \
  template <std::integral I> \
  friend result operator op(I a, const SymInt& b) { \
    return SymInt(+a) op b; \
  }
  TOROID_SIZE_OPERATOR(SymInt, +)
  TOROID_SIZE_OPERATOR(SymInt, -)
  TOROID_SIZE_OPERATOR(SymInt, *)
  TOROID_SIZE_OPERATOR(SymInt, /)
  TOROID_SIZE_OPERATOR(SymInt, %)
  TOROID_SIZE_OPERATOR(bool, ==)
  TOROID_SIZE_OPERATOR(bool, !=)
  TOROID_SIZE_OPERATOR(bool, <)
  TOROID_SIZE_OPERATOR(bool, <=)
  TOROID_SIZE_OPERATOR(bool, >)
  TOROID_SIZE_OPERATOR(bool, >=)
#undef TOROID_SIZE_OPERATOR

 private:
  static bool decide(sym::Rel rel, const SymInt& a, const SymInt& b);
  Expr expr_;
};

// A size that is known: an integer of any type, or a SymInt, which is fixed by that while tracing.
class Size {
 public:
  template <Integer I>
  constexpr Size(I v) : value_(detail::to_int64(v)) {}   // NOLINT
  Size(const SymInt& v) : value_(v) {}                   // NOLINT
  constexpr operator int64_t() const { return value_; }  // NOLINT
  using List = std::initializer_list<Size>;
  static std::vector<int64_t> values(List list) { return {list.begin(), list.end()}; }

 private:
  int64_t value_;
};

namespace detail {
// A place along a dimension, and the line that named it.
struct Position {
  SymInt index;
  std::source_location where;
  template <Integer I>
  Position(I i, std::source_location where = std::source_location::current()) : index(i), where(where) {}              // NOLINT
  Position(const SymInt& i, std::source_location where = std::source_location::current()) : index(i), where(where) {}  // NOLINT
};

// What data<T>() is asked for. Raw: bytes. Other: a class, such as a half type of a library.
enum class ElementKind : uint8_t { Raw, Bool, Signed, Unsigned, Float, Complex, Other };

template <class T>
constexpr ElementKind element_kind() {
  using E = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<E, std::byte> || std::is_same_v<E, char>) return ElementKind::Raw;
  if constexpr (std::is_same_v<E, bool>) return ElementKind::Bool;
  if constexpr (std::is_floating_point_v<E>) return ElementKind::Float;
  if constexpr (std::is_same_v<E, std::complex<float>> || std::is_same_v<E, std::complex<double>>) return ElementKind::Complex;
  if constexpr (std::is_integral_v<E>) return std::is_signed_v<E> ? ElementKind::Signed : ElementKind::Unsigned;
  return ElementKind::Other;
}
}  // namespace detail

// Copies of a Tensor share its elements. Every member function of an undefined tensor but defined(), requires_grad(), and the assignments
// is a UserError. A tensor that was moved from is undefined.
class Tensor {
 public:
  // Who asks: the line that errors name.
  using Where = std::source_location;

  Tensor() = default;  // undefined
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor& other) : impl_(other.impl_) { other.watch_.read(); }
  Tensor(Tensor&& other) noexcept : impl_(std::move(other.impl_)) { other.watch_.change(); }
  Tensor& operator=(const Tensor& other) & {
    other.watch_.read();
    if (impl_ == other.impl_) return *this;
    watch_.change();
    impl_ = other.impl_;
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    if (watch_.noted() || other.watch_.noted()) [[unlikely]]
      tell_move(other);
    impl_ = std::move(other.impl_);
    return *this;
  }
  // Not `x[0] = y`, which would give a temporary handle another tensor and change no element: copy_(x[0], y) writes them.
  Tensor& operator=(const Tensor& other) && = delete;  // write elements by copy_(x[0], y)
  ~Tensor() = default;

  // Uninitialised, row-major, 64-byte aligned. Sizes in elements, none negative.
  static Tensor empty(std::span<const int64_t> sizes, DType dtype, const Device& device = Device::cpu());
  static Tensor empty(Size::List sizes, DType dtype, const Device& device = Device::cpu()) {
    return empty(Size::values(sizes), dtype, device);
  }
  // UserError for a number that an integer dtype has no room for.
  static Tensor full(std::span<const int64_t> sizes, double value, DType dtype = DType::F32, const Device& device = Device::cpu());
  template <Integer I>
  static Tensor full(std::span<const int64_t> sizes, I value, DType dtype = DType::F32, const Device& device = Device::cpu()) {
    return full_of_integer(sizes, detail::to_int64(value), dtype, device);
  }
  template <class N>
  static Tensor full(Size::List sizes, N value, DType dtype = DType::F32, const Device& device = Device::cpu()) {
    return full(std::span<const int64_t>(Size::values(sizes)), value, dtype, device);
  }
  // Copies the numbers, converting them to dtype. UserError when their count is not the product of the sizes, or an integer dtype has no
  // room for one of them.
  static Tensor of(std::span<const double> values, std::span<const int64_t> sizes, DType dtype = DType::F32,
                   const Device& device = Device::cpu(), Where where = Where::current());
  static Tensor of(std::initializer_list<double> values, Size::List sizes, DType dtype = DType::F32, const Device& device = Device::cpu(),
                   Where where = Where::current()) {
    return of(std::span(values.begin(), values.size()), Size::values(sizes), dtype, device, where);
  }
  // Copies the numbers as they are, in the dtype of their C++ type: float gives F32, double F64, int64_t I64. Without sizes of one
  // dimension.
  template <class T>
  static Tensor from_vector(const std::vector<T>& values, std::span<const int64_t> sizes, const Device& device = Device::cpu(),
                            Where where = Where::current()) {
    if constexpr (std::is_same_v<T, bool>) {  // its vector has no elements in memory
      const std::vector<uint8_t> bytes(values.begin(), values.end());
      return copied(bytes.data(), bytes.size(), detail::element_kind<T>(), 1, sizes, device, where);
    } else {
      return copied(values.data(), values.size(), detail::element_kind<T>(), sizeof(T), sizes, device, where);
    }
  }
  template <class T>
  static Tensor from_vector(const std::vector<T>& values, Size::List sizes, const Device& device = Device::cpu(),
                            Where where = Where::current()) {
    return from_vector(values, Size::values(sizes), device, where);
  }
  template <class T>
  static Tensor from_vector(const std::vector<T>& values, const Device& device = Device::cpu(), Where where = Where::current()) {
    return from_vector(values, {values.size()}, device, where);
  }
  // A view of memory of a device that is owned elsewhere, and which `owner` keeps alive. strides in elements; empty means row-major.
  static Tensor from_blob(void* data, std::span<const int64_t> sizes, DType dtype, std::span<const int64_t> strides = {},
                          std::shared_ptr<void> owner = nullptr, const Device& device = Device::cpu());

  bool defined() const {
    watch_.read();
    return impl_ != nullptr;
  }
  DType dtype() const;
  Device device() const;
  int64_t dim() const;
  // d may be negative, counting from the end. UserError when out of range.
  SymInt size(int64_t d, Where where = Where::current()) const;
  std::vector<SymInt> sym_sizes() const;
  // Plain numbers: while tracing, guards fix them, and other sizes cost another compile. size() and sym_sizes() keep them open.
  const std::vector<int64_t>& sizes() const;
  int64_t numel() const;

  // What needs the memory ends the traced segment (a graph break) while tracing.
  const std::vector<int64_t>& strides(Where where = Where::current()) const;
  bool is_contiguous(Where where = Where::current()) const;
  std::byte* raw_data(Where where = Where::current()) const;  // of the first element; an address of the tensor's device
  // The same, as T: the C++ type of the dtype (float, double, bool, int8_t to int64_t, uint8_t to uint64_t, std::complex), or std::byte or
  // char for bytes. f16 and bf16 have none: uint16_t, or a class of that size. UserError that names both types for another T.
  template <class T>
  T* data(Where where = Where::current()) const {
    return reinterpret_cast<T*>(typed_data(detail::element_kind<T>(), sizeof(T), where));
  }
  // The single element as a number. UserError unless numel() == 1.
  double item(Where where = Where::current()) const;
  // The same as T, a number type of C++ or bool. UserError where T has no such value: 1.5 or 300 as uint8_t. Floats are rounded to T.
  template <class T>
  T item(Where where = Where::current()) const {
    T out;
    read_numbers(detail::element_kind<T>(), sizeof(T), reinterpret_cast<std::byte*>(&out), true, where);
    return out;
  }
  // All elements in row-major order, as doubles, or as T.
  std::vector<double> to_vector(Where where = Where::current()) const;
  template <class T>
  std::vector<T> to_vector(Where where = Where::current()) const {
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<uint8_t> bytes(static_cast<size_t>(numel()));
      read_numbers(detail::ElementKind::Bool, 1, reinterpret_cast<std::byte*>(bytes.data()), false, where);
      return {bytes.begin(), bytes.end()};
    } else {
      std::vector<T> out(static_cast<size_t>(numel()));
      read_numbers(detail::element_kind<T>(), sizeof(T), reinterpret_cast<std::byte*>(out.data()), false, where);
      return out;
    }
  }
  // Element or part i along the first dimension, from the end where it is negative: select(x, 0, i). It can be traced.
  Tensor operator[](const detail::Position& i) const;
  // Row-major copy (or itself when it is that already). It can be traced.
  Tensor contiguous(Where where = Where::current()) const;
  // The same elements in the memory of another device (or itself, when they are there already). It can be traced. EnvironmentError when
  // there is no such device, or not enough memory.
  Tensor to(const Device& device, Where where = Where::current()) const;
  // The same elements converted (or itself, when they are of the dtype already). It can be traced.
  Tensor to(DType dtype, Where where = Where::current()) const;
  // A view with other sizes and strides (in elements) on this storage, from `offset` elements behind the first on. It can be traced.
  Tensor as_strided(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset = 0,
                    Where where = Where::current()) const;

  // --- Gradients. What is called on a tensor that requires gradients, and on what follows from it, is remembered until backward(), except
  // within a NoGrad (toroid/autograd.h). In functions that are being compiled use toroid/grad.h instead: there only requires_grad() and
  // detach() have a meaning.

  // Whether it asks for its gradient (a leaf), or follows from one that does.
  bool requires_grad() const;
  // Makes a leaf ask for its gradient, or no longer. UserError for dtypes without gradients, and (false) for what is no leaf: detach() it.
  Tensor& requires_grad_(bool value = true, Where where = Where::current());
  Tensor& set_requires_grad(bool value, Where where = Where::current()) { return requires_grad_(value, where); }
  // Whether the user made it: nothing is remembered of how its elements came about.
  bool is_leaf() const;
  // Adds the gradient of this tensor by each leaf that requires gradients to grad() of the leaf. `gradient`: what a change of each element
  // of this tensor changes, of its sizes, dtype and device; undefined: 1, for a tensor of one element. What operations have kept for their
  // gradients is freed unless retain_graph, and a second backward() through them is a UserError. Other UserErrors: a tensor that does not
  // require gradients; a tensor that an operation needs was written in place since; an operation has no gradient. Two threads may walk
  // through what they share only where both retain_graph. Gradients of gradients: toroid/grad.h.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, Where where = Where::current()) const;
  // What backward() has added up, of the sizes and dtype of this tensor; undefined where nothing was yet.
  Tensor grad(Where where = Where::current()) const;
  // Puts a tensor of the same sizes, dtype and device in place of grad(), or, undefined, forgets it.
  void set_grad(const Tensor& gradient, Where where = Where::current()) const;
  void zero_grad(Where where = Where::current()) const { set_grad({}, where); }
  // Lets backward() keep the gradient of what is no leaf, too. UserError for what does not require gradients.
  void retain_grad(Where where = Where::current()) const;
  // backward() calls hook with the gradient of this tensor when all parts of it have come together, before it goes further or into grad();
  // where the hook returns a defined tensor, of the same sizes and dtype, that is the gradient from there on. Hooks are called in the order
  // in which they were registered. UserError for what does not require gradients.
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook, Where where = Where::current()) const;
  // The same elements as a leaf that requires no gradients.
  Tensor detach(Where where = Where::current()) const;

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared_impl() const { return impl_; }

 private:
  static Tensor full_of_integer(std::span<const int64_t> sizes, int64_t value, DType dtype, const Device& device);
  std::byte* typed_data(detail::ElementKind kind, size_t size, Where where) const;
  static Tensor copied(const void* values, size_t count, detail::ElementKind kind, size_t size, std::span<const int64_t> sizes,
                       const Device& device, Where where);
  void read_numbers(detail::ElementKind kind, size_t size, std::byte* out, bool single, Where where) const;
  void tell_move(Tensor& from) noexcept;

  std::shared_ptr<TensorImpl> impl_;
  detail::Watch watch_;  // for functions that capture this object
};

// Dtype, sizes, device (unless it is the CPU) and elements: the first 8; or all by rows, of more than 1000 three at the ends of dimensions.
std::string to_string(const Tensor& t);
std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace toroid

// What the functions of toroid/ops.h take: operands, sizes and dimensions.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

// A tensor or a number on either side of an operator; it remembers the line where it was written. A number takes part in type
// promotion by its category only: f16 + 0.5 stays f16.
class Operand {
 public:
  Operand(const Tensor& t, std::source_location where = std::source_location::current()) : value_(t), where_(where) {}  // NOLINT
  Operand(double v, std::source_location where = std::source_location::current()) : value_(v), where_(where) {}         // NOLINT
  template <Integer I>
  Operand(I v, std::source_location where = std::source_location::current()) : value_(SymInt(v)), where_(where) {}  // NOLINT
  template <std::same_as<bool> B>  // and nothing that converts to one, as text does
  Operand(B v, std::source_location where = std::source_location::current()) : value_(v), where_(where) {}              // NOLINT
  Operand(const SymInt& v, std::source_location where = std::source_location::current()) : value_(v), where_(where) {}  // NOLINT

  const std::variant<Tensor, SymInt, double, bool>& value() const { return value_; }
  bool is_tensor() const { return value_.index() == 0; }
  const std::source_location& where() const { return where_; }

 private:
  std::variant<Tensor, SymInt, double, bool> value_;
  std::source_location where_;
};

// Sizes, strides or other integers that may be symbolic: {2, x.size(0)}, or one number.
class SizeList {
 public:
  SizeList(std::initializer_list<SymInt> v) : values_(v) {}   // NOLINT
  SizeList(std::vector<SymInt> v) : values_(std::move(v)) {}  // NOLINT
  template <Integer I>
  SizeList(const std::vector<I>& v) : values_(v.begin(), v.end()) {}  // NOLINT
  SizeList(const SymInt& v) : values_{v} {}                           // NOLINT
  template <Integer I>
  SizeList(I v) : values_{SymInt(v)} {}  // NOLINT
  const std::vector<SymInt>& values() const { return values_; }

 private:
  std::vector<SymInt> values_;
};

// Dimensions: one, several, or none (which means all of them where an operation reduces).
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<Size> v) : values_(Size::values(v)) {}  // NOLINT
  Dims(std::vector<int64_t> v) : values_(std::move(v)) {}            // NOLINT
  template <Integer I>
  Dims(I v) : values_{detail::to_int64(v)} {}  // NOLINT
  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> values_;
};

// One of the words that an operation knows. From text alone: the number 0 is no empty pointer here.
class Word {
 public:
  template <class T>
  requires(std::convertible_to<const T&, std::string_view> && !std::same_as<T, std::nullptr_t>) Word(const T& text)  // NOLINT
      : text_(std::string_view(text)) {}
  operator std::string_view() const { return text_; }  // NOLINT
  explicit operator std::string() const { return std::string(text_); }

 private:
  std::string_view text_;
};

// What a loss makes of its elements: "none", "mean" or "sum", or the numbers 0, 1 and 2 that ATen has for these.
class Reduction {
 public:
  template <class T>
  requires std::convertible_to<T, std::string_view> Reduction(const T& name) : name_(name) {}  // NOLINT
  template <std::integral I>
  Reduction(I number) : number_(detail::to_int64(number)) {}  // NOLINT
  Reduction(std::nullptr_t) = delete;
  // As ATen has it. UserError for another word or number, naming the operation and the place.
  int64_t number(std::string_view op, const std::source_location& where) const;
  std::string_view name() const { return name_; }  // empty for numbers

 private:
  std::string_view name_;
  int64_t number_ = -1;
};

using Where = std::source_location;

}  // namespace toroid

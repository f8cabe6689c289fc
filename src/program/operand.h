// Operands of problems, and what the fields of a kind of problem are said by.
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "loop/node.h"
#include "toroid/tensor.h"

namespace toroid::program {

// A strided view of a buffer: element (i, j, ...) is at offset + i * strides[0] + ...
struct Operand {
  int buffer = -1;
  DType dtype = DType::F32;
  Expr offset = 0;
  std::vector<Expr> strides;
};

// MayRead, MayWrite: the operand may be absent, which is without a buffer. Update: what is there is read, and written.
enum class Use : uint8_t { Read, MayRead, Write, MayWrite, Update };
constexpr bool reads(Use use) { return use == Use::Read || use == Use::MayRead || use == Use::Update; }
constexpr bool writes(Use use) { return use == Use::Write || use == Use::MayWrite || use == Use::Update; }
constexpr bool is_required(Use use) { return use != Use::MayRead && use != Use::MayWrite; }

template <class P, class Kind>
concept IsKind = std::same_as<std::remove_const_t<P>, Kind>;

// The operands of a problem in memory, in the order of its fields; undefined: absent. An optional operand that is not there is left out.
using Tensors = std::vector<Tensor>;

inline std::vector<Expr> joined(std::vector<Expr> front, std::initializer_list<Expr> back) {
  front.insert(front.end(), back);
  return front;
}

inline Expr product(const std::vector<Expr>& factors) {
  Expr n = 1;
  for (auto& f : factors) n *= f;
  return n;
}

// An element of a tensor in the host's memory.
Number element(const Tensor& t, std::span<const int64_t> at);
inline Number element(const Tensor& t, std::initializer_list<int64_t> at) { return element(t, std::span(at.begin(), at.size())); }
void set_element(const Tensor& t, std::span<const int64_t> at, const Number& value);

// Calls visit(at) for each row along the last dimension: at has its place in the others, and 0.
void each_row(const std::vector<int64_t>& sizes, const std::function<void(std::vector<int64_t>& at)>& visit);

}  // namespace toroid::program

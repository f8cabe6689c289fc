// The epilogue of a product or convolution as libraries compute it: a chain of operations on the sum, and the memory that they touch.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "extern/onednn/onednn.h"
#include "program/program.h"

namespace toroid::backend {

// One operation of a library on the running value, and the step of the body that holds its result.
struct Link {
  external::PostOpKind kind;
  int load = -1;  // Add, Mul: the step that reads the other operand
  int value = -1;
  std::string_view name;
};

struct Chain {
  int first = -1;  // the accumulator
  std::vector<Link> links;
  const loop::Statement* store = nullptr;  // the only thing that happens to the last value, rounded perhaps
  int value(size_t length) const { return length == 0 ? first : links[length - 1].value; }
};

// The longest chain that the body begins with; body outlives it.
Chain read_chain(const loop::Body& body);

// The numbers, where all are known.
std::optional<std::vector<int64_t>> constants(const std::vector<Expr>& list);
// Dimensions with stride 0 are repeated: they have size 1 here.
external::TensorMemory memory_of(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset = 0);
// Where a body reads or writes, over the variables of its domain; nullopt when the index is not linear in them.
std::optional<external::TensorMemory> memory_of(const loop::Domain& domain, const Expr& index, DType dtype);
// Where the node's only store puts its results; nullopt when a library cannot put them there.
std::optional<external::TensorMemory> direct_result(const program::Node& node, const Chain& chain);

// Order of the dimensions of channels-last memory, outermost first.
inline constexpr size_t kChannelsLast[] = {0, 2, 3, 1};
// Strides of memory without gaps whose dimensions lie in this order, outermost first.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& sizes, std::span<const size_t> order);
// Gives dimensions of size 1, whose strides say nothing, those of channels-last memory. False when the memory has another layout.
bool take_channels_last(external::TensorMemory& m);

}  // namespace toroid::backend

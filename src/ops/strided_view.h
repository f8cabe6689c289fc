// Views of ordinary tensors: other sizes and strides on the same memory, in constant time.
#pragma once

#include <functional>
#include <optional>

#include "ops/table.h"

namespace toroid::ops {

// Results of a view operation. They share memory with the first argument wherever strides can express the view; a copy is made elsewhere.
std::vector<Tensor> strided_view(const Op& op, const CallArgs& args);
// Whether a view of elements in a row is one of all of them, in their order.
bool keeps_row_order(const Op& op);

// Truth of a relation between sizes; nullopt where it depends on open ones.
using Ask = std::function<std::optional<bool>(const sym::Relation&)>;

enum class Sharing : uint8_t { View, Copy, Unknown };
struct ViewLayout {
  Sharing sharing = Sharing::Unknown;
  std::vector<Expr> strides = {};  // of a view
};

// Of elements in a row.
std::vector<Expr> row_major_strides(const std::vector<Expr>& sizes);
// Of the elements in the same order with other sizes, as PyTorch decides it: dimensions that lie behind each other are one. There must be
// as many elements.
ViewLayout reshaped_layout(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const std::vector<Expr>& to, const Ask& ask);
// Whether contiguous() gives the tensor itself.
Sharing contiguous_sharing(const std::vector<Expr>& sizes, const std::vector<Expr>& strides, const Ask& ask);

}  // namespace toroid::ops

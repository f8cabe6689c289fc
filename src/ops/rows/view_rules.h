// What the rows of the view family share: index arithmetic of reshapes and slices.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

using Index = std::vector<Expr>;

// Row-major position of `index` in a tensor of `sizes`.
Expr flat_index(const Index& index, const std::vector<Expr>& sizes);
// Inverse of flat_index.
Index split_index(const Expr& flat, const std::vector<Expr>& sizes);
// Index into a tensor of sizes `from` of element `index` of its reshape to `to`. Dimensions that correspond one to one stay simple.
Index reshape_index(const std::vector<Expr>& from, const std::vector<Expr>& to, const Index& index);
// A possibly negative position in a dimension, counted from its start.
Expr wrap_position(const Expr& position, const Expr& size);
// First element and length of slice.Tensor's result.
struct SliceRange {
  Expr start, length;
};
SliceRange slice_range(const Expr& size, const std::optional<Expr>& start, const std::optional<Expr>& end, const Expr& step);
// Sizes with one -1 resolved. UserError naming the operation when numel does not fit.
std::vector<Expr> resolve_sizes(MetaCall& c, std::vector<Expr> sizes, const Expr& numel);

// A view row and its copying twin: "select.int" and "select_copy.int". `signature` is the schema after the name.
Op& view_and_copy(Table& t, const std::string& name, const std::string& signature, Meta meta, IndexMap map, WriteBack write_back);

void add_slice_view_rows(Table& t);
void add_permute_view_rows(Table& t);
void add_tiling_view_rows(Table& t);
void add_view_scatter_rows(Table& t);

}  // namespace toroid::ops

// What the rows of the reduction family share.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

// Dimensions of parameter "dim" (int or list), normalised; empty means all.
template <class T>
std::vector<int64_t> reduced_dims(const ArgReader<T>& c, int64_t rank) {
  std::vector<int64_t> dims = c.op().schema.find("dim") >= 0 ? c.integers("dim") : std::vector<int64_t>{};
  for (auto& d : dims) d = normal_dim(c.op(), d, rank);
  return dims;
}
// Sizes after reducing `dims` (all when empty).
std::vector<Expr> reduced_sizes(const std::vector<Expr>& sizes, const std::vector<int64_t>& dims, bool keepdim);
bool keepdim_of(const TypeReader& c);

void add_reduction_primitive_rows(Table& t);
void add_reduction_moment_rows(Table& t);
void add_reduction_norm_rows(Table& t);
void add_reduction_order_rows(Table& t);
void add_quantile_rows(Table& t);
void add_reduction_histogram_rows(Table& t);
void add_reduction_loss_rows(Table& t);

}  // namespace toroid::ops

// What a tensor becomes when a part of it is overwritten: select_scatter, slice_scatter, diagonal_scatter, as_strided_scatter. Made
// of masks and padded sources, so that they fuse with what comes before and after.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/view_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

std::vector<Tensor> select_scatter(const CallReader& c) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self);
  TOROID_USER_CHECK(self.dim() > 0, "{}: a 0-d tensor has no dimension to select from", c.op().name);
  Expr size = size_at(self, dim), index = wrap_position(c.expr("index"), size);
  for (const auto& inside : {sym::Relation{sym::Rel::Ge, index, 0}, sym::Relation{sym::Rel::Lt, index, size}})
    require(inside, "{}: index {} is out of range for a dimension of size {}", c.op().name, sym::to_string(index), sym::to_string(size));
  Sizes part = sizes_of(self);
  part.erase(part.begin() + dim);
  Tensor src = unsqueeze(expand(cast_to(c.tensor("src"), self.dtype()), part), dim);
  Tensor mask = compare_int("eq", iota_along(size, dim, self.dim(), -index), 0);
  return {where(mask, src, self)};
}

std::vector<Tensor> slice_scatter(const CallReader& c) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self), rank = self.dim();
  TOROID_USER_CHECK(rank > 0, "{}: a 0-d tensor has no dimension to slice", c.op().name);
  Expr size = size_at(self, dim), step = c.expr("step");
  require({sym::Rel::Ge, step, 1}, "{}: the step must be positive", c.op().name);
  SliceRange range = slice_range(size, c.opt_expr("start"), c.opt_expr("end"), step);
  Sizes part = sizes_of(self);
  part[static_cast<size_t>(dim)] = range.length;
  Tensor src = expand(cast_to(c.tensor("src"), self.dtype()), part);
  if (range.length == Expr(0)) return {clone(self)};
  if (range.length == size) return {clone(src)};
  Expr covered = range.length;
  if (!(step == Expr(1))) {  // spread the source: each element is followed by step - 1 holes
    Tensor spread = pad_dim(unsqueeze(src, dim + 1), dim + 1, 0, step - 1);
    covered = range.length * step;
    part[static_cast<size_t>(dim)] = covered;
    src = view(spread, part);
  }
  src = pad_dim(src, dim, range.start, size - range.start - covered);
  Tensor mask;
  auto both = [&](const Tensor& m) { mask = mask.defined() ? call1("logical_and", {mask, m}) : m; };
  if (!(range.start == Expr(0))) both(compare_int("ge", iota_along(size, dim, rank, -range.start), 0));
  Expr end = range.start + (range.length - 1) * step + 1;
  if (!(end == size)) both(compare_int("lt", iota_along(size, dim, rank, -end), 0));
  if (!(step == Expr(1))) {
    Tensor phase = call1("remainder.Tensor", {iota_along(size, dim, rank, -range.start), operand(step)});
    both(compare_int("eq", phase, 0));
  }
  TOROID_CHECK(mask.defined());
  return {where(mask, src, self)};
}

std::vector<Tensor> diagonal_scatter(const CallReader& c) {
  Tensor self = c.tensor("self");
  int64_t rank = self.dim(), a = normal_dim(c.op(), c.integer("dim1"), rank), b = normal_dim(c.op(), c.integer("dim2"), rank),
          offset = c.integer("offset");
  TOROID_USER_CHECK(rank >= 2 && a != b, "{}: two different dimensions are needed", c.op().name);
  // The source lies along the rows (or the columns, below the diagonal) and is the same in the others.
  int64_t along = offset >= 0 ? a : b;
  Tensor src = cast_to(c.tensor("src"), self.dtype());
  Expr missing = size_at(self, along) - size_at(src, -1);
  src = unsqueeze(pad_dim(src, src.dim() - 1, 0, missing), -1);
  std::vector<int64_t> order(static_cast<size_t>(rank));
  int64_t next = 0;
  for (int64_t d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = d == along ? rank - 2 : d == a || d == b ? rank - 1 : next++;
  const Tensor along_a = iota_along(size_at(self, a), a, rank), distance = sub(iota_along(size_at(self, b), b, rank), along_a);
  const Tensor laid = permute(src, order);
  return {where(compare_int("eq", distance, offset), laid, self)};
}

std::vector<Tensor> as_strided_scatter(const CallReader& c) {
  Tensor self = c.tensor("self");
  Sizes sizes = c.exprs("size"), strides = c.exprs("stride");
  TOROID_USER_CHECK(sizes.size() == strides.size(), "{}: {} sizes but {} strides", c.op().name, sizes.size(), strides.size());
  // Positions of the view's elements in the row-major tensor: a strided view of 0, 1, 2, ...
  Tensor at = call1("as_strided", {iota(numel_of(self)), sizes, strides, c.opt_expr("storage_offset").value_or(0)});
  Tensor src = cast_to(c.tensor("src"), self.dtype());
  return {view(call1("index_put", {flat(self), std::vector<Tensor>{flat(at)}, flat(src)}), sizes_of(self))};
}

}  // namespace

void add_view_scatter_rows(Table& t) {
  t.composite("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter);
  t.composite("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor",
              slice_scatter);
  t.composite("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", diagonal_scatter);
  t.composite("as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor",
              as_strided_scatter);
}

}  // namespace toroid::ops

// Joining and padding: cat, stack and relatives, constant_pad_nd.
#include <algorithm>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

using namespace forms;
using Results = std::vector<Tensor>;

// Tensors of size [0] join with anything, as PyTorch has it for the sake of old programs.
bool is_skipped(const TensorType& t) { return t.dim() == 1 && t.sizes[0] == Expr(0); }

void cat_meta(MetaCall& c) {
  auto tensors = c.tensors("tensors");
  TOROID_USER_CHECK(!tensors.empty(), "{}: at least one tensor is needed", c.op().name);
  const TensorType* first = nullptr;
  for (auto* t : tensors) {
    TOROID_USER_CHECK(t, "{}: tensor {} of {} is undefined", c.op().name, std::find(tensors.begin(), tensors.end(), t) - tensors.begin(),
                      tensors.size());
    TOROID_USER_CHECK(t->dim() > 0, "{}: 0-d tensors cannot be joined", c.op().name);
    if (!first && !is_skipped(*t)) first = t;
  }
  if (!first) first = tensors[0];
  size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dim"), first->dim()));
  auto sizes = first->sizes;
  sizes[dim] = 0;
  for (auto* t : tensors) {
    if (is_skipped(*t)) continue;
    TOROID_USER_CHECK(t->dim() == first->dim(), "{}: tensors of {} and {} dimensions", c.op().name, first->dim(), t->dim());
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != dim)
        c.require_same(t->sizes[d], sizes[d], "{}: sizes {} and {} in dimension {} differ", c.op().name, sym::to_string(sizes[d]),
                       sym::to_string(t->sizes[d]), d);
    sizes[dim] = sizes[dim] + t->sizes[dim];
  }
  c.result(promoted_dtype(c), std::move(sizes));
}
void cat_kernel(KernelCall& c) {
  Tensor out = c.outputs[0];
  int64_t dim = normal_dim(c.op(), c.integer("dim"), out.dim()), start = 0;
  for (auto& t : c.tensors("tensors")) {
    if (t.dim() == 1 && t.sizes()[0] == 0) continue;
    int64_t step = out.strides()[static_cast<size_t>(dim)];
    copy_elements(t, out.as_strided(t.sizes(), out.strides(), start * step));
    start += t.sizes()[static_cast<size_t>(dim)];
  }
}

void pad_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto pad = c.exprs("pad"), sizes = self->sizes;
  TOROID_USER_CHECK(pad.size() % 2 == 0 && pad.size() / 2 <= sizes.size(), "{}: {} pad widths for a tensor of {} dimensions", c.op().name,
                    pad.size(), sizes.size());
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    Expr& s = sizes[sizes.size() - 1 - k];
    Expr to = s + pad[2 * k] + pad[2 * k + 1];
    c.require({sym::Rel::Ge, to, 0}, "{}: padding ({}, {}) leaves less than nothing of size {}", c.op().name, sym::to_string(pad[2 * k]),
              sym::to_string(pad[2 * k + 1]), sym::to_string(s));
    s = to;
  }
  c.result(self->dtype, std::move(sizes));
}
void pad_kernel(KernelCall& c) {
  Tensor self = c.tensor("self"), out = c.outputs[0];
  auto pad = c.integers("pad");
  Number value = c.number("value");
  for (int64_t i = 0; i < out.numel(); ++i) host::put(out, i, value);
  // The part of the input that stays, and its place.
  std::vector<int64_t> sizes = self.sizes();
  int64_t from = 0, to = 0;
  for (size_t k = 0; k < pad.size() / 2; ++k) {
    size_t d = sizes.size() - 1 - k;
    int64_t before = pad[2 * k], after = pad[2 * k + 1];
    sizes[d] += std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (sizes[d] <= 0) return;
    from += std::max<int64_t>(-before, 0) * self.strides()[d];
    to += std::max<int64_t>(before, 0) * out.strides()[d];
  }
  if (product(sizes) == 0) return;
  copy_elements(self.as_strided(sizes, self.strides(), from), out.as_strided(sizes, out.strides(), to));
}

std::vector<Tensor> list_of(const CallReader& c) {
  auto tensors = c.tensors("tensors");
  TOROID_USER_CHECK(!tensors.empty(), "{}: at least one tensor is needed", c.op().name);
  for (auto& t : tensors) TOROID_USER_CHECK(t.defined(), "{}: one of the tensors is undefined", c.op().name);
  return tensors;
}
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) { return call1("cat", {tensors, num(dim)}); }

Results stack(const CallReader& c) {
  auto tensors = list_of(c);
  int64_t dim = normal_dim(c.op(), c.integer("dim"), tensors[0].dim() + 1);
  for (auto& t : tensors) t = unsqueeze(t, dim);
  return {cat(tensors, dim)};
}
// Brings each tensor to at least `rank` dimensions, then joins them.
Results join_at_least(const CallReader& c, const char* atleast, int64_t dim) {
  auto tensors = list_of(c);
  for (auto& t : tensors) t = unary(atleast, t);
  return {cat(tensors, tensors[0].dim() == 1 ? 0 : dim)};
}
Results column_stack(const CallReader& c) {
  auto tensors = list_of(c);
  for (auto& t : tensors)
    if (t.dim() <= 1) t = view(t, {numel_of(t), 1});
  return {cat(tensors, 1)};
}
Results block_diag(const CallReader& c) {
  auto tensors = list_of(c);
  Expr width = 0, before = 0;
  for (auto& t : tensors) {
    TOROID_USER_CHECK(t.dim() <= 2, "{}: matrices are needed, a tensor has {} dimensions", c.op().name, t.dim());
    t = unary("atleast_2d", t);
    width = width + size_at(t, 1);
  }
  for (auto& t : tensors) {
    Expr own = size_at(t, 1);
    t = pad_dim(t, 1, before, width - before - own);
    before = before + own;
  }
  return {cat(tensors, 0)};
}

}  // namespace

void add_index_join_rows(Table& t) {
  t.primitive("cat(Tensor[] tensors, int dim=0) -> Tensor", cat_meta, cat_kernel);
  for (const char* name : {"concat", "concatenate"})
    t.composite(std::string(name) + "(Tensor[] tensors, int dim=0) -> Tensor", [](const CallReader& c) -> Results {
      return {call1("cat", {c.at("tensors"), c.at("dim")})};
    });
  t.primitive("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", pad_meta, pad_kernel);
  t.composite("stack(Tensor[] tensors, int dim=0) -> Tensor", stack);
  t.composite("hstack(Tensor[] tensors) -> Tensor", [](const CallReader& c) { return join_at_least(c, "atleast_1d", 1); });
  for (const char* name : {"vstack", "row_stack"})
    t.composite(std::string(name) + "(Tensor[] tensors) -> Tensor", [](const CallReader& c) { return join_at_least(c, "atleast_2d", 0); });
  t.composite("dstack(Tensor[] tensors) -> Tensor", [](const CallReader& c) { return join_at_least(c, "atleast_3d", 2); });
  t.composite("column_stack(Tensor[] tensors) -> Tensor", column_stack);
  t.composite("block_diag(Tensor[] tensors) -> Tensor", block_diag);
}

}  // namespace toroid::ops

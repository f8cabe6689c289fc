// Views that keep the elements and their order: reshape and its relatives, and the index arithmetic that all views share.
#include <cstring>

#include "base/check.h"
#include "ops/equal_runs.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/view_rules.h"

namespace toroid::ops {

using namespace forms;

Expr flat_index(const Index& index, const std::vector<Expr>& sizes) {
  Expr flat = 0;
  for (size_t d = 0; d < sizes.size(); ++d) flat = flat * sizes[d] + index[d];
  return flat;
}

Index split_index(const Expr& flat, const std::vector<Expr>& sizes) {
  Index out(sizes.size());
  Expr stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    // Nothing is read from a tensor without elements: any index will do.
    if (sizes[d] == Expr(1) || sizes[d] == Expr(0) || stride == Expr(0)) {
      out[d] = 0;
    } else {
      Expr e = stride == Expr(1) ? flat : sym::floor_div(flat, stride);
      bool first = true;
      for (size_t k = 0; k < d; ++k) first = first && sizes[k] == Expr(1);
      out[d] = first ? e : sym::mod(e, sizes[d]);
    }
    stride = stride * sizes[d];
  }
  return out;
}

Index reshape_index(const std::vector<Expr>& from, const std::vector<Expr>& to, const Index& index) {
  Index out;
  size_t i = 0, j = 0;
  while (i < from.size()) {
    const auto [a, b] = equal_runs(std::span(from).subspan(i), std::span(to).subspan(j));
    std::vector<Expr> run(from.begin() + static_cast<std::ptrdiff_t>(i), from.begin() + static_cast<std::ptrdiff_t>(i + a));
    std::vector<Expr> to_run(to.begin() + static_cast<std::ptrdiff_t>(j), to.begin() + static_cast<std::ptrdiff_t>(j + b));
    Index in_run(index.begin() + static_cast<std::ptrdiff_t>(j), index.begin() + static_cast<std::ptrdiff_t>(j + b));
    for (auto& e : split_index(flat_index(in_run, to_run), run)) out.push_back(e);
    i += a;
    j += b;
  }
  return out;
}

std::vector<Expr> resolve_sizes(MetaCall& c, std::vector<Expr> sizes, const Expr& numel) {
  Expr known = 1;
  int open = -1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto v = sizes[d].maybe_constant();
    if (v && *v == -1) {
      TOROID_USER_CHECK(open < 0, "{}: only one size may be -1", c.op().name);
      open = static_cast<int>(d);
    } else {
      c.require({sym::Rel::Ge, sizes[d], 0}, "{}: the size {} is negative", c.op().name, sym::to_string(sizes[d]));
      known = known * sizes[d];
    }
  }
  if (open >= 0) {
    TOROID_USER_CHECK(!(known == Expr(0)), "{}: the size -1 cannot be told from a tensor without elements", c.op().name);
    sizes[static_cast<size_t>(open)] = sym::floor_div(numel, known);
    known = known * sizes[static_cast<size_t>(open)];
  }
  c.require_same(known, numel, "{}: {} elements cannot be arranged as {}", c.op().name, sym::to_string(numel),
                 to_string(TensorType{DType::F32, sizes, {}}));
  return sizes;
}

Op& view_and_copy(Table& t, const std::string& name, const std::string& signature, Meta meta, IndexMap map, WriteBack write_back) {
  size_t dot = name.find('.');
  std::string copy = name.substr(0, dot) + "_copy" + (dot == std::string::npos ? "" : name.substr(dot));
  Op& twin = t.view(copy + signature, meta, map, nullptr);
  for (auto& p : twin.schema.params) p.alias = false;
  return t.view(name + signature, meta, map, write_back);
}

namespace {

Tensor write_reshaped(const CallReader& c, size_t, const Tensor& value) { return view(value, sizes_of(c.tensor("self"))); }

// The result sizes are asked of the type rule again: a view's index map has the same arguments.
template <std::vector<Expr> (*ResultSizes)(const TypeReader&)>
Index map_by_sizes(const TypeReader& c, size_t, const Index& index) {
  return reshape_index(c.tensor("self")->sizes, ResultSizes(c), index);
}

std::vector<Expr> view_sizes(const TypeReader& c, std::string_view param) {
  std::vector<Expr> sizes = c.exprs(param);
  Expr known = 1, *open = nullptr;
  for (auto& s : sizes) {
    if (s == Expr(-1))
      open = &s;
    else
      known = known * s;
  }
  if (open) *open = sym::floor_div(c.tensor("self")->numel(), known);
  return sizes;
}
std::vector<Expr> sizes_param(const TypeReader& c) { return view_sizes(c, "size"); }
std::vector<Expr> shape_param(const TypeReader& c) { return view_sizes(c, "shape"); }

void view_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  c.result(self->dtype, resolve_sizes(c, c.exprs("size"), self->numel()));
}
void reshape_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  c.result(self->dtype, resolve_sizes(c, c.exprs("shape"), self->numel()));
}

std::vector<Expr> flatten_sizes(const TypeReader& c) {
  auto* self = c.tensor("self");
  int64_t from = normal_dim(c.op(), c.integer("start_dim"), self->dim()), to = normal_dim(c.op(), c.integer("end_dim"), self->dim());
  TOROID_USER_CHECK(from <= to, "{}: start_dim comes after end_dim", c.op().name);
  if (self->sizes.empty()) return {Expr(1)};
  std::vector<Expr> out;
  for (int64_t d = 0; d < self->dim(); ++d) {
    if (d > from && d <= to)
      out.back() = out.back() * self->sizes[static_cast<size_t>(d)];
    else
      out.push_back(self->sizes[static_cast<size_t>(d)]);
  }
  return out;
}

std::vector<Expr> unflatten_sizes(const TypeReader& c) {
  auto* self = c.tensor("self");
  size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dim"), self->dim()));
  TOROID_USER_CHECK(!self->sizes.empty(), "{}: a 0-d tensor has no dimension to split", c.op().name);
  std::vector<Expr> parts = c.exprs("sizes");
  Expr known = 1, *open = nullptr;
  for (auto& s : parts) {
    if (s == Expr(-1))
      open = &s;
    else
      known = known * s;
  }
  if (open) {
    TOROID_USER_CHECK(!(known == Expr(0)), "{}: the size -1 cannot be told from a dimension without elements", c.op().name);
    *open = sym::floor_div(self->sizes[dim], known);
  }
  std::vector<Expr> out(self->sizes.begin(), self->sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  out.insert(out.end(), parts.begin(), parts.end());
  out.insert(out.end(), self->sizes.begin() + static_cast<std::ptrdiff_t>(dim) + 1, self->sizes.end());
  return out;
}
void unflatten_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  c.result(self->dtype, resolve_sizes(c, unflatten_sizes(c), self->numel()));
}

std::vector<Expr> unsqueeze_sizes(const TypeReader& c) {
  auto* self = c.tensor("self");
  std::vector<Expr> out = self->sizes;
  int64_t dim = c.integer("dim"), n = self->dim() + 1;
  TOROID_USER_CHECK(dim >= -n && dim < n, "{}: dimension {} is out of range for a tensor of {} dimensions", c.op().name, dim, self->dim());
  out.insert(out.begin() + (dim < 0 ? dim + n : dim), Expr(1));
  return out;
}

// Dimensions that go where they are 1.
std::vector<bool> squeezed(const TypeReader& c) {
  auto* self = c.tensor("self");
  std::vector<bool> drop(self->sizes.size(), c.op().schema.params.size() == 1);
  if (c.op().schema.params.size() > 1)
    for (int64_t d : c.integers("dim")) {
      d = normal_dim(c.op(), d, self->dim());
      if (!drop.empty()) drop[static_cast<size_t>(d)] = true;
    }
  return drop;
}
std::vector<Expr> squeeze_sizes(const TypeReader& c) {
  auto* self = c.tensor("self");
  const std::vector<bool> drop = squeezed(c);
  std::vector<Expr> out;
  for (size_t d = 0; d < drop.size(); ++d)
    if (!drop[d] || !(self->sizes[d] == Expr(1))) out.push_back(self->sizes[d]);
  return out;
}
void squeeze_meta(MetaCall& c) {
  auto out = squeeze_sizes(c);
  const std::vector<bool> drop = squeezed(c);
  // A symbolic size that is squeezed must not become 1.
  for (size_t d = 0; d < drop.size(); ++d)
    if (const Expr& s = c.tensor("self")->sizes[d]; drop[d] && !s.is_const())
      TOROID_USER_CHECK(c.decide_or_known({sym::Rel::Ne, s, 1}), "{}: the size {} is 1 here but was given as a dynamic one; make it static",
                        c.op().name, sym::to_string(s));
  c.result(c.tensor("self")->dtype, std::move(out));
}

template <std::vector<Expr> (*ResultSizes)(const TypeReader&)>
void meta_by_sizes(MetaCall& c) {
  c.result(c.tensor("self")->dtype, ResultSizes(c));
}

void identity_meta(MetaCall& c) { c.result(c.tensor("self")->dtype, c.tensor("self")->sizes); }
Index identity_map(const TypeReader&, size_t, const Index& index) { return index; }
Tensor identity_write(const CallReader&, size_t, const Tensor& value) { return value; }

void view_dtype_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  DType to = *c.dtype("dtype");
  auto sizes = self->sizes;
  int64_t from_bytes = static_cast<int64_t>(size_of(self->dtype)), to_bytes = static_cast<int64_t>(size_of(to));
  if (from_bytes != to_bytes) {
    TOROID_USER_CHECK(!sizes.empty(), "{}: a 0-d tensor cannot be seen as elements of another size", c.op().name);
    Expr bytes = sizes.back() * Expr(from_bytes);
    c.require_same(sym::mod(bytes, to_bytes), 0, "{}: the last dimension ({} bytes) is no multiple of the size of {}", c.op().name,
                   sym::to_string(bytes), name_of(to));
    sizes.back() = sym::floor_div(bytes, to_bytes);
  }
  c.result(to, std::move(sizes));
}
void view_dtype_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  std::memcpy(c.outputs[0].raw_data(), self.raw_data(), static_cast<size_t>(self.numel()) * size_of(self.dtype()));
}

std::vector<Tensor> resize(const CallReader& c) {
  Tensor self = c.tensor("self");
  Sizes sizes = c.exprs("size");
  return {view(pad_dim(flat(self), 0, 0, product_of(sizes) - numel_of(self)), sizes)};
}

std::vector<Tensor> atleast(const CallReader& c, int64_t rank) {
  Tensor self = c.tensor("self");
  Sizes s = sizes_of(self);
  if (static_cast<int64_t>(s.size()) >= rank) return {self};
  if (rank == 3 && s.size() == 1) return {view(self, {1, s[0], 1})};
  if (rank == 3 && s.size() == 2) return {view(self, {s[0], s[1], 1})};
  s.insert(s.begin(), static_cast<size_t>(rank) - s.size(), Expr(1));
  return {view(self, s)};
}

}  // namespace

void add_view_rows(Table& t) {
  view_and_copy(t, "view", "(Tensor(a) self, SymInt[] size) -> Tensor(a)", view_meta, map_by_sizes<sizes_param>, write_reshaped);
  t.view("_unsafe_view(Tensor self, SymInt[] size) -> Tensor", view_meta, map_by_sizes<sizes_param>, nullptr);
  view_and_copy(t, "_reshape_alias", "(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)", view_meta, map_by_sizes<sizes_param>,
                write_reshaped);
  t.view("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape_meta, map_by_sizes<shape_param>, write_reshaped);
  t.view("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", meta_by_sizes<flatten_sizes>,
         map_by_sizes<flatten_sizes>, write_reshaped);
  t.view("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten_meta, map_by_sizes<unflatten_sizes>,
         write_reshaped);
  view_and_copy(t, "unsqueeze", "(Tensor(a) self, int dim) -> Tensor(a)", meta_by_sizes<unsqueeze_sizes>, map_by_sizes<unsqueeze_sizes>,
                write_reshaped);
  view_and_copy(t, "squeeze", "(Tensor(a) self) -> Tensor(a)", squeeze_meta, map_by_sizes<squeeze_sizes>, write_reshaped);
  view_and_copy(t, "squeeze.dim", "(Tensor(a) self, int dim) -> Tensor(a)", squeeze_meta, map_by_sizes<squeeze_sizes>, write_reshaped);
  view_and_copy(t, "squeeze.dims", "(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze_meta, map_by_sizes<squeeze_sizes>, write_reshaped);
  view_and_copy(t, "alias", "(Tensor(a) self) -> Tensor(a)", identity_meta, identity_map, identity_write);
  view_and_copy(t, "detach", "(Tensor(a) self) -> Tensor(a)", identity_meta, identity_map, identity_write);
  t.composite("prims.with_history(Tensor self, Tensor value) -> Tensor",
              [](const CallReader& c) -> std::vector<Tensor> { return {clone(c.tensor("value"))}; });
  t.primitive("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", view_dtype_meta, view_dtype_kernel).write_back =
      [](const CallReader& c, size_t, const Tensor& value) {
        return call1("view.dtype", {value, c.tensor("self").dtype()});
      };
  t.primitive("view_copy.dtype(Tensor self, ScalarType dtype) -> Tensor", view_dtype_meta, view_dtype_kernel);
  t.composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)",
              [](const CallReader& c) -> std::vector<Tensor> { return {view(c.tensor("self"), sizes_of(c.tensor("other")))}; });
  t.composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("reshape", {c.tensor("self"), sizes_of(c.tensor("other"))})};
  });
  t.composite("ravel(Tensor(a) self) -> Tensor(a)", [](const CallReader& c) -> std::vector<Tensor> {
    return {call1("reshape", {c.tensor("self"), Sizes{numel_of(c.tensor("self"))}})};
  });
  t.composite("atleast_1d(Tensor self) -> Tensor", [](const CallReader& c) { return atleast(c, 1); }).may_alias = true;
  t.composite("atleast_2d(Tensor self) -> Tensor", [](const CallReader& c) { return atleast(c, 2); }).may_alias = true;
  t.composite("atleast_3d(Tensor self) -> Tensor", [](const CallReader& c) { return atleast(c, 3); }).may_alias = true;
  t.composite("resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor", resize);
  t.composite("copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor", [](const CallReader& c) -> std::vector<Tensor> {
    Tensor self = c.tensor("self");
    return {clone(expand(cast_to(c.tensor("src"), self.dtype()), sizes_of(self)))};
  });
  add_slice_view_rows(t);
  add_permute_view_rows(t);
  add_tiling_view_rows(t);
  add_view_scatter_rows(t);
}

}  // namespace toroid::ops

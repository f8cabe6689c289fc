// Views of parts of a tensor: select, slice, split, unbind, diagonal, unfold, as_strided.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/view_rules.h"

namespace toroid::ops {

using namespace forms;

Expr wrap_position(const Expr& position, const Expr& size) {
  if (auto v = position.maybe_constant()) return *v < 0 ? size + position : position;
  if (sym::known_ge(position, 0)) return position;
  if (sym::known_lt(position, 0)) return position + size;
  // The sign is not known: floor(position / huge) is -1 for negative ones and 0 for others.
  return position - size * sym::floor_div(position, int64_t{1} << 48);
}

SliceRange slice_range(const Expr& size, const std::optional<Expr>& start, const std::optional<Expr>& end, const Expr& step) {
  auto clamped = [&](const Expr& e) {
    if (e.is_const() && (e.constant() >= sym::kInf || e.constant() <= -sym::kInf)) return e.constant() > 0 ? size : Expr(0);
    if (e.is_const() && e.constant() < 0) return sym::max(size + e, 0);
    // One or two before the end: where that is negative, counting from the end leaves nothing, either.
    if (const auto before = (size - e).maybe_constant(); before && (*before == 1 || *before == 2)) return sym::max(e, 0);
    return sym::min(sym::max(wrap_position(e, size), 0), size);
  };
  Expr from = start ? clamped(*start) : Expr(0);
  Expr to = end ? clamped(*end) : size;
  return {from, sym::ceil_div(sym::max(to - from, 0), step)};
}

namespace {

size_t dim_of(const TypeReader& c, std::string_view param = "dim") {
  TOROID_USER_CHECK(!c.tensor("self")->sizes.empty(), "{}: a 0-d tensor has no dimension to cut", c.op().name);
  return static_cast<size_t>(normal_dim(c.op(), c.integer(param), c.tensor("self")->dim()));
}

void select_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  size_t dim = dim_of(c);
  Expr index = c.expr("index");
  const Expr& size = self->sizes[dim];
  const Expr first = index.is_const() && index.constant() >= 0 ? Expr(0) : -size;
  for (const auto& inside : {sym::Relation{sym::Rel::Ge, index, first}, sym::Relation{sym::Rel::Lt, index, size}})
    c.require(inside, "{}: index {} is out of range for a dimension of size {}", c.op().name, sym::to_string(index), sym::to_string(size));
  auto sizes = self->sizes;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  c.result(self->dtype, std::move(sizes));
}
Index select_map(const TypeReader& c, size_t, const Index& index) {
  size_t dim = dim_of(c);
  Index out = index;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(dim), wrap_position(c.expr("index"), c.tensor("self")->sizes[dim]));
  return out;
}
Tensor select_write(const CallReader& c, size_t, const Tensor& value) {
  return call1("select_scatter", {c.tensor("self"), value, c.at("dim"), c.at("index")});
}

SliceRange slice_of(const TypeReader& c, size_t dim) {
  Expr step = c.expr("step");
  return slice_range(c.tensor("self")->sizes[dim], c.opt_expr("start"), c.opt_expr("end"), step);
}
void slice_meta(MetaCall& c) {
  c.require({sym::Rel::Ge, c.expr("step"), 1}, "{}: the step must be positive", c.op().name);
  size_t dim = dim_of(c);
  auto sizes = c.tensor("self")->sizes;
  sizes[dim] = slice_of(c, dim).length;
  c.result(c.tensor("self")->dtype, std::move(sizes));
}
Index slice_map(const TypeReader& c, size_t, const Index& index) {
  size_t dim = dim_of(c);
  Index out = index;
  out[dim] = slice_of(c, dim).start + index[dim] * c.expr("step");
  return out;
}
Tensor slice_write(const CallReader& c, size_t, const Tensor& value) {
  return call1("slice_scatter", {c.tensor("self"), value, c.at("dim"), c.at("start"), c.at("end"), c.at("step")});
}

void narrow_meta(MetaCall& c) {
  size_t dim = dim_of(c);
  auto sizes = c.tensor("self")->sizes;
  const Expr start = wrap_position(c.expr("start"), sizes[dim]), end = start + c.expr("length");
  c.require({sym::Rel::Ge, start, 0}, "{}: the range starts at {}, before the dimension", c.op().name, sym::to_string(start));
  c.require({sym::Rel::Le, end, sizes[dim]}, "{}: the range ends at {}, after the dimension's {}", c.op().name, sym::to_string(end),
            sym::to_string(sizes[dim]));
  sizes[dim] = c.expr("length");
  c.require({sym::Rel::Ge, sizes[dim], 0}, "{}: the length is {}; it must not be negative", c.op().name, sym::to_string(sizes[dim]));
  c.result(c.tensor("self")->dtype, std::move(sizes));
}
Index narrow_map(const TypeReader& c, size_t, const Index& index) {
  size_t dim = dim_of(c);
  Index out = index;
  out[dim] = wrap_position(c.expr("start"), c.tensor("self")->sizes[dim]) + index[dim];
  return out;
}
Tensor write_range(const CallReader& c, int64_t dim, const Expr& start, const Expr& length, const Tensor& value) {
  return call1("slice_scatter", {c.tensor("self"), value, num(dim), start, start + length, num(1)});
}
Tensor narrow_write(const CallReader& c, size_t, const Tensor& value) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self);
  return write_range(c, dim, wrap_position(c.expr("start"), size_at(self, dim)), c.expr("length"), value);
}

constexpr int64_t kMaxParts = 1 << 16;

// Splits into parts of size `part`; the number of parts must be known, or is fixed by guards when it is small.
void equal_parts(MetaCall& c, size_t dim, const Expr& part, int64_t likely) {
  auto* self = c.tensor("self");
  const Expr& size = self->sizes[dim];
  std::optional<int64_t> count = part == Expr(0) ? std::optional<int64_t>(1) : sym::ceil_div(size, part).maybe_constant();
  if (!count) {
    auto is_count = [&](int64_t n) {
      return c.decide_or_known({sym::Rel::Lt, part * Expr(n - 1), size}) && c.decide_or_known({sym::Rel::Le, size, part * Expr(n)});
    };
    constexpr int64_t kMaxGuessed = 64;
    if (likely > 0 && is_count(likely)) count = likely;
    for (int64_t n = 1; !count && n <= kMaxGuessed; ++n)
      if (is_count(n)) count = n;
  }
  TOROID_USER_CHECK(count && *count <= kMaxParts,
                    "{}: the number of parts of a dimension of size {} cannot be told when compiling; make the size static", c.op().name,
                    sym::to_string(size));
  int64_t n = std::max<int64_t>(*count, 1);
  for (int64_t i = 0; i < n; ++i) {
    auto sizes = self->sizes;
    sizes[dim] = i + 1 < n ? part : size - part * Expr(n - 1);
    c.result(self->dtype, std::move(sizes));
  }
}
Index shifted(const Index& index, size_t dim, const Expr& start) {
  Index out = index;
  out[dim] = index[dim] + start;
  return out;
}

void split_meta(MetaCall& c) {
  Expr part = c.expr("split_size");
  size_t dim = dim_of(c);
  const Expr& size = c.tensor("self")->sizes[dim];
  if (!(part == Expr(0) && size == Expr(0))) c.require({sym::Rel::Ge, part, 1}, "{}: the split size must be positive", c.op().name);
  equal_parts(c, dim, part, 0);
}
Index split_map(const TypeReader& c, size_t result, const Index& index) {
  return shifted(index, dim_of(c), c.expr("split_size") * Expr(static_cast<int64_t>(result)));
}
Tensor split_write(const CallReader& c, size_t result, const Tensor& value) {
  int64_t dim = forms::dim_of(c, "dim", c.tensor("self"));
  return write_range(c, dim, c.expr("split_size") * Expr(static_cast<int64_t>(result)), size_at(value, dim), value);
}

Expr chunk_size(const Op& op, const Expr& size, int64_t chunks) {
  TOROID_USER_CHECK(chunks > 0, "{}: the number of chunks must be positive", op.name);
  return sym::ceil_div(size, chunks);
}
void chunk_meta(MetaCall& c) {
  size_t dim = dim_of(c);
  int64_t chunks = c.integer("chunks");
  Expr part = chunk_size(c.op(), c.tensor("self")->sizes[dim], chunks);
  if (part == Expr(0)) {
    TOROID_USER_CHECK(chunks <= kMaxParts, "{}: too many chunks", c.op().name);
    for (int64_t i = 0; i < chunks; ++i) c.result(c.tensor("self")->dtype, c.tensor("self")->sizes);
    return;
  }
  equal_parts(c, dim, part, chunks);
}
Index chunk_map(const TypeReader& c, size_t result, const Index& index) {
  size_t dim = dim_of(c);
  return shifted(index, dim, chunk_size(c.op(), c.tensor("self")->sizes[dim], c.integer("chunks")) * Expr(static_cast<int64_t>(result)));
}
Tensor chunk_write(const CallReader& c, size_t result, const Tensor& value) {
  int64_t dim = forms::dim_of(c, "dim", c.tensor("self"));
  Expr part = chunk_size(c.op(), size_at(c.tensor("self"), dim), c.integer("chunks"));
  return write_range(c, dim, part * Expr(static_cast<int64_t>(result)), size_at(value, dim), value);
}

Expr offset_of(const std::vector<Expr>& parts, size_t result) {
  Expr start = 0;
  for (size_t i = 0; i < result; ++i) start = start + parts[i];
  return start;
}
void split_sizes_meta(MetaCall& c) {
  size_t dim = dim_of(c);
  auto* self = c.tensor("self");
  auto parts = c.exprs("split_sizes");
  Expr total = offset_of(parts, parts.size());
  c.require_same(total, self->sizes[dim], "{}: the parts have {} elements together, the dimension has {}", c.op().name,
                 sym::to_string(total), sym::to_string(self->sizes[dim]));
  for (auto& p : parts) {
    c.require({sym::Rel::Ge, p, 0}, "{}: a part has the negative size {}", c.op().name, sym::to_string(p));
    auto sizes = self->sizes;
    sizes[dim] = p;
    c.result(self->dtype, std::move(sizes));
  }
}
Index split_sizes_map(const TypeReader& c, size_t result, const Index& index) {
  return shifted(index, dim_of(c), offset_of(c.exprs("split_sizes"), result));
}
Tensor split_sizes_write(const CallReader& c, size_t result, const Tensor& value) {
  auto parts = c.exprs("split_sizes");
  return write_range(c, forms::dim_of(c, "dim", c.tensor("self")), offset_of(parts, result), parts.at(result), value);
}

void unbind_meta(MetaCall& c) {
  size_t dim = dim_of(c);
  auto* self = c.tensor("self");
  auto n = self->sizes[dim].maybe_constant();
  constexpr int64_t kMaxGuessed = 64;
  for (int64_t k = 1; !n && k <= kMaxGuessed; ++k)
    if (c.same(self->sizes[dim], k)) n = k;
  TOROID_USER_CHECK(n && *n <= kMaxParts, "{}: the size {} must be known when compiling; make it static", c.op().name,
                    sym::to_string(self->sizes[dim]));
  auto sizes = self->sizes;
  sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(dim));
  for (int64_t i = 0; i < *n; ++i) c.result(self->dtype, sizes);
}
Index unbind_map(const TypeReader& c, size_t result, const Index& index) {
  Index out = index;
  out.insert(out.begin() + static_cast<std::ptrdiff_t>(dim_of(c)), Expr(static_cast<int64_t>(result)));
  return out;
}
Tensor unbind_write(const CallReader& c, size_t result, const Tensor& value) {
  return call1("select_scatter", {c.tensor("self"), value, c.at("dim"), num(static_cast<int64_t>(result))});
}

std::pair<size_t, size_t> diagonal_dims(const TypeReader& c) {
  int64_t rank = c.tensor("self")->dim();
  int64_t a = normal_dim(c.op(), c.integer("dim1"), rank), b = normal_dim(c.op(), c.integer("dim2"), rank);
  TOROID_USER_CHECK(a != b && rank >= 2, "{}: two different dimensions are needed", c.op().name);
  return {static_cast<size_t>(a), static_cast<size_t>(b)};
}
void diagonal_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto [a, b] = diagonal_dims(c);
  Expr offset = c.expr("offset");
  bool above = offset.is_const() ? offset.constant() >= 0 : c.decide_or_known({sym::Rel::Ge, offset, 0});
  Expr length = above ? sym::min(self->sizes[a], self->sizes[b] - offset) : sym::min(self->sizes[a] + offset, self->sizes[b]);
  std::vector<Expr> sizes;
  for (size_t d = 0; d < self->sizes.size(); ++d)
    if (d != a && d != b) sizes.push_back(self->sizes[d]);
  sizes.push_back(sym::max(length, 0));
  c.result(self->dtype, std::move(sizes));
}
Index diagonal_map(const TypeReader& c, size_t, const Index& index) {
  auto [a, b] = diagonal_dims(c);
  Expr offset = c.expr("offset");
  Index out;
  size_t next = 0;
  for (size_t d = 0; d < c.tensor("self")->sizes.size(); ++d) {
    if (d == a)
      out.push_back(index.back() + sym::max(-offset, 0));
    else if (d == b)
      out.push_back(index.back() + sym::max(offset, 0));
    else
      out.push_back(index[next++]);
  }
  return out;
}
Tensor diagonal_write(const CallReader& c, size_t, const Tensor& value) {
  return call1("diagonal_scatter", {c.tensor("self"), value, c.at("offset"), c.at("dim1"), c.at("dim2")});
}

void unfold_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  int64_t size = c.integer("size"), step = c.integer("step");
  TOROID_USER_CHECK(size >= 0 && step > 0, "{}: the size must not be negative and the step must be positive", c.op().name);
  auto sizes = self->sizes;
  if (sizes.empty()) {
    TOROID_USER_CHECK(size <= 1, "{}: a window of {} does not fit in a 0-d tensor", c.op().name, size);
    return c.result(self->dtype, {Expr(size)});
  }
  size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dimension"), self->dim()));
  c.require({sym::Rel::Le, size, sizes[dim]}, "{}: a window of {} does not fit in a dimension of {}", c.op().name, size,
            sym::to_string(sizes[dim]));
  sizes[dim] = sym::floor_div(sizes[dim] - Expr(size), step) + 1;
  sizes.push_back(size);
  c.result(self->dtype, std::move(sizes));
}
Index unfold_map(const TypeReader& c, size_t, const Index& index) {
  if (c.tensor("self")->sizes.empty()) return {};
  size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dimension"), c.tensor("self")->dim()));
  Index out(index.begin(), index.end() - 1);
  out[dim] = index[dim] * c.expr("step") + index.back();
  return out;
}

// The windows lie in the tensor with strides of their own: steps from one to the next, and elements within one.
Tensor unfold_write(const CallReader& c, size_t, const Tensor& value) {
  Tensor self = c.tensor("self");
  if (self.dim() == 0) return call1("view", {value, Sizes{}});
  const Sizes sizes = forms::sizes_of(self);
  const size_t dim = static_cast<size_t>(normal_dim(c.op(), c.integer("dimension"), self.dim()));
  Sizes strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;) strides[d] = strides[d + 1] * sizes[d + 1];
  strides.push_back(strides[dim]);
  strides[dim] = strides[dim] * c.expr("step");
  return call1("as_strided_scatter", {self, value, forms::sizes_of(value), strides, Expr(0)});
}

// On the elements in row-major order: strides given by a program are those of row-major tensors.
void as_strided_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  auto sizes = c.exprs("size"), strides = c.exprs("stride");
  TOROID_USER_CHECK(sizes.size() == strides.size(), "{}: {} sizes but {} strides", c.op().name, sizes.size(), strides.size());
  Expr last = c.opt_expr("storage_offset").value_or(0), count = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    c.require({sym::Rel::Ge, strides[d], 0}, "{}: the stride {} is negative", c.op().name, sym::to_string(strides[d]));
    c.require({sym::Rel::Ge, sizes[d], 0}, "{}: the size {} is negative", c.op().name, sym::to_string(sizes[d]));
    last = last + (sizes[d] - 1) * strides[d];
    count = count * sizes[d];
  }
  const Expr numel = self->numel();
  c.require({sym::Rel::Ge, c.opt_expr("storage_offset").value_or(0), 0}, "{}: the offset is negative", c.op().name);
  if (!(count == Expr(0)))  // what has no elements asks for none
    c.require({sym::Rel::Le, sym::min(count, 1) * (last + 1), numel}, "{}: element {} of a tensor of {} elements is asked for", c.op().name,
              sym::to_string(last), sym::to_string(numel));
  c.result(self->dtype, std::move(sizes));
}
Index as_strided_map(const TypeReader& c, size_t, const Index& index) {
  auto strides = c.exprs("stride");
  Expr flat = c.opt_expr("storage_offset").value_or(0);
  for (size_t d = 0; d < index.size(); ++d) flat = flat + index[d] * strides[d];
  return split_index(flat, c.tensor("self")->sizes);
}
Tensor as_strided_write(const CallReader& c, size_t, const Tensor& value) {
  return call1("as_strided_scatter", {c.tensor("self"), value, c.at("size"), c.at("stride"), c.at("storage_offset")});
}

// tensor_split and its relatives, by slices.
std::vector<Tensor> split_at(const Tensor& self, int64_t dim, const std::vector<Expr>& ends) {
  std::vector<Tensor> out;
  Expr start = 0;
  for (auto& end : ends) {
    out.push_back(slice(self, dim, start, end));
    start = end;
  }
  out.push_back(slice(self, dim, start, size_at(self, dim)));
  return out;
}
std::vector<Tensor> split_evenly(const CallReader& c, const Tensor& self, int64_t dim, int64_t sections) {
  TOROID_USER_CHECK(sections > 0 && sections <= kMaxParts, "{}: cannot split into {} sections", c.op().name, sections);
  Expr size = size_at(self, dim), part = sym::floor_div(size, sections), longer = sym::mod(size, sections);
  std::vector<Expr> ends;
  for (int64_t i = 1; i < sections; ++i) ends.push_back(part * Expr(i) + sym::min(longer, i));
  return split_at(self, dim, ends);
}

}  // namespace

void add_slice_view_rows(Table& t) {
  view_and_copy(t, "select.int", "(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select_meta, select_map, select_write);
  view_and_copy(t, "slice.Tensor", "(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)",
                slice_meta, slice_map, slice_write);
  view_and_copy(t, "narrow", "(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", narrow_meta, narrow_map, narrow_write);
  view_and_copy(t, "split.Tensor", "(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split_meta, split_map,
                split_write);
  view_and_copy(t, "split_with_sizes", "(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_sizes_meta,
                split_sizes_map, split_sizes_write);
  t.view("split.sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_sizes_meta, split_sizes_map,
         split_sizes_write);
  t.view("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk_meta, chunk_map, chunk_write);
  view_and_copy(t, "unbind.int", "(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind_meta, unbind_map, unbind_write);
  view_and_copy(t, "diagonal", "(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal_meta, diagonal_map,
                diagonal_write);
  t.view("linalg_diagonal(Tensor(a) self, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)", diagonal_meta, diagonal_map,
         diagonal_write);
  view_and_copy(t, "unfold", "(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold_meta, unfold_map, unfold_write);
  view_and_copy(t, "as_strided", "(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
                as_strided_meta, as_strided_map, as_strided_write);
  t.composite("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]", [](const CallReader& c) {
    return split_evenly(c, c.tensor("self"), forms::dim_of(c, "dim", c.tensor("self")), c.integer("sections"));
  });
  t.composite("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]", [](const CallReader& c) {
    return split_at(c.tensor("self"), forms::dim_of(c, "dim", c.tensor("self")), c.exprs("indices"));
  });
  for (const char* name : {"hsplit", "vsplit", "dsplit"})
    t.composite(fmt::format("{}.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]", name), [](const CallReader& c) {
      const char axis = c.op().name[0];
      const int64_t dim = axis == 'v' ? 0 : axis == 'd' ? 2 : c.tensor("self").dim() == 1 ? 0 : 1;
      return split_at(c.tensor("self"), dim, c.exprs("indices"));
    });
  t.composite("hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]", [](const CallReader& c) {
    return split_evenly(c, c.tensor("self"), c.tensor("self").dim() == 1 ? 0 : 1, c.integer("sections"));
  });
  t.composite("vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
              [](const CallReader& c) { return split_evenly(c, c.tensor("self"), 0, c.integer("sections")); });
  t.composite("dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]",
              [](const CallReader& c) { return split_evenly(c, c.tensor("self"), 2, c.integer("sections")); });
}

}  // namespace toroid::ops

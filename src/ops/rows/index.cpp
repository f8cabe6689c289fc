// Advanced indexing: index.Tensor and index_put (primitives), and what is expressed in terms of them.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"
#include "ops/rows/view_composite.h"

namespace toroid::ops {
namespace {

using Results = std::vector<Tensor>;

bool is_mask(DType t) { return is_bool(t) || t == DType::U8; }

// How the indices of a call cover the dimensions of the tensor. T: const TensorType* or Tensor.
template <class T>
struct Cover {
  std::vector<int> index_of;   // per dimension of the tensor: which index covers it, -1 for none
  std::vector<int> column_of;  // its position within a mask of several dimensions
  size_t insert_at = 0;        // where the joint dimensions of the indices stand in the result
};
template <class T>
Cover<T> cover(const Op& op, const std::vector<T>& indices, int64_t rank, const auto& dtype_of, const auto& dim_of) {
  Cover<T> out;
  auto push = [&](int index, int column) {
    TOROID_USER_CHECK(static_cast<int64_t>(out.index_of.size()) < rank, "{}: more indices than the {} dimensions of the tensor", op.name,
                      rank);
    out.index_of.push_back(index);
    out.column_of.push_back(column);
  };
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!dim_of(indices[i])) {
      push(-1, 0);
    } else if (is_mask(dtype_of(indices[i]))) {
      for (int64_t d = 0; d < *dim_of(indices[i]); ++d) push(static_cast<int>(i), static_cast<int>(d));
    } else {
      TOROID_USER_CHECK(is_int(dtype_of(indices[i])), "{}: an index must be of integers or Bool, it is {}", op.name,
                        name_of(dtype_of(indices[i])));
      push(static_cast<int>(i), 0);
    }
  }
  while (static_cast<int64_t>(out.index_of.size()) < rank) {
    out.index_of.push_back(-1);
    out.column_of.push_back(0);
  }
  // Indices side by side put their joint dimensions in their place, others put them first.
  size_t first = out.index_of.size(), last = 0;
  for (size_t d = 0; d < out.index_of.size(); ++d)
    if (out.index_of[d] >= 0) first = std::min(first, d), last = d;
  bool adjacent = true;
  for (size_t d = first; d < last; ++d) adjacent = adjacent && out.index_of[d] >= 0;
  out.insert_at = adjacent && first < out.index_of.size() ? first : 0;
  return out;
}

using Type = const TensorType*;
Cover<Type> type_cover(const Op& op, const std::vector<Type>& indices, int64_t rank) {
  return cover<Type>(
      op, indices, rank, [](Type t) { return t->dtype; }, [](Type t) { return t ? std::optional<int64_t>(t->dim()) : std::nullopt; });
}

// What masks take stands in the last of the joint dimensions. Where indices of integers have more than one element there, the result has as
// many, and the run checks that the masks take so many, or one.
void join_masks(MetaCall& c, std::vector<Expr>& joint, const std::function<Expr()>& count) {
  if (joint.empty()) joint.push_back(1);
  if (c.same(joint.back(), 1)) joint.back() = count();
}

// count: how many elements masks take.
std::vector<Expr> indexed_sizes(MetaCall& c, const std::function<Expr()>& count) {
  auto* self = c.tensor("self");
  auto indices = c.tensors("indices");
  auto cov = type_cover(c.op(), indices, self->dim());
  std::vector<Expr> joint;
  bool masked = false;
  for (Type i : indices) {
    if (!i) continue;
    if (is_mask(i->dtype))
      masked = true;
    else
      joint = broadcast(c, joint, i->sizes);
  }
  if (masked) join_masks(c, joint, count);
  for (size_t d = 0; d < cov.index_of.size(); ++d) {
    if (cov.index_of[d] < 0) continue;
    Type i = indices[static_cast<size_t>(cov.index_of[d])];
    if (is_mask(i->dtype))
      c.require_same(i->sizes[static_cast<size_t>(cov.column_of[d])], self->sizes[d], "{}: a mask of size {} for a dimension of size {}",
                     c.op().name, sym::to_string(i->sizes[static_cast<size_t>(cov.column_of[d])]), sym::to_string(self->sizes[d]));
  }
  std::vector<Expr> out;
  for (size_t d = 0; d <= cov.index_of.size(); ++d) {
    if (d == cov.insert_at) out.insert(out.end(), joint.begin(), joint.end());
    if (d < cov.index_of.size() && cov.index_of[d] < 0) out.push_back(self->sizes[d]);
  }
  return out;
}

using namespace host;

// Positions of the true elements of a mask: one tensor of I64 a dimension.
std::vector<Tensor> mask_positions(const Tensor& mask) {
  Tensor m = mask.contiguous();
  std::vector<int64_t> found;
  for (int64_t i = 0; i < m.numel(); ++i)
    if (get_int(m, i)) found.push_back(i);
  auto strides = contiguous_strides(m.sizes());
  std::vector<Tensor> out;
  for (size_t d = 0; d < strides.size(); ++d) {
    Tensor t = Tensor::empty({static_cast<int64_t>(found.size())}, DType::I64);
    for (size_t k = 0; k < found.size(); ++k) t.data<int64_t>()[k] = found[k] / strides[d] % m.sizes()[d];
    out.push_back(t);
  }
  return out;
}

// The element of `self` (row-major position) that each element of the result is read from.
struct Positions {
  std::vector<int64_t> sizes;  // of the result
  std::vector<int64_t> at;     // of the first element of each run
  int64_t run = 1;             // elements that lie side by side in both
};
// In runs over the last dimensions that no index is for, or (not in_runs) element by element.
Positions indexed_positions(const KernelCall& c, bool in_runs) {
  Tensor self = c.tensor("self");
  auto indices = c.tensors("indices");
  int64_t rank = self.dim();
  auto cov = cover<Tensor>(
      c.op(), indices, rank, [](const Tensor& t) { return t.dtype(); },
      [](const Tensor& t) { return t.defined() ? std::optional<int64_t>(t.dim()) : std::nullopt; });
  std::vector<Tensor> of_dim(static_cast<size_t>(rank));
  std::vector<std::vector<Tensor>> columns(indices.size());
  std::vector<int64_t> joint;
  for (size_t d = 0; d < of_dim.size(); ++d) {
    if (cov.index_of[d] < 0) continue;
    size_t i = static_cast<size_t>(cov.index_of[d]);
    if (is_mask(indices[i].dtype())) {
      if (columns[i].empty()) columns[i] = mask_positions(indices[i]);
      of_dim[d] = columns[i][static_cast<size_t>(cov.column_of[d])];
    } else {
      of_dim[d] = indices[i];
    }
    const auto& s = of_dim[d].sizes();
    if (s.size() > joint.size()) joint.insert(joint.begin(), s.size() - joint.size(), 1);
    for (size_t k = 0; k < s.size(); ++k) {
      int64_t& j = joint[joint.size() - s.size() + k];
      TOROID_USER_CHECK(j == s[k] || j == 1 || s[k] == 1, "{}: index sizes {} and {} do not fit together", c.op().name, j, s[k]);
      if (j == 1) j = s[k];
    }
  }
  Positions out;
  auto strides = contiguous_strides(self.sizes());
  std::vector<int64_t> kept_stride;  // per result dimension, 0 for the joint ones
  for (size_t d = 0; d <= of_dim.size(); ++d) {
    if (d == cov.insert_at) {
      out.sizes.insert(out.sizes.end(), joint.begin(), joint.end());
      kept_stride.insert(kept_stride.end(), joint.size(), 0);
    }
    if (d < of_dim.size() && !of_dim[d].defined()) {
      out.sizes.push_back(self.sizes()[d]);
      kept_stride.push_back(strides[d]);
    }
  }
  size_t joint_at = 0;
  for (size_t d = 0; d < cov.insert_at; ++d) joint_at += !of_dim[d].defined();
  size_t together = 0;
  while (in_runs && together < of_dim.size() && !of_dim[of_dim.size() - 1 - together].defined()) ++together;
  auto outer = std::span(out.sizes).first(out.sizes.size() - together);
  out.run = product(std::span(out.sizes).subspan(outer.size()));
  for_each_index(outer, [&](std::span<const int64_t> index) {
    int64_t at = 0;
    for (size_t k = 0; k < index.size(); ++k) at += index[k] * kept_stride[k];
    for (size_t d = 0; d < of_dim.size(); ++d) {
      if (!of_dim[d].defined()) continue;
      const auto &s = of_dim[d].sizes(), &st = of_dim[d].strides();
      int64_t offset = 0;
      for (size_t k = 0; k < s.size(); ++k)
        if (s[k] != 1) offset += index[joint_at + joint.size() - s.size() + k] * st[k];
      at += checked_index(plain_name(c.op()), get_int(of_dim[d], offset), self.sizes()[d], static_cast<int64_t>(d), true) * strides[d];
    }
    out.at.push_back(at);
  });
  return out;
}

void index_meta(MetaCall& c) { c.result(c.tensor("self")->dtype, indexed_sizes(c, c.fresh_size)); }
void index_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  Positions p = indexed_positions(c, true);
  Tensor out = Tensor::empty(p.sizes, self.dtype());
  auto element = static_cast<int64_t>(size_of(self.dtype()));
  std::byte* to = out.raw_data();
  for (int64_t at : p.at) {
    std::memcpy(to, self.raw_data() + at * element, static_cast<size_t>(p.run * element));
    to += p.run * element;
  }
  if (c.outputs[0].defined())
    copy_elements(out, c.outputs[0]);
  else
    c.outputs[0] = out;
}

void index_put_meta(MetaCall& c) {
  auto sizes = indexed_sizes(c, [] { return Expr(1); });  // which nobody looks at
  auto* values = c.tensor("values");
  for (size_t d = 0; d + sizes.size() < values->sizes.size(); ++d)
    c.require_same(values->sizes[d], 1, "{}: values of {} dimensions for {} places", c.op().name, values->sizes.size(), sizes.size());
  TOROID_USER_CHECK(values->dtype == c.tensor("self")->dtype, "{}: the tensor holds {}, the values are {}; cast them", c.op().name,
                    name_of(c.tensor("self")->dtype), name_of(values->dtype));
  auto indices = c.tensors("indices");
  const bool masked = std::any_of(indices.begin(), indices.end(), [](Type i) { return i && is_mask(i->dtype); });
  for (size_t k = 1; !masked && k <= std::min(sizes.size(), values->sizes.size()); ++k) {  // places of masks only the run tells
    const Expr &value = values->sizes[values->sizes.size() - k], &places = sizes[sizes.size() - k];
    if (value == Expr(1)) continue;
    if (value.is_const() || !c.same(value, places))  // an open size may be 1 another time, which is another program's
      c.require_same(value, places, "{}: values of size {} for {} places", c.op().name, sym::to_string(value), sym::to_string(places));
  }
  c.result(c.tensor("self")->dtype, c.tensor("self")->sizes);
}
void index_put_kernel(KernelCall& c) {
  Tensor self = c.tensor("self"), values = c.tensor("values"), out = c.outputs[0];
  copy_elements(self, out);
  Positions p = indexed_positions(c, false);
  std::vector<int64_t> strides(p.sizes.size());
  for (size_t k = 0; k < values.sizes().size(); ++k) {
    int64_t size = values.sizes()[values.sizes().size() - 1 - k];
    if (k >= p.sizes.size()) {
      TOROID_USER_CHECK(size == 1, "{}: values have a dimension of size {} too many", c.op().name, size);
      continue;
    }
    TOROID_USER_CHECK(size == 1 || size == p.sizes[p.sizes.size() - 1 - k], "{}: values of size {} for {} places", c.op().name, size,
                      p.sizes[p.sizes.size() - 1 - k]);
    strides[p.sizes.size() - 1 - k] = size == 1 ? 0 : values.strides()[values.sizes().size() - 1 - k];
  }
  bool accumulate = c.flag("accumulate");
  with_accumulator(out.dtype(), [&]<class T>(T) {
    std::vector<T> totals;
    if (accumulate)
      for (int64_t i = 0; i < out.numel(); ++i) totals.push_back(get_as<T>(out, i));
    size_t next = 0;
    for_each_index(p.sizes, [&](std::span<const int64_t> index) {
      int64_t from = 0;
      for (size_t k = 0; k < index.size(); ++k) from += index[k] * strides[k];
      int64_t to = p.at[next++];
      if (accumulate)
        totals[static_cast<size_t>(to)] += get_as<T>(values, from);
      else
        copy_element(values, from, out, to);
    });
    for (size_t i = 0; i < totals.size(); ++i) put_as<T>(out, static_cast<int64_t>(i), totals[i]);
  });
}

Tensor as_row(const Tensor& index) { return index.dim() == 0 ? forms::unsqueeze(index, 0) : index; }

// The index of c, which picks from one dimension of `row`: a vector, or one element.
Tensor vector_index(const CallReader& c, const Tensor& row, int64_t dim, bool wraps = false) {
  const Tensor index = c.tensor("index");
  TOROID_USER_CHECK(index.dim() < 2, "{}: the index must be a vector, it has {} dimensions; index() takes one of any shape",
                    plain_name(c.op()), index.dim());
  return forms::checked_index(c, as_row(index), forms::size_at(row, dim), dim, wraps);
}

// t seen with at least one dimension: the operations below take 0-d tensors for rows of one element.
Results index_select(const CallReader& c) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self);
  const Tensor row = as_row(self), index = vector_index(c, row, dim);
  Tensor picked = forms::pick(row, dim, index);
  return {self.dim() == 0 ? forms::view(picked, {}) : picked};
}

Results put_along(const CallReader& c, const Tensor& source, bool accumulate, bool wraps = false) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self);
  Tensor row = as_row(self), index = vector_index(c, row, dim, wraps);
  Tensor out = call1("index_put", {row, forms::index_list(dim, index), as_row(forms::cast_to(source, self.dtype())), accumulate});
  return {self.dim() == 0 ? forms::view(out, {}) : out};
}
Results index_add(const CallReader& c) {
  Tensor source = c.tensor("source");
  const auto& alpha = c.at("alpha");
  auto* one = std::get_if<Expr>(&alpha);
  TOROID_USER_CHECK(one || !is_int(c.tensor("self").dtype()), "{}: alpha is {}; of integers it must be a whole number", c.op().name,
                    c.number("alpha").as_double());
  if (!one || !(*one == Expr(1))) source = forms::mul(source, alpha);
  return put_along(c, source, true);
}
Results index_fill(const CallReader& c) {
  Tensor self = c.tensor("self");
  Arg<Tensor> value = c.at("value");
  if (auto* t = std::get_if<Tensor>(&value)) return put_along(c, *t, false, true);
  return put_along(c, forms::full_number({}, value, self.dtype()), false, true);
}

// Indices into all elements; a mask picks none of them.
void check_flat_index(const CallReader& c) {
  const DType dtype = c.tensor("index").dtype();
  TOROID_USER_CHECK(is_int(dtype) && !is_mask(dtype), "{}: the index must be of integers, it is {}", c.op().name, name_of(dtype));
}
Results take(const CallReader& c) {
  check_flat_index(c);
  const Tensor self = forms::flat(c.tensor("self"));
  return {
      call1("index.Tensor", {self, std::vector<Tensor>{forms::checked_index(c, c.tensor("index"), forms::size_at(self, 0), -1, true)}})};
}
Results put_flat(const CallReader& c) {
  check_flat_index(c);
  Tensor self = c.tensor("self"), index = c.tensor("index");
  Tensor source = forms::view(c.tensor("source"), forms::sizes_of(index));
  index = forms::checked_index(c, index, forms::numel_of(self), -1, true);
  return {
      forms::view(call1("index_put", {forms::flat(self), std::vector<Tensor>{index}, source, c.at("accumulate")}), forms::sizes_of(self))};
}

void check_mask(const CallReader& c) {
  const DType t = c.tensor("mask").dtype();
  TOROID_USER_CHECK(is_bool(t), "{}: expected a bool mask, got {}", c.op().name, name_of(t));
}
Results masked_select(const CallReader& c) {
  check_mask(c);
  Tensor self = c.tensor("self"), mask = c.tensor("mask");
  auto sizes = forms::broadcast_sizes(self, mask);
  if (sizes.empty()) sizes = {Expr(1)};
  return {call1("index.Tensor", {forms::expand(self, sizes), std::vector<Tensor>{forms::expand(mask, sizes)}})};
}
Results masked_scatter(const CallReader& c) {
  check_mask(c);
  Tensor self = c.tensor("self"), source = forms::cast_to(c.tensor("source"), self.dtype());
  auto sizes = forms::broadcast_sizes(self, c.tensor("mask"));
  Tensor mask = forms::expand(c.tensor("mask"), sizes);
  self = forms::expand(self, sizes);
  // The k-th true element takes the k-th element of the source.
  const Expr most = forms::numel_of(source);
  Tensor taken = call1("cumsum", {forms::flat(mask), forms::num(0)});
  taken = forms::checked_values(taken, taken, "masked_scatter: elements of the source that the mask takes", ValueRule::AtMost, most);
  if (most == Expr(0)) return {forms::where(forms::compare("gt", forms::view(taken, sizes), 0), 0.0, self)};
  Tensor last = call1("clamp_min", {forms::sub(taken, forms::num(1)), forms::num(0)});
  auto limit = forms::operand(forms::numel_of(source) - 1);
  if (auto* e = std::get_if<Expr>(&limit)) limit = forms::full_number({}, *e, DType::I64);
  Tensor at = forms::minimum(last, limit);
  Tensor picked = forms::view(call1("index.Tensor", {forms::flat(source), std::vector<Tensor>{at}}), sizes);
  return {forms::where(mask, picked, self)};
}

Results triangle(const CallReader& c, bool lower) {
  Tensor self = c.tensor("self");
  TOROID_USER_CHECK(self.dim() >= 2, "{}: at least 2 dimensions are needed", c.op().name);
  Tensor rows = forms::iota_along(forms::size_at(self, -2), 0, 2), columns = forms::iota_along(forms::size_at(self, -1), 1, 2);
  Tensor keep = call1(lower ? "le.Scalar" : "ge.Scalar", {forms::sub(columns, rows), c.at("diagonal")});
  return {forms::where(keep, self, forms::full({}, 0, self.dtype()))};
}

}  // namespace

void add_index_rows(Table& t) {
  t.primitive("index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index_meta, index_kernel);
  t.primitive("index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", index_put_meta,
              index_put_kernel);
  t.composite("_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("index.Tensor", {c.tensor("self"), c.at("indices")})};
  });
  t.composite("_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
              [](const CallReader& c) -> Results {
                return {call1("index_put", {c.tensor("self"), c.at("indices"), c.tensor("values"), c.at("accumulate")})};
              });
  t.composite("_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) -> Tensor",
              [](const CallReader& c) -> Results {
                return {call1("index_put", {c.tensor("self"), c.at("indices"), c.tensor("values"), c.at("accumulate")})};
              });
  t.composite("index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select);
  t.composite("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
              [](const CallReader& c) { return put_along(c, c.tensor("source"), false); });
  t.composite("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add);
  t.composite("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", index_fill);
  t.composite("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor", index_fill);
  t.composite("take(Tensor self, Tensor index) -> Tensor", take);
  t.composite("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", put_flat);
  t.composite("masked_select(Tensor self, Tensor mask) -> Tensor", masked_select);
  t.composite("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter);
  t.composite("tril(Tensor self, SymInt diagonal=0) -> Tensor", [](const CallReader& c) { return triangle(c, true); });
  t.composite("triu(Tensor self, SymInt diagonal=0) -> Tensor", [](const CallReader& c) { return triangle(c, false); });
  add_index_scatter_rows(t);
  add_value_check_rows(t);
  add_index_join_rows(t);
  add_index_embedding_rows(t);
  add_index_nonzero_rows(t);
  add_index_combinations_rows(t);
  add_view_composite_rows(t);
}

}  // namespace toroid::ops

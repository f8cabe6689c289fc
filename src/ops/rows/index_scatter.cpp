// Reading and writing along one dimension: gather, scatter and its reductions.
#include <limits>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

using namespace host;
using Results = std::vector<Tensor>;

void check_index(MetaCall& c) {
  auto *self = c.tensor("self"), *index = c.tensor("index");
  normal_dim(c.op(), c.integer("dim"), self->dim());
  TOROID_USER_CHECK(is_int(index->dtype), "{}: the index must be of integers, it is {}", c.op().name, name_of(index->dtype));
  bool empty = index->numel() == Expr(0);
  TOROID_USER_CHECK(empty || std::max<int64_t>(index->dim(), 1) == std::max<int64_t>(self->dim(), 1),
                    "{}: the index has {} dimensions, the tensor {}", c.op().name, index->dim(), self->dim());
}
// The index fits into a tensor in the dimensions that it counts through, unless it is empty. One without dimensions counts to 1.
void check_extent(MetaCall& c, const TensorType& of, const char* what, bool along) {
  auto& index = *c.tensor("index");
  const Expr some = sym::min(index.numel(), 1);
  const int64_t dim = normal_dim(c.op(), c.integer("dim"), c.tensor("self")->dim());
  for (size_t d = 0; d < std::max<size_t>(index.sizes.size(), along); ++d) {
    if (!along && static_cast<int64_t>(d) == dim) continue;
    const Expr extent = d < of.sizes.size() ? of.sizes[d] : Expr(1), size = d < index.sizes.size() ? index.sizes[d] : Expr(1);
    if (!along || d < of.sizes.size())
      c.require({sym::Rel::Le, some * size, extent}, "{}: the index has size {} in dimension {}, the {} {}", c.op().name,
                sym::to_string(size), d, what, sym::to_string(extent));
  }
}
// Indices that composites look at before they use them: I64, none negative.
void check_index_meta(MetaCall& c) {
  auto* self = c.tensor("self");
  TOROID_USER_CHECK(is_int(self->dtype), "{}: the index must be of integers, it is {}", c.text("operation"), name_of(self->dtype));
  c.result(DType::I64, self->sizes);
}
void check_index_kernel(KernelCall& c) {
  const Tensor self = c.tensor("self").contiguous();
  const int64_t size = c.integer("size"), dim = c.integer("dim");
  for (int64_t i = 0; i < self.numel(); ++i)
    put(c.outputs[0], i, Number::of(checked_index(c.text("operation"), get_int(self, i), size, dim, c.flag("wraps"))));
}

void gather_meta(MetaCall& c) {
  check_index(c);
  check_extent(c, *c.tensor("self"), "tensor", false);
  c.result(c.tensor("self")->dtype, c.tensor("index")->sizes);
}
void scatter_meta(MetaCall& c) {
  check_index(c);
  auto *self = c.tensor("self"), *src = c.tensor("src");
  TOROID_USER_CHECK(self->dtype == src->dtype, "{}: the tensor holds {}, the source is {}; cast it", c.op().name, name_of(self->dtype),
                    name_of(src->dtype));
  check_extent(c, *self, "tensor", false);
  check_extent(c, *src, "source", true);
  c.result(self->dtype, self->sizes);
}

// Calls fn(position in self, position in the index, offset in `other` in elements) for each element of the index; self is row-major.
template <class F>
void for_each_target(const KernelCall& c, const Tensor& self, const Tensor& other, F&& fn) {
  Tensor index = c.tensor("index").contiguous();
  int64_t dim = host::dim_of(c, self), next = 0;
  if (index.numel() == 0) return;
  auto strides = contiguous_strides(self.sizes());
  bool scalar_self = self.sizes().empty();
  for (size_t d = 0; d < index.sizes().size(); ++d) {
    int64_t limit = scalar_self ? 1 : self.sizes()[d];
    TOROID_USER_CHECK(static_cast<int64_t>(d) == dim || index.sizes()[d] <= limit,
                      "{}: the index has size {} in dimension {}, the tensor {}", c.op().name, index.sizes()[d], d, limit);
    if (other.defined() && d < other.sizes().size())
      TOROID_USER_CHECK(index.sizes()[d] <= other.sizes()[d], "{}: the index has size {} in dimension {}, the source {}", c.op().name,
                        index.sizes()[d], d, other.sizes()[d]);
  }
  for_each_index(index.sizes(), [&](std::span<const int64_t> at) {
    int64_t to = 0, from = 0, size = scalar_self ? 1 : self.sizes()[static_cast<size_t>(dim)];
    for (size_t d = 0; d < at.size(); ++d) {
      if (static_cast<int64_t>(d) != dim && !scalar_self) to += at[d] * strides[d];
      if (other.defined() && d < other.sizes().size()) from += at[d] * other.strides()[d];
    }
    int64_t picked = checked_index(plain_name(c.op()), get_int(index, next), size, dim, false);
    if (!scalar_self) to += picked * strides[static_cast<size_t>(dim)];
    fn(to, next++, from);
  });
}

void gather_kernel(KernelCall& c) {
  Tensor self = c.tensor("self").contiguous();
  for_each_target(c, self, Tensor(), [&](int64_t at, int64_t i, int64_t) { copy_element(self, at, c.outputs[0], i); });
}
void scatter_kernel(KernelCall& c) {
  Tensor self = c.tensor("self"), src = c.tensor("src"), out = c.outputs[0];
  copy_elements(self, out);
  for_each_target(c, out, src, [&](int64_t to, int64_t, int64_t from) { copy_element(src, from, out, to); });
}

enum class Join { Sum, Prod, Mean, Max, Min };
Join join_of(const Op& op, const std::string& name) {
  if (name == "sum" || name == "add") return Join::Sum;
  if (name == "prod" || name == "multiply") return Join::Prod;
  if (name == "mean") return Join::Mean;
  if (name == "amax") return Join::Max;
  if (name == "amin") return Join::Min;
  fail<UserError>("{}: reduce is \"{}\"; it must be sum, prod, mean, amax or amin", op.name, name);
}
template <class T>
T join(Join kind, T a, T b) {
  if (kind == Join::Prod) return a * b;
  if constexpr (!std::is_same_v<T, std::complex<double>>) {
    if (kind == Join::Max || kind == Join::Min) {
      if (a != a) return a;
      if (b != b) return b;
      return kind == Join::Max ? std::max(a, b) : std::min(a, b);
    }
  }
  return a + b;
}

void scatter_joined(KernelCall& c, Join kind, bool include_self) {
  Tensor self = c.tensor("self"), src = c.tensor("src"), out = c.outputs[0];
  TOROID_USER_CHECK(!is_complex(out.dtype()) || (kind != Join::Max && kind != Join::Min), "{}: complex numbers have no order", c.op().name);
  copy_elements(self, out);
  with_accumulator(out.dtype(), [&]<class T>(T) {
    size_t n = static_cast<size_t>(out.numel());
    std::vector<T> values(n);
    std::vector<int64_t> counts(n, include_self ? 1 : 0);
    for (size_t i = 0; i < n; ++i) values[i] = get_as<T>(out, static_cast<int64_t>(i));
    for_each_target(c, out, src, [&](int64_t to, int64_t, int64_t from) {
      size_t t = static_cast<size_t>(to);
      T v = get_as<T>(src, from);
      values[t] = counts[t]++ == 0 ? v : join<T>(kind, values[t], v);
    });
    for (size_t i = 0; i < n; ++i) {
      if (kind == Join::Mean && counts[i] > 1) {
        if constexpr (std::is_same_v<T, int64_t>) {
          int64_t q = values[i] / counts[i];
          values[i] = q - (values[i] % counts[i] < 0);
        } else {
          values[i] /= static_cast<double>(counts[i]);
        }
      }
      put_as<T>(out, static_cast<int64_t>(i), values[i]);
    }
  });
}
void scatter_add_kernel(KernelCall& c) { scatter_joined(c, Join::Sum, true); }
void scatter_reduce_meta(MetaCall& c) {
  join_of(c.op(), c.text("reduce"));
  scatter_meta(c);
}
void scatter_reduce_kernel(KernelCall& c) { scatter_joined(c, join_of(c.op(), c.text("reduce")), c.flag("include_self")); }

Tensor value_like_index(const CallReader& c) {
  return forms::full_number(forms::sizes_of(c.tensor("index")), c.at("value"), c.tensor("self").dtype());
}
std::string reduce_name(const CallReader& c) {
  switch (join_of(c.op(), c.text("reduce"))) {
    case Join::Sum:
      return "sum";
    case Join::Prod:
      return "prod";
    case Join::Mean:
      return "mean";
    case Join::Max:
      return "amax";
    case Join::Min:
      return "amin";
  }
  return {};
}

// Source slices joined into the rows that a one-dimensional index names.
Results index_reduce(const CallReader& c) {
  Tensor self = c.tensor("self"), source = c.tensor("source"), index = c.tensor("index");
  int64_t dim = forms::dim_of(c, "dim", self);
  auto sizes = forms::sizes_of(source);
  index = forms::checked_index(c, index, self.dim() == 0 ? Expr(1) : forms::size_at(self, dim), dim);
  forms::Sizes shape(sizes.size(), Expr(1));
  if (!shape.empty()) shape[static_cast<size_t>(dim)] = sizes[static_cast<size_t>(dim)];
  return {call1("scatter_reduce.two",
                {self, c.at("dim"), forms::expand(forms::view(index, shape), sizes), source, c.at("reduce"), c.at("include_self")})};
}

Results take_along_dim(const CallReader& c) {
  Tensor self = c.tensor("self"), index = c.tensor("indices");
  if (!c.has("dim"))
    return {call1("gather", {forms::flat(self), forms::num(0), forms::checked_index(c, forms::flat(index), forms::numel_of(self), -1)})};
  int64_t dim = forms::dim_of(c, "dim", self);
  TOROID_USER_CHECK(self.dim() == index.dim(), "{}: the indices have {} dimensions, the tensor {}", c.op().name, index.dim(), self.dim());
  auto common = forms::broadcast_sizes(self, index), self_sizes = common, index_sizes = common;
  self_sizes[static_cast<size_t>(dim)] = forms::size_at(self, dim);
  index_sizes[static_cast<size_t>(dim)] = forms::size_at(index, dim);
  index = forms::checked_index(c, index, forms::size_at(self, dim), dim);
  return {call1("gather", {forms::expand(self, self_sizes), forms::num(dim), forms::expand(index, index_sizes)})};
}

}  // namespace

void add_index_scatter_rows(Table& t) {
  t.primitive("_check_index(Tensor self, SymInt size, str operation, int dim, bool wraps=False) -> Tensor", check_index_meta,
              check_index_kernel);
  t.primitive("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather_meta, gather_kernel);
  t.primitive("scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter_meta, scatter_kernel);
  t.primitive("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter_meta, scatter_add_kernel);
  t.primitive("scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
              scatter_reduce_meta, scatter_reduce_kernel);
  t.composite("scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("scatter.src", {c.tensor("self"), c.at("dim"), c.tensor("index"), value_like_index(c)})};
  });
  t.composite("scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
              [](const CallReader& c) -> Results {
                return {call1("scatter_reduce.two", {c.tensor("self"), c.at("dim"), c.tensor("index"), c.tensor("src"), reduce_name(c)})};
              });
  t.composite(
      "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
      [](const CallReader& c) -> Results {
        return {call1("scatter_reduce.two", {c.tensor("self"), c.at("dim"), c.tensor("index"), value_like_index(c), reduce_name(c)})};
      });
  t.composite("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
              index_reduce);
  t.composite("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim);
}

}  // namespace toroid::ops

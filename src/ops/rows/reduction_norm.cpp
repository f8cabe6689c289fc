// Norms and distances, in terms of reductions.
#include <cmath>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

using Dims = std::vector<int64_t>;
using Results = std::vector<Tensor>;

// p-norm of the elements along dims. x is in a compute dtype.
Tensor p_norm(const Tensor& x, double p, const Dims& dims, bool keep) {
  if (p == 2 && !is_complex(x.dtype())) return sqrt(sum(mul(x, x), dims, keep));  // abs would hide what bends at 0
  Tensor a = abs(x);
  if (p == 0) return cast_to(sum(compare("ne", a, 0.0), dims, keep), a.dtype());
  if (p == 1) return sum(a, dims, keep);
  if (p == 2) return sqrt(sum(mul(a, a), dims, keep));
  if (std::isinf(p)) return p > 0 ? amax(a, dims, keep) : amin(a, dims, keep);  // which refuse where there is no element
  return pow(sum(pow(a, p), dims, keep), 1 / p);
}

DType real_type(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }

Tensor norm_of(const CallReader& c, double p, const Dims& dims, bool keep) {
  Tensor self = c.tensor("self");
  DType t = self.dtype();
  if (c.op().schema.find("dtype") >= 0) t = c.dtype("dtype").value_or(t);
  TOROID_USER_CHECK(is_float(t) || is_complex(t), "{}: elements must be floats, they are {}", c.op().name, name_of(t));
  return cast_to(p_norm(cast_to(self, compute_type(t)), p, dims, keep), real_type(t));
}

Results vector_norm(const CallReader& c) { return {norm_of(c, c.real("ord"), reduced_dims(c, c.tensor("self").dim()), c.flag("keepdim"))}; }
Results norm(const CallReader& c) {
  bool keep = c.op().schema.find("keepdim") >= 0 && c.flag("keepdim");
  return {norm_of(c, c.has("p") ? c.real("p") : 2, reduced_dims(c, c.tensor("self").dim()), keep)};
}

Results dist(const CallReader& c) {
  Tensor d = sub(c.tensor("self"), c.tensor("other"));
  return {cast_to(p_norm(cast_to(d, compute_type(d.dtype())), c.real("p"), {}, false), real_type(d.dtype()))};
}

// Distances between all rows of x1 and of x2.
Tensor all_distances(const Tensor& x1, const Tensor& x2, double p) {
  const Tensor columns = unsqueeze(x2, -3), d = sub(unsqueeze(x1, -2), columns);
  if (size_at(d, -1) == Expr(0)) return sum(d, {d.dim() - 1}, false);
  return p_norm(d, p, {d.dim() - 1}, false);
}
Results cdist(const CallReader& c) {
  TOROID_USER_CHECK(c.real("p") >= 0, "{}: p must not be negative, it is {}", plain_name(c.op()), c.real("p"));
  return {all_distances(c.tensor("x1"), c.tensor("x2"), c.real("p"))};
}

Results pdist(const CallReader& c) {
  Tensor self = c.tensor("self");
  TOROID_USER_CHECK(c.real("p") >= 0, "{}: p must not be negative, it is {}", plain_name(c.op()), c.real("p"));
  TOROID_USER_CHECK(self.dim() == 2, "{}: a matrix is needed, the tensor has {} dimensions", c.op().name, self.dim());
  const auto n = static_cast<int64_t>(SymInt(size_at(self, 0)));  // a part for each row: not for any number of them
  TOROID_USER_CHECK(n < (1 << 15), "{}: {} rows; expected fewer than 32768", c.op().name, n);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i + 1 < n; ++i) {
    const Tensor others = slice(self, 0, i + 1, n);
    parts.push_back(view(all_distances(slice(self, 0, i, i + 1), others, c.real("p")), {n - i - 1}));
  }
  if (parts.empty()) return {full({0}, 0, self.dtype())};
  return {parts.size() == 1 ? parts[0] : call1("cat", {parts, num(0)})};
}

Results cosine_similarity(const CallReader& c) {
  Tensor a = c.tensor("x1"), b = c.tensor("x2");
  Sizes sizes = broadcast_sizes(a, b);
  DType t = promote_types(a.dtype(), b.dtype());
  a = expand(cast_to(a, compute_type(t)), sizes);
  b = expand(cast_to(b, compute_type(t)), sizes);
  int64_t dim = forms::dim_of(c, "dim", a);
  double eps = c.real("eps");
  auto unit = [&](const Tensor& x) { return div(x, call1("clamp_min", {p_norm(x, 2, {dim}, true), eps})); };
  const Tensor unit_b = unit(b);
  return {cast_to(sum(mul(unit(a), unit_b), {dim}, false), t)};
}

Results pairwise_distance(const CallReader& c) {
  Tensor d = add(sub(c.tensor("x1"), c.tensor("x2")), c.real("eps"));
  return {cast_to(p_norm(cast_to(d, compute_type(d.dtype())), c.real("p"), {d.dim() - 1}, c.flag("keepdim")), d.dtype())};
}

}  // namespace

void add_reduction_norm_rows(Table& t) {
  t.composite("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
              vector_norm);
  t.composite("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm);
  t.composite("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", norm);
  t.composite("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm);
  t.composite("norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor", norm);
  t.composite("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", dist);
  t.composite("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", cdist);
  t.composite("cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor", cdist);
  t.composite("_pdist_forward(Tensor self, float p=2) -> Tensor", pdist);
  t.composite("pdist(Tensor self, float p=2) -> Tensor", pdist);
  t.composite("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-8) -> Tensor", cosine_similarity);
  t.composite("pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-6, bool keepdim=False) -> Tensor", pairwise_distance);
}

}  // namespace toroid::ops

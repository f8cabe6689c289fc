// Compositions of reductions: means, variances, extrema with indices, softmax and its relatives.
#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

using Dims = std::vector<int64_t>;
using Results = std::vector<Tensor>;

Dims dims_param(const CallReader& c, const Tensor& t) { return reduced_dims(c, t.dim()); }
bool keepdim(const CallReader& c) { return c.op().schema.find("keepdim") >= 0 && c.flag("keepdim"); }

Tensor mean_of(const Tensor& x, const Dims& dims, bool keep) { return div(sum(x, dims, keep), operand(count_of(x, dims))); }

Results mean(const CallReader& c) {
  Tensor self = c.tensor("self");
  DType t = c.dtype("dtype").value_or(self.dtype());
  TOROID_USER_CHECK(is_float(t) || is_complex(t), "{}: the mean of {} elements is not a float; give dtype", c.op().name, name_of(t));
  return {cast_to(mean_of(cast_to(self, compute_type(t)), dims_param(c, self), keepdim(c)), t)};
}

// Squared differences from the mean, summed, over (count - correction).
struct Moments {
  Tensor var, mean;
};
Moments moments(const Tensor& self, const Dims& dims, double correction, bool keep) {
  if (is_complex(self.dtype())) {
    Moments re = moments(unary("real", self), dims, correction, keep), im = moments(unary("imag", self), dims, correction, keep);
    return {add(re.var, im.var), mean_of(self, dims, keep)};
  }
  Tensor x = cast_to(self, compute_type(self.dtype()));
  Tensor center = mean_of(x, dims, true), d = sub(x, center);
  Tensor squares = sum(mul(d, d), dims, keep);
  return {div(squares, degrees_of_freedom(count_of(x, dims), correction, x.dtype())), keep ? center : mean_of(x, dims, false)};
}

Moments moments_of(const CallReader& c) {
  Tensor self = c.tensor("self");
  TOROID_USER_CHECK(is_float(self.dtype()) || is_complex(self.dtype()), "{}: elements must be floats, they are {}", c.op().name,
                    name_of(self.dtype()));
  return moments(self, dims_param(c, self), correction_of(c), keepdim(c));
}
DType real_type(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }
template <bool root, bool with_mean>
Results variance(const CallReader& c) {
  DType t = c.tensor("self").dtype();
  Moments m = moments_of(c);
  Results out = {cast_to(root ? sqrt(m.var) : m.var, real_type(t))};
  if (with_mean) out.push_back(cast_to(m.mean, t));
  return out;
}
template <bool root, bool with_mean>
void add_variance(Table& t, const std::string& name) {
  const char* result = with_mean ? ") -> (Tensor, Tensor)" : ") -> Tensor";
  t.composite(name + "(Tensor self, bool unbiased=True" + result, variance<root, with_mean>);
  t.composite(name + ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False" + result, variance<root, with_mean>);
  t.composite(name + ".correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False" + result,
              variance<root, with_mean>);
}

// Rows are variables, columns observations.
Results covariance(const CallReader& c) {
  Tensor self = c.tensor("self"), counts = c.opt_tensor("fweights"), shares = c.opt_tensor("aweights");
  TOROID_USER_CHECK(self.dim() <= 2, "cov: expected at most 2 dimensions, got {}", self.dim());
  TOROID_USER_CHECK(!counts.defined() || is_int(counts.dtype()), "cov: fweights must be integers, they are {}", name_of(counts.dtype()));
  DType t = float_type(self.dtype());
  Tensor x = cast_to(self.dim() < 2 ? view(self, {1, numel_of(self)}) : self, compute_type(t));
  const Expr n = size_at(x, 1);
  for (const auto& [name, w] : {std::pair("fweights", counts), std::pair("aweights", shares)})
    if (w.defined()) {
      TOROID_USER_CHECK(w.dim() == 1, "cov: {} must be a vector, it has {} dimensions", name, w.dim());
      require({sym::Rel::Eq, size_at(w, 0), n}, "cov: {} has {} elements, there are {} observations", name, sym::to_string(size_at(w, 0)),
              sym::to_string(n));
    }
  Tensor w = counts.defined() ? cast_to(counts, x.dtype()) : Tensor();
  if (shares.defined()) w = w.defined() ? mul(w, shares) : cast_to(shares, x.dtype());
  const double correction = static_cast<double>(c.integer("correction"));
  if (!w.defined()) {
    x = sub(x, mean_of(x, {1}, true));
    x = div(call1("mm", {x, permute(is_complex(t) ? unary("conj_physical", x) : x, {1, 0})}), degrees_of_freedom(n, correction, x.dtype()));
  } else {
    Tensor total = sum(w, {0}, false);
    x = sub(x, div(sum(mul(x, w), {1}, true), total));
    Tensor lost = shares.defined() ? div(mul(sum(mul(w, shares), {0}, false), correction), total) : Tensor();
    Tensor freedom = call1("clamp_min", {sub(total, lost.defined() ? Arg<Tensor>(lost) : Arg<Tensor>(correction)), 0.0});
    x = div(call1("mm", {mul(x, w), permute(is_complex(t) ? unary("conj_physical", x) : x, {1, 0})}), freedom);
  }
  const bool is_one = self.dim() < 2 || sym::known({sym::Rel::Eq, size_at(self, 0), 1}).value_or(false);
  return {cast_to(is_one ? view(x, {}) : x, t)};  // the variance of one variable is a number
}
Results correlation(const CallReader& c) {
  Tensor x = call1("cov", {c.tensor("self")});
  if (x.dim() == 0) return {div(x, x)};
  Tensor deviation = sqrt(call1("diagonal", {is_complex(x.dtype()) ? unary("real", x) : x}));
  const Tensor of_columns = unsqueeze(deviation, 0);
  Tensor r = div(div(x, unsqueeze(deviation, 1)), of_columns);
  return {is_complex(r.dtype()) ? r : call1("clamp", {r, -1.0, 1.0})};
}

template <bool largest>
Results extremum_dim(const CallReader& c) {
  Tensor self = c.tensor("self");
  Arg<Tensor> dim = c.at("dim"), keep = c.at("keepdim");
  return {call1(largest ? "amax" : "amin", {self, dim, keep}), call1(largest ? "argmax" : "argmin", {self, dim, keep})};
}

Results aminmax(const CallReader& c) {
  Tensor self = c.tensor("self");
  Dims dims;
  if (c.has("dim")) dims.push_back(forms::dim_of(c, "dim", self));
  return {amin(self, dims, keepdim(c)), amax(self, dims, keepdim(c))};
}

// exp(x - largest) and log of its sum along one dimension, in the compute dtype.
Tensor shifted(const Tensor& x, int64_t dim) { return numel_of(x) == Expr(0) ? x : sub(x, amax_or_lowest(x, {dim}, true)); }
Results softmax_in(const CallReader& c, DType result, bool logarithm) {
  Tensor self = c.tensor("self");
  int64_t dim = forms::dim_of(c, "dim", self);
  Tensor x = shifted(cast_to(self, compute_type(result)), dim);
  Tensor e = exp(x), total = sum(e, {dim}, true);
  return {cast_to(logarithm ? sub(x, log(total)) : div(e, total), result)};
}
template <bool logarithm>
Results softmax_core(const CallReader& c) {
  return softmax_in(c, c.flag("half_to_float") ? DType::F32 : c.tensor("self").dtype(), logarithm);
}
template <bool logarithm>
Results softmax_int(const CallReader& c) {
  return softmax_in(c, c.dtype("dtype").value_or(float_type(c.tensor("self").dtype())), logarithm);
}

Results logsumexp(const CallReader& c) {
  Tensor self = c.tensor("self");
  Dims dims = dims_param(c, self);
  DType t = float_type(self.dtype());
  Tensor x = cast_to(self, compute_type(t));
  if (numel_of(x) == Expr(0)) return {cast_to(log(sum(exp(x), dims, keepdim(c))), t)};
  Tensor top = amax_or_lowest(x, dims, true);
  const Tensor zero = full({}, 0, top.dtype());
  top = where(unary("isinf", top), zero, top);
  Tensor sums = log(sum(exp(sub(x, top)), dims, true));
  Tensor result = add(sums, top);
  if (!keepdim(c)) result = sum(result, dims, false);
  return {cast_to(result, t)};
}

Results nansum(const CallReader& c) {
  Tensor self = c.tensor("self");
  Tensor x = self;
  if (is_float(self.dtype())) {
    const Tensor zero = full({}, 0, self.dtype());
    x = where(unary("isnan", self), zero, self);
  }
  return {call1("sum.dim_IntList", {x, nums(dims_param(c, self)), c.at("keepdim"), c.at("dtype")})};
}
Results nanmean(const CallReader& c) {
  Tensor self = c.tensor("self");
  Tensor good = call1("logical_not", {unary("isnan", self)});
  Tensor total = call1("nansum", {self, c.at("dim"), c.at("keepdim"), c.at("dtype")});
  return {div(total, cast_to(sum(good, dims_param(c, self), keepdim(c)), total.dtype()))};
}
Results count_nonzero(const CallReader& c) {
  Tensor self = c.tensor("self");
  return {sum(compare_int("ne", self, 0), dims_param(c, self), false)};
}

}  // namespace

void add_reduction_moment_rows(Table& t) {
  t.composite("cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", covariance);
  t.composite("corrcoef(Tensor self) -> Tensor", correlation);
  t.composite("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", [](const CallReader& c) -> Results {
    return {call1("sum.dim_IntList", {c.tensor("self"), Sizes{}, false, c.at("dtype")})};
  });
  t.composite("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", mean);
  t.composite("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", mean);
  add_variance<false, false>(t, "var");
  add_variance<true, false>(t, "std");
  add_variance<false, true>(t, "var_mean");
  add_variance<true, true>(t, "std_mean");
  t.composite("max(Tensor self) -> Tensor", [](const CallReader& c) -> Results { return {amax(c.tensor("self"), {}, false)}; });
  t.composite("min(Tensor self) -> Tensor", [](const CallReader& c) -> Results { return {amin(c.tensor("self"), {}, false)}; });
  t.composite("max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", extremum_dim<true>);
  t.composite("min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", extremum_dim<false>);
  t.composite("max.other(Tensor self, Tensor other) -> Tensor",
              [](const CallReader& c) -> Results { return {maximum(c.tensor("self"), c.at("other"))}; });
  t.composite("min.other(Tensor self, Tensor other) -> Tensor",
              [](const CallReader& c) -> Results { return {minimum(c.tensor("self"), c.at("other"))}; });
  t.composite("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", aminmax);
  t.composite("_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_core<false>);
  t.composite("_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax_core<true>);
  t.composite("softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax_int<false>);
  t.composite("special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax_int<false>);
  t.composite("special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", softmax_int<true>);
  t.composite("log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax_int<true>);
  t.composite("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logsumexp);
  t.composite("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", nansum);
  t.composite("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", nanmean);
  t.composite("count_nonzero(Tensor self, int? dim=None) -> Tensor", count_nonzero);
  t.composite("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", count_nonzero);
  t.composite("trace(Tensor self) -> Tensor", [](const CallReader& c) -> Results {
    TOROID_USER_CHECK(c.tensor("self").dim() == 2, "{}: a matrix is needed, the tensor has {} dimensions", c.op().name,
                      c.tensor("self").dim());
    return {call1("sum", {call1("diagonal", {c.tensor("self")})})};
  });
}

}  // namespace toroid::ops

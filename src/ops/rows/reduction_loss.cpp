// Losses, in terms of pointwise operations and reductions.
#include <numbers>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/reduction_rules.h"

namespace toroid::ops {

using namespace forms;

namespace {

using Results = std::vector<Tensor>;

// Parameter "reduction": 0 none, 1 mean, 2 sum.
Results reduced(const CallReader& c, const Tensor& loss) {
  switch (c.integer("reduction")) {
    case 0:
      return {loss};
    case 1:
      return {call1("mean", {loss})};
    case 2:
      return {call1("sum", {loss})};
    default:
      fail<UserError>("{}: reduction is {}; it must be 0 (none), 1 (mean) or 2 (sum)", c.op().name, c.integer("reduction"));
  }
}

Tensor difference(const CallReader& c) { return sub(c.tensor("self"), c.tensor("target")); }

// 0.5 d^2 / beta near 0, |d| - 0.5 beta elsewhere.
Tensor smooth_distance(const Tensor& d, double beta) {
  Tensor a = abs(d);
  if (beta == 0) return a;
  const Tensor far = sub(a, 0.5 * beta), near = mul(mul(d, d), 0.5 / beta);
  return where(compare("lt", a, beta), near, far);
}

std::string sizes_text(const Sizes& sizes) {
  std::string out;
  for (const Expr& s : sizes) out += (out.empty() ? "" : ", ") + sym::to_string(s);
  return "[" + out + "]";
}

// Targets have the sizes `wanted`. UserError with both, and what scores are.
void require_targets(const CallReader& c, const Tensor& target, const Sizes& wanted,
                     const char* hint = "; scores are [batch, classes, ...]") {
  const Sizes given = sizes_of(target);
  TOROID_USER_CHECK(given.size() == wanted.size(), "{}: the targets must be {}, they are {}{}", c.op().name, sizes_text(wanted),
                    sizes_text(given), hint);
  for (size_t d = 0; d < wanted.size(); ++d)
    require({sym::Rel::Eq, given[d], wanted[d]}, "{}: the targets must be {}, they are {}{}", c.op().name, sizes_text(wanted),
            sizes_text(given), hint);
}

Results binary_cross_entropy(const CallReader& c) {
  Tensor p = forms::checked_values(c.tensor("self"), "binary_cross_entropy: an element of the input", ValueRule::Probability);
  Tensor y = forms::checked_values(c.tensor("target"), "binary_cross_entropy: an element of the target", ValueRule::Probability);
  require_targets(c, y, sizes_of(p), "");
  Tensor positive = call1("clamp_min", {log(p), -100.0}), negative = call1("clamp_min", {unary("log1p", unary("neg", p)), -100.0});
  const Tensor of_positive = mul(y, positive);
  Tensor loss = sub(mul(sub(y, 1.0), negative), of_positive);
  if (c.has("weight")) loss = mul(loss, c.tensor("weight"));
  return reduced(c, loss);
}

Results binary_cross_entropy_logits(const CallReader& c) {
  Tensor x = c.tensor("self"), y = c.tensor("target");
  require_targets(c, y, sizes_of(x), "");
  Tensor ones = sub(mul(y, -1.0), -1.0);  // 1 - y
  Tensor log_sigmoid = call1("log_sigmoid", {x});
  Tensor loss;
  if (c.has("pos_weight")) {
    Tensor scale = add(mul(sub(c.tensor("pos_weight"), 1.0), y), 1.0);
    const Tensor scaled = mul(scale, log_sigmoid);
    loss = sub(mul(ones, x), scaled);
  } else {
    loss = sub(mul(ones, x), log_sigmoid);
  }
  if (c.has("weight")) loss = mul(loss, c.tensor("weight"));
  return reduced(c, loss);
}

Results kl_div(const CallReader& c) {
  Tensor x = c.tensor("self"), y = c.tensor("target");
  const bool logs = c.flag("log_target");
  const Tensor right = logs ? sub(y, x) : mul(y, x);
  return reduced(c, logs ? mul(exp(y), right) : sub(call1("xlogy.Tensor", {y, y}), right));
}

struct NegativeLogLikelihood {
  Tensor loss, total_weight;
};
// x: [N, C, d1 ...] (or [C]) log probabilities; target: class numbers.
NegativeLogLikelihood negative_log_likelihood(const CallReader& c, const Tensor& x, const Tensor& target, const Tensor& weight,
                                              int64_t reduction, int64_t ignore_index) {
  int64_t classes_dim = x.dim() == 1 ? 0 : 1;
  Sizes wanted = sizes_of(x);
  wanted.erase(wanted.begin() + classes_dim);
  require_targets(c, target, wanted);
  Tensor ignored = compare_int("eq", target, ignore_index);
  const Tensor numbers = cast_to(target, DType::I64), none = full({}, 0, DType::I64);
  Tensor safe = checked_index(c, where(ignored, none, numbers), size_at(x, classes_dim), classes_dim);
  Tensor index = unsqueeze(safe, classes_dim);
  Tensor picked = call1("squeeze.dim", {call1("gather", {x, num(classes_dim), index}), num(classes_dim)});
  Tensor scale = weight.defined() ? call1("index.Tensor", {weight, std::vector<Tensor>{safe}}) : full(sizes_of(safe), 1, x.dtype());
  Tensor zero = full({}, 0, x.dtype());
  scale = where(ignored, zero, scale);
  Tensor loss = where(ignored, zero, unary("neg", mul(picked, scale)));
  Tensor total = sum(scale, {}, false);
  if (reduction == 1) return {div(sum(loss, {}, false), total), total};
  if (reduction == 2) return {sum(loss, {}, false), total};
  return {loss, full({}, 0, x.dtype())};
}
NegativeLogLikelihood nll_of(const CallReader& c) {
  Tensor self = c.tensor("self"), target = c.tensor("target");
  TOROID_USER_CHECK(self.dim() >= 1 && (target.dim() == self.dim() - 1), "{}: {} dimensions of scores need {} of targets, there are {}",
                    c.op().name, self.dim(), self.dim() - 1, target.dim());
  return negative_log_likelihood(c, self, target, c.opt_tensor("weight"), c.integer("reduction"), c.integer("ignore_index"));
}
Results nll(const CallReader& c) { return {nll_of(c).loss}; }
Results nll_forward(const CallReader& c) {
  auto r = nll_of(c);
  return {r.loss, r.total_weight};
}

Results cross_entropy(const CallReader& c) {
  Tensor self = c.tensor("self"), target = c.tensor("target"), weight = c.opt_tensor("weight");
  TOROID_USER_CHECK(self.dim() >= 1, "{}: a 0-d tensor has no classes", c.op().name);
  int64_t classes_dim = self.dim() == 1 ? 0 : 1, reduction = c.integer("reduction");
  double smoothing = c.real("label_smoothing");
  Tensor x = call1("log_softmax.int", {self, num(classes_dim)});
  auto weighted = [&](const Tensor& t) {
    if (!weight.defined()) return t;
    Sizes sizes(static_cast<size_t>(self.dim()), Expr(1));
    sizes[static_cast<size_t>(classes_dim)] = size_at(weight, 0);
    return mul(t, view(weight, sizes));
  };
  Expr classes = size_at(self, classes_dim);
  if (is_float(target.dtype())) {  // class probabilities
    require_targets(c, target, sizes_of(self));
    if (smoothing > 0) {
      Tensor share = div(full({}, smoothing, target.dtype()), operand(classes));
      target = add(mul(target, 1 - smoothing), share);
    }
    Tensor loss = unary("neg", sum(weighted(mul(x, target)), {classes_dim}, false));
    if (reduction == 1) return {div(sum(loss, {}, false), operand(numel_of(loss)))};
    return reduced(c, loss);
  }
  TOROID_USER_CHECK(target.dim() == self.dim() - 1, "{}: {} dimensions of scores need {} of targets, there are {}", c.op().name, self.dim(),
                    self.dim() - 1, target.dim());
  auto r = negative_log_likelihood(c, x, target, weight, reduction, c.integer("ignore_index"));
  if (smoothing == 0) return {r.loss};
  Tensor smooth = unary("neg", sum(weighted(x), {classes_dim}, false));
  Tensor ignored = compare_int("eq", target, c.integer("ignore_index"));
  smooth = where(ignored, full({}, 0, x.dtype()), smooth);
  if (reduction == 1)
    smooth = div(sum(smooth, {}, false), r.total_weight);
  else
    smooth = reduced(c, smooth)[0];
  const Tensor share = div(mul(smooth, smoothing), operand(classes));
  return {add(mul(r.loss, 1 - smoothing), share)};
}

// ---- margins ----

Tensor at_least_0(const Tensor& t) { return call1("clamp_min", {t, Expr(0)}); }
Tensor zero_of(const Tensor& t) { return full({}, 0, t.dtype()); }

Results margin_ranking(const CallReader& c) {
  const Tensor difference = sub(c.tensor("input1"), c.tensor("input2")), d = mul(unary("neg", c.tensor("target")), difference);
  return reduced(c, at_least_0(add(d, c.real("margin"))));
}

Results hinge_embedding(const CallReader& c) {
  Tensor x = c.tensor("self"), y = c.tensor("target"), zero = zero_of(x);
  Tensor far = at_least_0(call1("rsub.Scalar", {x, c.real("margin")}));
  const Tensor near = where(compare_int("ne", y, -1), x, zero);
  return reduced(c, add(where(compare_int("ne", y, 1), far, zero), near));
}

Results cosine_embedding(const CallReader& c) {
  constexpr double kTiny = 1e-12;  // as PyTorch adds
  Tensor a = c.tensor("input1"), b = c.tensor("input2"), y = c.tensor("target"), zero = zero_of(a);
  TOROID_USER_CHECK(y.dim() <= 1 && a.dim() == y.dim() + 1 && b.dim() == a.dim(),
                    "{}: inputs must have one dimension more than the target, which has 0 or 1; got {}, {} and {}", c.op().name, a.dim(),
                    b.dim(), y.dim());
  auto dot = [&](const Tensor& u, const Tensor& v) { return sum(mul(u, v), {y.dim()}, false); };
  const Tensor of_b = add(dot(b, b), kTiny), norms = unary("sqrt", mul(add(dot(a, a), kTiny), of_b)), cosine = div(dot(a, b), norms);
  Tensor near = call1("rsub.Scalar", {cosine, 1.0}), far = at_least_0(sub(cosine, c.real("margin")));
  const Tensor of_unlike = where(compare_int("eq", y, -1), far, zero);
  return reduced(c, add(where(compare_int("eq", y, 1), near, zero), of_unlike));
}

Results triplet_margin(const CallReader& c) {
  const int64_t rank = c.tensor("anchor").dim();
  for (const char* name : {"positive", "negative"})
    TOROID_USER_CHECK(c.tensor(name).dim() == rank, "{}: \"{}\" has {} dimensions and \"anchor\" {}; they must have as many", c.op().name,
                      name, c.tensor(name).dim(), rank);
  auto distance = [&](const char* a, const char* b) {
    return call1("pairwise_distance", {c.tensor(a), c.tensor(b), c.real("p"), c.real("eps")});
  };
  Tensor near = distance("anchor", "positive"), far = distance("anchor", "negative");
  if (c.flag("swap")) far = call1("minimum", {far, distance("positive", "negative")});
  return reduced(c, at_least_0(add(sub(near, far), c.real("margin"))));
}

// The mean over the classes of what comes within the margin of the target's score.
void require_a_class(const CallReader& c, const Expr& classes) {
  require({sym::Rel::Ge, classes, 1}, "{}: there must be a class, there are {}", c.op().name, sym::to_string(classes));
}

Results multi_margin(const CallReader& c) {
  const Tensor self = c.tensor("self"), target = c.tensor("target");
  const double p = c.number("p").as_double();
  TOROID_USER_CHECK(p == 1 || p == 2, "{}: p is {}; it must be 1 or 2", c.op().name, p);
  TOROID_USER_CHECK(self.dim() == 1 || self.dim() == 2, "{}: scores must be [classes] or [batch, classes], they have {} dimensions",
                    c.op().name, self.dim());
  const Tensor x = self.dim() == 1 ? unsqueeze(self, 0) : self;
  TOROID_USER_CHECK(target.dim() <= 1, "{}: targets must be one dimension, they have {}", c.op().name, target.dim());
  require({sym::Rel::Eq, numel_of(target), size_at(x, 0)}, "{}: there must be {} targets, one for each row of scores, there are {}",
          c.op().name, sym::to_string(size_at(x, 0)), sym::to_string(numel_of(target)));
  const Expr classes = size_at(x, 1);
  require_a_class(c, classes);
  const Tensor index = checked_index(c, cast_to(flat(target), DType::I64), classes, self.dim() - 1), column = unsqueeze(index, 1);
  Tensor inside = at_least_0(add(sub(x, call1("gather", {x, num(1), column})), c.number("margin").as_double()));
  if (p == 2) inside = mul(inside, inside);
  if (const Tensor weight = c.opt_tensor("weight"); weight.defined()) {
    require({sym::Rel::Eq, numel_of(weight), classes}, "{}: there must be {} weights, one for each class, there are {}", c.op().name,
            sym::to_string(classes), sym::to_string(numel_of(weight)));
    inside = mul(inside, call1("index.Tensor", {weight, std::vector<Tensor>{column}}));
  }
  const Tensor zero = zero_of(x);
  inside = where(compare("eq", iota_along(classes, 1, 2), column), zero, inside);
  const Tensor loss = div(sum(inside, {1}, false), operand(classes));
  return reduced(c, view(loss, sizes_of(target)));
}

// The sum, over the pairs of a class that is wanted and one that is not, of what the score of the other comes within 1 of that of the
// wanted one; divided by the number of classes. The wanted classes of a row are those before the first negative number of its targets.
Results multilabel_margin(const CallReader& c) {
  const Tensor self = c.tensor("self"), target = c.tensor("target");
  TOROID_USER_CHECK(self.dim() <= 2, "{}: scores must be [classes] or [batch, classes], they have {} dimensions", c.op().name, self.dim());
  TOROID_USER_CHECK(is_int(target.dtype()), "{}: targets must be numbers of classes, they are {}", c.op().name, name_of(target.dtype()));
  require_targets(c, target, sizes_of(self), "");
  const Expr classes = self.dim() == 0 ? Expr(1) : size_at(self, self.dim() - 1), rows = self.dim() == 2 ? size_at(self, 0) : Expr(1);
  require_a_class(c, classes);
  const Tensor x = view(self, {rows, classes}), wanted = cast_to(view(target, {rows, classes}), DType::I64);
  const Tensor is_end = compare_int("lt", wanted, 0), place = iota_along(classes, 1, 2), none = full({}, 0, DType::I64);
  const Tensor end = amin(where(is_end, place, operand(classes)), {1}, true), is_wanted = compare("lt", place, end);
  const Tensor index = checked_index(c, where(is_end, none, wanted), classes, self.dim() - 1);
  const Tensor column = unsqueeze(index, 2), counts = unsqueeze(is_wanted, 2);  // [rows, wanted, 1]
  const Tensor hits = call1("logical_and", {compare("eq", column, iota_along(classes, 2, 3)), counts});
  const Tensor is_other = unary("logical_not", call1("any.dim", {hits, num(1), true}));
  const Tensor scores = unsqueeze(call1("gather", {x, num(1), index}), 2);
  const Tensor inside = at_least_0(add(sub(unsqueeze(x, 1), scores), 1.0)), zero = zero_of(x);
  const Tensor pairs = where(call1("logical_and", {counts, is_other}), inside, zero);
  Sizes batch = sizes_of(self);
  if (!batch.empty()) batch.pop_back();
  return reduced(c, view(div(sum(pairs, {1, 2}, false), operand(classes)), batch));
}

Results poisson_nll(const CallReader& c) {
  Tensor x = c.tensor("input"), y = c.tensor("target");
  const bool logs = c.flag("log_input");
  const Tensor subtracted = mul(y, logs ? x : log(add(x, c.real("eps"))));
  Tensor loss = sub(logs ? exp(x) : x, subtracted);
  if (c.flag("full")) {
    const Tensor last = mul(log(mul(y, 2 * std::numbers::pi)), 0.5), stirling = add(sub(mul(y, log(y)), y), last);
    const Tensor zero = zero_of(stirling);
    loss = add(loss, where(compare_int("le", y, 1), zero, stirling));
  }
  return reduced(c, loss);
}

}  // namespace

void add_reduction_loss_rows(Table& t) {
  t.composite("mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", [](const CallReader& c) {
    Tensor d = difference(c);
    return reduced(c, mul(d, d));
  });
  t.composite("l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
              [](const CallReader& c) { return reduced(c, abs(difference(c))); });
  t.composite("smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor", [](const CallReader& c) {
    TOROID_USER_CHECK(c.real("beta") >= 0, "{}: beta is {}; it must not be negative", c.op().name, c.real("beta"));
    return reduced(c, smooth_distance(difference(c), c.real("beta")));
  });
  t.composite("huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor", [](const CallReader& c) {
    TOROID_USER_CHECK(c.real("delta") > 0, "{}: delta is {}; it must be positive", c.op().name, c.real("delta"));
    return reduced(c, mul(smooth_distance(difference(c), c.real("delta")), c.real("delta")));
  });
  t.composite("soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
              [](const CallReader& c) { return reduced(c, unary("log1p", exp(unary("neg", mul(c.tensor("self"), c.tensor("target")))))); });
  t.composite("margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
              margin_ranking);
  t.composite("hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor", hinge_embedding);
  t.composite("cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
              cosine_embedding);
  t.composite(
      "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2, float eps=1e-06, bool swap=False, "
      "int reduction=1) -> Tensor",
      triplet_margin);
  t.composite("multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor",
              multi_margin);
  t.composite("multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", multilabel_margin);
  t.composite("poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor", poisson_nll);
  t.composite("binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor", binary_cross_entropy);
  t.composite(
      "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> "
      "Tensor",
      binary_cross_entropy_logits);
  t.composite("kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div);
  for (const char* name : {"nll_loss", "nll_loss2d", "nll_loss_nd"})
    t.composite(
        std::string(name) + "(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", nll);
  for (const char* name : {"nll_loss_forward", "nll_loss2d_forward"})
    t.composite(
        std::string(name) +
            "(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
        nll_forward);
  t.composite(
      "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float "
      "label_smoothing=0.0) -> Tensor",
      cross_entropy);
}

}  // namespace toroid::ops

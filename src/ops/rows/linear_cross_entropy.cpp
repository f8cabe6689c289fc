#include "ops/rows/linear_cross_entropy.h"

#include <algorithm>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/table.h"

namespace toroid::ops {

using namespace forms;

void for_scored_rows(const CallReader& c, const std::function<void(const ScoredRows&)>& f) {
  const Tensor x = c.tensor("input"), w = c.tensor("weight"), target = c.tensor("target");
  TOROID_USER_CHECK(x.dim() == 2 && w.dim() == 2 && target.dim() == 1,
                    "{}: input and weight are matrices, targets one a row; got {}, {}, {}", c.op().name, x.dim(), w.dim(), target.dim());
  const auto rows = static_cast<int64_t>(x.size(0)), most = c.integer("rows") > 0 ? c.integer("rows") : std::max<int64_t>(rows, 1);
  for (int64_t at = 0; at == 0 || at < rows; at += most) {
    const Expr begin = at, end = std::min(rows, at + most);
    ScoredRows part{slice(x, 0, begin, end), slice(target, 0, begin, end), {}};
    part.scores = cast_to(call1("linear", {part.input, w, c.opt_tensor("bias")}), compute_type(x.dtype()));
    f(part);
  }
}

Tensor log_sum_of(const ScoredRows& part) {
  const Tensor most = amax(part.scores, {1}, true);
  return add(log(sum(exp(sub(part.scores, most)), {1}, true)), most);
}

Tensor counted_rows(const CallReader& c, const Tensor& target) {
  return cast_to(compare_int("ne", target, c.integer("ignore_index")), compute_type(c.tensor("input").dtype()));
}

Tensor loss_divisor(const CallReader& c) {
  return c.integer("reduction") == 1 ? sum(counted_rows(c, c.tensor("target")), {}, false) : Tensor();
}

namespace {

std::vector<Tensor> linear_cross_entropy(const CallReader& c) {
  TOROID_USER_CHECK(c.integer("reduction") == 1 || c.integer("reduction") == 2, "{}: reduction is {}; it must be 1 (mean) or 2 (sum)",
                    c.op().name, c.integer("reduction"));
  const Tensor divisor = loss_divisor(c);  // first: gradients beside each part need it
  const Expr classes = size_at(c.tensor("weight"), 0);
  Tensor total;
  for_scored_rows(c, [&](const ScoredRows& part) {
    const Tensor counted = counted_rows(c, part.target);
    const Tensor target = cast_to(part.target, DType::I64), none = full({}, 0, DType::I64);
    const Tensor index = where(compare("eq", counted, 0), none, target);
    const Tensor safe = call1("_check_index", {index, classes, "cross_entropy_loss", num(1), false});  // what people have called
    const Tensor picked = call1("gather", {part.scores, num(1), unsqueeze(safe, 1)});
    // Picked first: gradients beside this part may lie over the scores, once their rows have been folded.
    const Tensor loss = sum(mul(call1("squeeze.dim", {sub(log_sum_of(part), picked), num(1)}), counted), {}, false);
    total = total.defined() ? add(total, loss) : loss;
  });
  return {divisor.defined() ? div(total, divisor) : total};
}

// A gradient that is computed with the forward pass, where what it is made of is; behind a seed all the same.
void with_forward_meta(MetaCall& c) { c.result(c.tensor("self")->dtype, c.tensor("self")->sizes); }
std::vector<Expr> as_it_is(const TypeReader&, size_t, const std::vector<Expr>& index) { return index; }

}  // namespace

void add_linear_cross_entropy_rows(Table& t) {
  t.composite(
      "prims.linear_cross_entropy(Tensor input, Tensor weight, Tensor target, Tensor? bias=None, int reduction=1, SymInt "
      "ignore_index=-100, int rows=0) -> Tensor",
      linear_cross_entropy);
  t.view("prims.with_forward(Tensor self, Tensor seed) -> Tensor", with_forward_meta, as_it_is, nullptr);
}

}  // namespace toroid::ops

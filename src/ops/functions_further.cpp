// User-facing functions that PyTorch writes in Python: made of other ones.
#include <numbers>

#include "base/check.h"
#include "ops/call_place.h"
#include "ops/function_arguments.h"

namespace toroid {

using ops::call1;
using namespace ops::arguments;

Tensor softsign(const Tensor& x, Where where) {
  return call1("div.Tensor", {x, call1("add.Tensor", {abs(x, where), Expr(1)}, where)}, where);
}
Tensor softmin(const Tensor& x, int64_t dim, Where where) { return softmax(neg(x, where), dim, where); }

std::vector<Tensor> where(const Tensor& condition, Where where) { return ops::call(ops::get("where"), {condition}, where); }

bool equal(const Tensor& a, const Tensor& b, Where where) {
  if (a.sizes() != b.sizes()) return false;
  return all(call1("eq.Tensor", {a, b}, where), {}, false, where).item<bool>(where);
}

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full, double eps, Reduction reduction,
                        Where where) {
  return call1("poisson_nll_loss", {input, target, log_input, full, eps, Expr(reduction.number("poisson_nll_loss", where))}, where);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var, bool full, double eps, Reduction reduction,
                         Where where) {
  TOROID_USER_CHECK(eps > 0, "gaussian_nll_loss: eps is {}; it must be positive (called at {})", eps, ops::place_text(where));
  const auto kept = reduction.number("gaussian_nll_loss", where);
  const std::vector<SymInt> sizes = input.sym_sizes(), of_var = var.sym_sizes();
  const bool for_rows = of_var.size() + 1 == sizes.size() && std::equal(of_var.begin(), of_var.end(), sizes.begin());
  const Tensor floor = clamp(detach(for_rows ? unsqueeze(var, -1, where) : var, where), eps, std::nullopt, where);
  // The limit has no gradient: that of var goes by, as PyTorch's does.
  const Tensor whole_var = for_rows ? unsqueeze(var, -1, where) : var;
  const Tensor v = add(whole_var, sub(floor, detach(whole_var, where)));
  const Tensor distance = div(square(sub(input, target), where), v);
  Tensor loss = mul(0.5, add(log(v, where), distance));
  if (full) loss = add(loss, 0.5 * std::log(2 * std::numbers::pi));
  return kept == 0 ? loss : kept == 1 ? mean(loss, {}, false, {}, where) : sum(loss, {}, false, {}, where);
}

Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction, bool log_target, Where where) {
  const bool by_batch = reduction.name() == "batchmean";
  const Tensor loss = call1("kl_div", {x, target, Expr(by_batch ? 2 : reduction.number("kl_div", where)), log_target}, where);
  if (!by_batch) return loss;
  TOROID_USER_CHECK(x.dim() > 0, "kl_div: \"batchmean\" needs a batch dimension (called at {})", ops::place_text(where));
  return div(loss, x.size(0));
}

Tensor linalg_pinv(const Tensor& x, Where where) { return call1("linalg_pinv.atol_rtol_float", {x}, where); }

Tensor stft(const Tensor& x, const SymInt& n_fft, const std::optional<SymInt>& hop_length, const std::optional<SymInt>& win_length,
            const Tensor& window, bool center, Word pad_mode, bool normalized, std::optional<bool> onesided,
            std::optional<bool> return_complex, Where where) {
  return call1("stft.center",
               {x, n_fft.expr(), optional(hop_length), optional(win_length), maybe(window), center, std::string(pad_mode), normalized,
                optional(onesided), optional(return_complex)},
               where);
}

}  // namespace toroid

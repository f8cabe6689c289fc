// The arithmetic of each optimizer, in the order in which torch.optim's single-tensor implementations have it.
#include "toroid/train/optimizers.h"

#include <cmath>

#include "toroid/error.h"
#include "toroid/ops.h"
#include "train/group.h"
#include "train/option_ranges.h"

namespace toroid::train {
namespace {

// The gradient of what is minimised, with the decay of the weights added to it.
Tensor minimised(const Tensor& gradient, const Tensor& parameter, bool maximize, double weight_decay) {
  const Tensor g = maximize ? -gradient : gradient;
  return weight_decay != 0 ? g + parameter * weight_decay : g;
}

void decay(const Group& group, const Tensor& parameter, double weight_decay) {
  if (weight_decay != 0) mul_(parameter, 1 - group.lr * weight_decay);
}

// The running mean of x, by a share of `weight` of the new one.
Tensor& blend(Tensor& mean, const Tensor& x, const Operand& weight) {
  copy_(mean, mean + (x - mean) * weight);
  return mean;
}
Tensor& blend_squares(Tensor& mean, const Tensor& x, double beta) {
  copy_(mean, mean * beta + x * (1 - beta) * x);
  return mean;
}

// 1 - beta^step.
Tensor correction(const Group& group, double beta) { return 1 - pow(beta, group.step); }

void adam(Group& group, const AdamOptions& o, std::span<const Tensor> gradients) {
  const Tensor step_size = group.lr / correction(group, o.betas[0]), root = sqrt(correction(group, o.betas[1]));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    if (o.decoupled_weight_decay) decay(group, p, o.weight_decay);
    const Tensor g = minimised(gradients[i], p, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
    const Tensor mean = blend(group.at("exp_avg", i), g, 1 - o.betas[0]);
    Tensor squares = blend_squares(group.at("exp_avg_sq", i), g, o.betas[1]);
    if (o.amsgrad) squares = copy_(group.at("max_exp_avg_sq", i), maximum(group.at("max_exp_avg_sq", i), squares));
    sub_(p, mean * step_size / (sqrt(squares) / root + o.eps));
  }
}

std::vector<std::string> adam_slots(bool amsgrad) {
  std::vector<std::string> slots{"exp_avg", "exp_avg_sq"};
  if (amsgrad) slots.emplace_back("max_exp_avg_sq");
  return slots;
}

// The nearest matrix with orthonormal rows or columns, by Newton and Schulz's iteration in bf16 (Jordan and others, "Muon", 2024).
Tensor orthogonal(const Tensor& update, const MuonOptions& o) {
  const bool tall = update.sizes()[0] > update.sizes()[1];
  Tensor x = to(update, DType::BF16);
  if (tall) x = t(x);
  x = x / clamp(norm(x), o.eps);
  const auto [a, b, c] = o.ns_coefficients;
  for (int k = 0; k < o.ns_steps; ++k) {
    const Tensor gram = mm(x, t(x));
    x = addmm(x, addmm(gram, gram, gram, b, c), x, a, 1);
  }
  return tall ? t(x) : x;
}

}  // namespace

SGD::SGD(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    add_group(std::move(g.parameters), g.options.lr,
              g.options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{});
  }
}

void SGD::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  // The first gradient is taken whole.
  const Tensor share = o.dampening != 0 ? where(group.step == 1, 1.0, 1 - o.dampening) : Tensor();
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    if (o.momentum != 0) {
      Tensor& buffer = group.at("momentum_buffer", i);
      copy_(buffer, buffer * o.momentum + (share.defined() ? g * share : g));
      g = o.nesterov ? g + buffer * o.momentum : buffer;
    }
    sub_(p, g * group.lr);
  }
}

Adam::Adam(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, adam_slots(g.options.amsgrad));
}
void Adam::update(Group& group, size_t index, std::span<const Tensor> gradients) { adam(group, options_[index], gradients); }

AdamW::AdamW(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, adam_slots(g.options.amsgrad));
}
void AdamW::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  adam(group, {o.lr, o.betas, o.eps, o.weight_decay, o.amsgrad, o.maximize, true}, gradients);
}

RMSprop::RMSprop(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    std::vector<std::string> slots{"square_avg"};
    if (g.options.centered) slots.emplace_back("grad_avg");
    if (g.options.momentum > 0) slots.emplace_back("momentum_buffer");
    add_group(std::move(g.parameters), g.options.lr, slots);
  }
}
void RMSprop::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    Tensor squares = blend_squares(group.at("square_avg", i), g, o.alpha);
    if (o.centered) {
      const Tensor mean = blend(group.at("grad_avg", i), g, 1 - o.alpha);
      squares = squares - mean * mean;
    }
    const Tensor scale = sqrt(squares) + o.eps;
    if (o.momentum > 0) {
      Tensor& buffer = group.at("momentum_buffer", i);
      copy_(buffer, buffer * o.momentum + g / scale);
      sub_(p, buffer * group.lr);
    } else {
      sub_(p, g * group.lr / scale);
    }
  }
}

Adagrad::Adagrad(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    Group& group = add_group(std::move(g.parameters), g.options.lr, {"sum"});
    for (size_t i = 0; i < group.parameters.size(); ++i) fill_(group.at("sum", i), g.options.initial_accumulator_value);
  }
}
void Adagrad::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  const Tensor rate = group.lr / (1 + (group.step - 1) * o.lr_decay);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    Tensor& sum = group.at("sum", i);
    copy_(sum, sum + g * g);
    sub_(p, g * rate / (sqrt(sum) + o.eps));
  }
}

Adadelta::Adadelta(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, {"square_avg", "acc_delta"});
}
void Adadelta::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    Tensor& before = group.at("acc_delta", i);
    const Tensor delta = sqrt(before + o.eps) / sqrt(blend_squares(group.at("square_avg", i), g, o.rho) + o.eps) * g;
    blend_squares(before, delta, o.rho);
    sub_(p, delta * group.lr);
  }
}

Adamax::Adamax(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, {"exp_avg", "exp_inf"});
}
void Adamax::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  const Tensor rate = group.lr / correction(group, o.betas[0]);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    const Tensor mean = blend(group.at("exp_avg", i), g, 1 - o.betas[0]);
    Tensor& largest = group.at("exp_inf", i);
    copy_(largest, maximum(largest * o.betas[1], abs(g) + o.eps));
    sub_(p, mean * rate / largest);
  }
}

NAdam::NAdam(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, {"exp_avg", "exp_avg_sq"}).number("mu_product", 1);
}
void NAdam::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  const auto momentum_at = [&](const Tensor& step) { return o.betas[0] * (1 - 0.5 * pow(0.96, step * o.momentum_decay)); };
  const Tensor mu = momentum_at(group.step), next = momentum_at(group.step + 1);
  Tensor& product = group.number("mu_product", 1);
  mul_(product, mu);
  const Tensor of_gradient = group.lr * (1 - mu) / (1 - product), of_mean = group.lr * next / (1 - product * next);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    if (o.decoupled_weight_decay) decay(group, p, o.weight_decay);
    const Tensor g = minimised(gradients[i], p, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
    const Tensor mean = blend(group.at("exp_avg", i), g, 1 - o.betas[0]);
    const Tensor scale = sqrt(blend_squares(group.at("exp_avg_sq", i), g, o.betas[1]) / correction(group, o.betas[1])) + o.eps;
    sub_(p, g * of_gradient / scale);
    sub_(p, mean * of_mean / scale);
  }
}

RAdam::RAdam(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) add_group(std::move(g.parameters), g.options.lr, {"exp_avg", "exp_avg_sq"});
}
void RAdam::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  const double limit = 2 / (1 - o.betas[1]) - 1;
  const Tensor second = correction(group, o.betas[1]);
  const Tensor rho = limit - 2 * group.step * pow(o.betas[1], group.step) / second;
  const Tensor is_tractable = rho > 5.0;
  const Tensor safe = where(is_tractable, rho, 6.0);
  const Tensor rectified = sqrt((safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe)) * sqrt(second);
  const Tensor rate = group.lr / correction(group, o.betas[0]);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    if (o.decoupled_weight_decay) decay(group, p, o.weight_decay);
    const Tensor g = minimised(gradients[i], p, o.maximize, o.decoupled_weight_decay ? 0 : o.weight_decay);
    const Tensor mean = blend(group.at("exp_avg", i), g, 1 - o.betas[0]);
    const Tensor scale = sqrt(blend_squares(group.at("exp_avg_sq", i), g, o.betas[1])) + o.eps;
    sub_(p, mean * rate * where(is_tractable, rectified / scale, 1.0));
  }
}

ASGD::ASGD(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    Group& group = add_group(std::move(g.parameters), g.options.lr, {"ax"});
    group.number("eta", g.options.lr), group.number("mu", 1);
  }
}
void ASGD::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  Tensor &eta = group.number("eta", o.lr), &mu = group.number("mu", 1);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, o.weight_decay);
    copy_(p, p * (1 - eta * o.lambd) - g * eta);
    blend(group.at("ax", i), p, mu);
  }
  copy_(eta, group.lr / pow(1 + group.lr * o.lambd * group.step, o.alpha));
  copy_(mu, 1 / maximum(group.step - o.t0, 1.0));
}

Rprop::Rprop(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    Group& group = add_group(std::move(g.parameters), g.options.lr, {"prev", "step_size"});
    for (size_t i = 0; i < group.parameters.size(); ++i) fill_(group.at("step_size", i), g.options.lr);
  }
}
void Rprop::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor g = minimised(gradients[i], group.parameters[i], o.maximize, 0);
    Tensor &before = group.at("prev", i), &size = group.at("step_size", i);
    const Tensor turn = g * before;
    copy_(size, clamp(size * where(turn > 0.0, o.etas[1], where(turn < 0.0, o.etas[0], 1.0)), o.step_sizes[0], o.step_sizes[1]));
    const Tensor taken = where(turn < 0.0, 0.0, g);
    sub_(group.parameters[i], sign(taken) * size);
    copy_(before, taken);
  }
}

Adafactor::Adafactor(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    const std::vector<Tensor> parameters = g.parameters;
    Group& group = add_group(std::move(g.parameters), g.options.lr, {"row_var", "col_var", "variance"});
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::vector<int64_t> rows = parameters[i].sizes(), columns = rows, none{0};
      const bool factored = rows.size() > 1;
      if (factored) rows[rows.size() - 1] = 1, columns[columns.size() - 2] = 1;
      const auto zeros_of = [&](const std::vector<int64_t>& sizes) {
        return Tensor::full(sizes, 0, parameters[i].dtype(), parameters[i].device());
      };
      group.at("row_var", i) = zeros_of(factored ? rows : none);
      group.at("col_var", i) = zeros_of(factored ? columns : none);
      group.at("variance", i) = zeros_of(factored ? none : parameters[i].sizes());
    }
  }
}
void Adafactor::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  const Tensor share = pow(group.step, o.beta2_decay), rate = minimum(group.lr, 1 / sqrt(group.step));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& p = group.parameters[i];
    const Tensor g = minimised(gradients[i], p, o.maximize, 0);
    const double eps1 = o.eps1.value_or(p.dtype() == DType::F64    ? 2.220446049250313e-16
                                        : p.dtype() == DType::F16  ? 9.765625e-4
                                        : p.dtype() == DType::BF16 ? 7.8125e-3
                                                                   : 1.1920928955078125e-7);
    const double root = std::sqrt(static_cast<double>(p.numel()));
    const Tensor alpha = maximum(norm(p) / root, o.eps2) * rate;
    decay(group, p, o.weight_decay);
    Tensor variance;
    if (p.dim() > 1) {
      Tensor &rows = group.at("row_var", i), &columns = group.at("col_var", i);
      blend(rows, mean(g * g, {-1}, true), share);
      blend(columns, mean(g * g, {-2}, true), share);
      variance = rows * columns / clamp(mean(rows, {-2}, true), eps1);
    } else {
      variance = blend(group.at("variance", i), g * g, share);
    }
    const Tensor update = rsqrt(clamp(variance, eps1 * eps1)) * g;
    sub_(p, update * (alpha / maximum(norm(update) / (root * o.d), 1.0)));
  }
}

Muon::Muon(std::vector<GroupOf<Options>> groups) : options_(checked_options(groups)) {
  for (auto& g : groups) {
    for (auto& p : g.parameters)
      if (p.dim() != 2)
        throw UserError("Muon: a parameter has " + std::to_string(p.dim()) + " dimensions; only matrices are trained by it");
    add_group(std::move(g.parameters), g.options.lr, {"momentum_buffer"});
  }
}
void Muon::update(Group& group, size_t index, std::span<const Tensor> gradients) {
  const Options& o = options_[index];
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Tensor &p = group.parameters[i], &g = gradients[i];
    Tensor& buffer = blend(group.at("momentum_buffer", i), g, 1 - o.momentum);
    const Tensor update = orthogonal(o.nesterov ? g + (buffer - g) * o.momentum : buffer, o);
    const auto rows = static_cast<double>(p.sizes()[0]), columns = static_cast<double>(p.sizes()[1]);
    const double share = o.match_rms_adamw ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    decay(group, p, o.weight_decay);
    sub_(p, to(update, p.dtype()) * (group.lr * share));
  }
}

}  // namespace toroid::train

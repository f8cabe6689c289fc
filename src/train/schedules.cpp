#include "toroid/train/schedules.h"

#include <algorithm>
#include <cmath>

#include "toroid/error.h"
#include "train/errors.h"

namespace toroid::train {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Refuses steps before the first one.
Schedule checked(std::function<double(int64_t)> rate) {
  return [rate = std::move(rate)](int64_t step) {
    if (step < 0) throw UserError("a schedule of learning rates begins at step 0, not at " + std::to_string(step));
    return rate(step);
  };
}

double cosine(double from, double to, double part) { return to + (from - to) * (1 + std::cos(kPi * part)) / 2; }
double linear(double from, double to, double part) { return from + (to - from) * part; }

}  // namespace

Schedule step_lr(double lr, int64_t step_size, double gamma) {
  require(step_size > 0, "step_lr: step_size must be positive");
  return checked([=](int64_t step) { return lr * std::pow(gamma, static_cast<double>(step / step_size)); });
}

Schedule multi_step_lr(double lr, std::vector<int64_t> milestones, double gamma) {
  return checked([=](int64_t step) {
    return lr *
           std::pow(gamma, static_cast<double>(std::count_if(milestones.begin(), milestones.end(), [&](int64_t m) { return m <= step; })));
  });
}

Schedule constant_lr(double lr, double factor, int64_t total_iters) {
  require(factor >= 0 && factor <= 1, "constant_lr: Constant multiplicative factor expected to be between 0 and 1, not {}", factor);
  return checked([=](int64_t step) { return step < total_iters ? lr * factor : lr; });
}

Schedule linear_lr(double lr, double start_factor, double end_factor, int64_t total_iters) {
  require(total_iters > 0, "linear_lr: total_iters must be positive");
  require(start_factor > 0 && start_factor <= 1,
          "linear_lr: Starting multiplicative factor expected to be greater than 0 and less or equal to 1, not {}", start_factor);
  require(end_factor >= 0 && end_factor <= 1, "linear_lr: Ending multiplicative factor expected to be between 0 and 1, not {}", end_factor);
  return checked([=](int64_t step) {
    const double part = static_cast<double>(std::min(step, total_iters)) / static_cast<double>(total_iters);
    return lr * linear(start_factor, end_factor, part);
  });
}

Schedule exponential_lr(double lr, double gamma) {
  return checked([=](int64_t step) { return lr * std::pow(gamma, static_cast<double>(step)); });
}

Schedule polynomial_lr(double lr, int64_t total_iters, double power) {
  require(total_iters > 0, "polynomial_lr: total_iters must be positive");
  return checked([=](int64_t step) {
    return lr * std::pow(1 - static_cast<double>(std::min(step, total_iters)) / static_cast<double>(total_iters), power);
  });
}

Schedule cosine_annealing_lr(double lr, int64_t t_max, double eta_min) {
  require(t_max > 0, "cosine_annealing_lr: t_max must be positive");
  return checked([=](int64_t step) { return cosine(lr, eta_min, static_cast<double>(step) / static_cast<double>(t_max)); });
}

Schedule cosine_annealing_warm_restarts(double lr, int64_t t_0, int64_t t_mult, double eta_min) {
  require(t_0 > 0 && t_mult > 0, "cosine_annealing_warm_restarts: t_0 and t_mult must be positive");
  return checked([=](int64_t step) {
    int64_t period = t_0;
    if (t_mult == 1) step %= period;
    for (; step >= period; period *= t_mult) step -= period;
    return cosine(lr, eta_min, static_cast<double>(step) / static_cast<double>(period));
  });
}

Schedule one_cycle_lr(double max_lr, int64_t total_steps, OneCycleOptions o) {
  require(total_steps > 1, "one_cycle_lr: total_steps must be more than one");
  require(o.pct_start >= 0 && o.pct_start <= 1, "one_cycle_lr: Expected float between 0 and 1 pct_start, but got {}", o.pct_start);
  struct Phase {
    double end, from, to;
  };
  const auto total = static_cast<double>(total_steps);
  const double initial = max_lr / o.div_factor, least = initial / o.final_div_factor, up = o.pct_start * total - 1;
  std::vector<Phase> phases{{up, initial, max_lr}};
  if (o.three_phase) phases.push_back({2 * o.pct_start * total - 2, max_lr, initial});
  phases.push_back({total - 1, o.three_phase ? initial : max_lr, least});
  return checked([=](int64_t step) {
    if (step >= total_steps)
      throw UserError("one_cycle_lr: step " + std::to_string(step) + " of a schedule of " + std::to_string(total_steps) + " steps");
    double begin = 0;
    for (const Phase& p : phases) {
      if (static_cast<double>(step) <= p.end || &p == &phases.back()) {
        const double part = (static_cast<double>(step) - begin) / (p.end - begin);
        return o.linear ? linear(p.from, p.to, part) : cosine(p.from, p.to, part);
      }
      begin = p.end;
    }
    return least;
  });
}

Schedule cyclic_lr(double base_lr, double max_lr, int64_t step_size_up, std::optional<int64_t> step_size_down, CyclicMode mode,
                   double gamma) {
  require(step_size_up > 0 && step_size_down.value_or(1) > 0, "cyclic_lr: step_size_up and step_size_down must be positive");
  return checked([=](int64_t step) {
    const auto up = static_cast<double>(step_size_up), period = up + static_cast<double>(step_size_down.value_or(step_size_up));
    const double cycle = std::floor(1 + static_cast<double>(step) / period), x = 1 + static_cast<double>(step) / period - cycle;
    const double ratio = up / period, height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    const double scale = mode == CyclicMode::Triangular    ? 1
                         : mode == CyclicMode::Triangular2 ? std::pow(0.5, cycle - 1)
                                                           : std::pow(gamma, static_cast<double>(step));
    return base_lr + (max_lr - base_lr) * height * scale;
  });
}

Schedule sequential_lr(std::vector<Schedule> schedules, std::vector<int64_t> milestones) {
  require(!schedules.empty() && milestones.size() + 1 == schedules.size(), "sequential_lr: a milestone is needed between schedules");
  require(std::is_sorted(milestones.begin(), milestones.end()), "sequential_lr: milestones must increase");
  return checked([=](int64_t step) {
    const auto k = static_cast<size_t>(std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin());
    return schedules[k](k == 0 ? step : step - milestones[k - 1]);
  });
}

}  // namespace toroid::train

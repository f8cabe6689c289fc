// Schedules of learning rates, with PyTorch's names, defaults and closed forms (torch.optim.lr_scheduler).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace toroid::train {

// The learning rate of each step; step 0 is the first. UserError for a negative step.
using Schedule = std::function<double(int64_t step)>;

// Each maker takes the base rate first, and UserErrors name what a schedule cannot have (a period of no steps).
Schedule step_lr(double lr, int64_t step_size, double gamma = 0.1);
Schedule multi_step_lr(double lr, std::vector<int64_t> milestones, double gamma = 0.1);
Schedule constant_lr(double lr, double factor = 1.0 / 3, int64_t total_iters = 5);
Schedule linear_lr(double lr, double start_factor = 1.0 / 3, double end_factor = 1, int64_t total_iters = 5);
Schedule exponential_lr(double lr, double gamma);
Schedule polynomial_lr(double lr, int64_t total_iters = 5, double power = 1);
Schedule cosine_annealing_lr(double lr, int64_t t_max, double eta_min = 0);
Schedule cosine_annealing_warm_restarts(double lr, int64_t t_0, int64_t t_mult = 1, double eta_min = 0);

struct OneCycleOptions {
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;
  bool linear = false, three_phase = false;  // anneal_strategy "linear"; else "cos"
};
// UserError for a step beyond total_steps.
Schedule one_cycle_lr(double max_lr, int64_t total_steps, OneCycleOptions options = {});

enum class CyclicMode : uint8_t { Triangular, Triangular2, ExpRange };
Schedule cyclic_lr(double base_lr, double max_lr, int64_t step_size_up = 2000, std::optional<int64_t> step_size_down = {},
                   CyclicMode mode = CyclicMode::Triangular, double gamma = 1);

// schedules[k] from milestones[k - 1] on, each counting its own steps.
Schedule sequential_lr(std::vector<Schedule> schedules, std::vector<int64_t> milestones);

}  // namespace toroid::train

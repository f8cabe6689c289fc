// Optimizers, with PyTorch's names, defaults and arithmetic (torch.optim).
//
//   train::AdamW optimizer(model.parameters(), {.lr = 3e-4});
//   auto step = compile([&](const Tensor& x, const Tensor& y) {
//     auto [loss, gradients] = value_and_gradients([&] { return cross_entropy(model.forward(x), y); }, optimizer.parameters());
//     optimizer.step(gradients);
//     return loss;
//   });
//
// A step writes the parameters and the optimizer's state in place. Inside of a compiled function it becomes a part of its program. The
// learning rate and the number of steps are tensors, so that neither costs another compile.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::train {

// The parameters of one group, with their state.
class Group;

// Moved, not copied: two optimizers would write one state.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  // One step by a gradient for each parameter, in the order of this optimizer's parameters() (with groups another one than the module's,
  // which shows where sizes differ alone) and of their sizes. UserError for another number or other sizes, and where a module has put other
  // tensors in the place of its parameters since.
  void step(std::span<const Tensor> gradients);
  // The same where `condition`, a bool without dimensions, is true; else nothing changes. It is not read by the host.
  void step_if(const Tensor& condition, std::span<const Tensor> gradients);
  // Of all groups, in order.
  std::vector<Tensor> parameters() const;
  size_t group_count() const { return groups_.size(); }
  // f64, without dimensions. What is written to it holds from the next step on, in compiled functions too.
  Tensor learning_rate(size_t group = 0) const;
  void set_learning_rate(double lr, size_t group = 0);
  // Everything that a step reads and writes besides parameters, by name ("0.step", "0.exp_avg.3": group, what it is, parameter): for
  // checkpoints. The tensors are the optimizer's own.
  std::vector<std::pair<std::string, Tensor>> state() const;

 protected:
  Optimizer();
  // Adds a group; `slots`: names of the state that each parameter has, zeros at first. UserError for tensors that are no floats, and for
  // one that is given twice, here or in another group.
  Group& add_group(std::vector<Tensor> parameters, double lr, std::vector<std::string> slots);
  // One step of a group.
  virtual void update(Group& group, size_t index, std::span<const Tensor> gradients) = 0;

 private:
  void check(std::span<const Tensor> gradients) const;
  std::vector<std::unique_ptr<Group>> groups_;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, maximize = false;
};
struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool amsgrad = false, maximize = false, decoupled_weight_decay = false;
};
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false, maximize = false;
};
struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, maximize = false;
};
struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool maximize = false;
};
struct AdadeltaOptions {
  double lr = 1.0, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool maximize = false;
};
struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool maximize = false;
};
struct NAdamOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0, momentum_decay = 4e-3;
  bool decoupled_weight_decay = false, maximize = false;
};
struct RAdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false, maximize = false;
};
struct ASGDOptions {
  double lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  bool maximize = false;
};
struct RpropOptions {
  double lr = 1e-2;
  std::array<double, 2> etas = {0.5, 1.2}, step_sizes = {1e-6, 50};
  bool maximize = false;
};
struct AdafactorOptions {
  double lr = 1e-2, beta2_decay = -0.8;
  std::optional<double> eps1 = {};  // not set: the smallest difference from 1 of the parameter's dtype
  double eps2 = 1e-3, d = 1, weight_decay = 0;
  bool maximize = false;
};
// Of matrices alone.
struct MuonOptions {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int ns_steps = 5;
  bool match_rms_adamw = false;  // the learning rate's share: 0.2 sqrt(max(rows, columns)); else sqrt(max(1, rows / columns))
};

// An optimizer whose groups have options of one kind. UserErrors in PyTorch's words for values out of its ranges (a negative rate), and
// where all groups together have no parameter.
template <class Options>
struct GroupOf {
  std::vector<Tensor> parameters;
  Options options = {};
};

#define TOROID_OPTIMIZER(Name) \
  class Name : public Optimizer { \
   public: \
    using Options = Name##Options; \
    explicit Name(std::vector<Tensor> parameters, Options options = {}) \
        : Name(std::vector{GroupOf<Options>{std::move(parameters), options}}) {} \
    explicit Name(std::vector<GroupOf<Options>> groups); \
\
   protected: \
    void update(Group& group, size_t index, std::span<const Tensor> gradients) override; \
\
   private: \
    std::vector<Options> options_; \
  };

TOROID_OPTIMIZER(SGD)
TOROID_OPTIMIZER(Adam)
TOROID_OPTIMIZER(AdamW)
TOROID_OPTIMIZER(RMSprop)
TOROID_OPTIMIZER(Adagrad)
TOROID_OPTIMIZER(Adadelta)
TOROID_OPTIMIZER(Adamax)
TOROID_OPTIMIZER(NAdam)
TOROID_OPTIMIZER(RAdam)
TOROID_OPTIMIZER(ASGD)
TOROID_OPTIMIZER(Rprop)
TOROID_OPTIMIZER(Adafactor)
TOROID_OPTIMIZER(Muon)
#undef TOROID_OPTIMIZER

// The norm of all gradients together, without dimensions: f64 where some are, else f32. `p`: which norm; infinity is the largest element.
Tensor grad_norm(std::span<const Tensor> gradients, double p = 2);
// The gradients, scaled so that the norm of all together is at most max_norm, and that norm as it was (as grad_norm() has it), as
// torch.nn.utils.clip_grad_norm_ has it. `p`: which norm; infinity is the largest element.
std::pair<std::vector<Tensor>, Tensor> clip_grad_norm(std::span<const Tensor> gradients, double max_norm, double p = 2);
// Each element between -limit and limit.
std::vector<Tensor> clip_grad_value(std::span<const Tensor> gradients, double limit);

}  // namespace toroid::train

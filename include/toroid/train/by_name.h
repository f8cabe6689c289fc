// Optimizers and schedules from their names in PyTorch and their arguments by name, as configurations have them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "toroid/train/optimizers.h"
#include "toroid/train/schedules.h"

namespace toroid::train {

using ArgumentValue = std::variant<bool, double, std::vector<double>, std::string>;
using Arguments = std::map<std::string, ArgumentValue>;

// "AdamW" with {"lr": 3e-4, "betas": {0.9, 0.95}}. UserError for a name or an argument that there is not, with the nearest ones, and for a
// value of the wrong kind or out of range (a negative rate).
std::unique_ptr<Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters, const Arguments& arguments = {});

// "CosineAnnealingLR" with {"T_max": 15}; lr: the base rate, of which OneCycleLR and CyclicLR have arguments of their own.
Schedule make_schedule(const std::string& name, double lr, const Arguments& arguments = {});

}  // namespace toroid::train

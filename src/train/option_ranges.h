// What optimizers take as their options.
#pragma once

#include "toroid/train/optimizers.h"

namespace toroid::train {

// The options of each group. UserError in PyTorch's words where one is out of range, and where there is no parameter at all.
template <class Options>
std::vector<Options> checked_options(const std::vector<GroupOf<Options>>& groups);

}  // namespace toroid::train

// Times of whole models.
#pragma once

#include <vector>

#include "compile/model.h"
#include "tune/measure/measure.h"

namespace toroid::cli {

// Calls of all, in turns, for so many rounds; ratios are to the first's time.
tune::Verdict compare_calls(std::vector<compiler::CompiledModel>& models, const std::vector<Tensor>& inputs, const Device& device,
                            int rounds);

}  // namespace toroid::cli

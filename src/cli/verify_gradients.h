// The gradients of a case of `toroid verify`, where they are stored beside its model.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/compare.h"
#include "cli/runner.h"
#include "graph/graph.h"

namespace toroid::cli {

// grad.safetensors: with cotangent.safetensors beside it, the gradients of the user inputs ("000", "001", ...) of the sum over the outputs
// times their cotangents; else those of the parameters, by name, of the first output.
bool has_gradients(const std::filesystem::path& folder);

// What is wrong with the gradients of a model, a line each. Tolerance: of each gradient's range where there are cotangents, of the largest
// gradient of all where the first output is a loss. Of programs that draw random numbers, dtype and sizes count.
std::vector<std::string> check_gradients(const std::filesystem::path& folder, std::unique_ptr<graph::Graph> graph, Backend backend,
                                         const std::string& device, const Tolerance& tolerance);

// losses.safetensors ("losses": that of each step, before it) and after.safetensors (the parameters by name).
bool has_training(const std::filesystem::path& folder);

// What is wrong with the losses and parameters of as many steps of AdamW (lr 1e-3, betas 0.9 and 0.95, weight decay 0.1) on the batch in
// in.safetensors, a line each. Losses differ by at most the tolerance of them, parameters by that of their range; those whose first
// gradient is below 1e-5 of the largest are left out, as AdamW makes steps of its noise.
std::vector<std::string> check_training(const std::filesystem::path& folder, std::unique_ptr<graph::Graph> graph, Backend backend,
                                        const std::string& device, const Tolerance& tolerance);

}  // namespace toroid::cli

// Cases of `toroid verify` that are no models: runs of optimizers, and schedules of learning rates, as PyTorch wrote them down.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace toroid::cli {

// A safetensors file whose metadata name an optimizer and its arguments ("optimizer", "config": JSON), with the parameters before
// ("start.i"), the gradients of each step ("grad.<step>.i") and the parameters afterwards ("end.i").
bool is_optimizer_case(const std::filesystem::path& file);
// What is wrong with the parameters after the steps, a line each: 1e-6 of each parameter's largest element, before or after, and 1e-2 of
// its change for optimizers that compute in bf16 (Muon).
std::vector<std::string> check_optimizer(const std::filesystem::path& file);

// schedules.json: a list of {"name", "args", "lr", "rates"}, the rate of each step.
bool is_schedules_case(const std::filesystem::path& file);
// Rates that differ by more than 1e-6 of them, a line each.
std::vector<std::string> check_schedules(const std::filesystem::path& file);

}  // namespace toroid::cli

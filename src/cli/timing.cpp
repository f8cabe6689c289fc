#include "cli/timing.h"

#include <chrono>

#include "device/runtime.h"

namespace toroid::cli {
namespace {

// Of a second call: the model that was called before has left the caches in its own state.
double call_ns(compiler::CompiledModel& model, const std::vector<Tensor>& inputs, const Device& device) {
  model.run(inputs);
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  model.run(inputs);
  synchronize(device);
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

tune::Verdict compare_calls(std::vector<compiler::CompiledModel>& models, const std::vector<Tensor>& inputs, const Device& device,
                            int rounds) {
  tune::MeasureOptions how;
  how.budget_ms = 20'000.0 * static_cast<double>(models.size());
  how.least_rounds = how.most_rounds = static_cast<size_t>(rounds);  // none is dropped before
  return tune::measure(
      models.size(), [&](size_t i) { return call_ns(models[i], inputs, device); }, how);
}

}  // namespace toroid::cli

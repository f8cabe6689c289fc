// What a run holds in memory, as the compiler foretells it, and programs that are cut to a cap.
#include "compile/memory.h"

#include <gtest/gtest.h>

#include "compile/model.h"
#include "errors.h"
#include "front/compile_model.h"
#include "graph/recorder.h"
#include "toroid/device_memory.h"
#include "toroid/grad.h"
#include "toroid/nn.h"

namespace toroid::compiler {
namespace {

// The gradients of a few layers, by their weights.
std::unique_ptr<graph::Graph> training_graph() {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  const auto input = [&](std::vector<Expr> sizes) {
    return recorder.proxy(g->add_input({DType::F32, std::move(sizes), {}}, graph::InputKind::User, "x"));
  };
  std::vector<Tensor> weights;
  const Tensor x = input({2048, 256});
  for (int i = 0; i < 6; ++i) weights.push_back(input({256, 256}));
  DispatchScope scope(recorder);
  auto [value, gradients] = value_and_gradients(
      [&] {
        Tensor y = x;
        for (auto& w : weights) y = gelu(matmul(y, w));
        return mean(y * y);
      },
      weights);
  gradients.push_back(value);
  for (auto& t : gradients) g->outputs.push_back({recorder.value_of(t), {}, -1});
  return g;
}

CompiledModel compiled_model(const std::string& budget) {
  Setup setup = front::setup_of({});
  setup.options.set("activation_memory_budget", budget);
  return CompiledModel::make(training_graph(), setup);
}
CompileReport compiled(const std::string& budget) { return compiled_model(budget).report(); }

// How much more memory tensors take while the model runs for the first time.
int64_t measured_peak(CompiledModel& model) {
  const Device cpu = Device::cpu();
  std::vector<Tensor> inputs{Tensor::full(std::vector<int64_t>{2048, 256}, 0.5)};
  for (int i = 0; i < 6; ++i) inputs.push_back(Tensor::full(std::vector<int64_t>{256, 256}, 0.01));
  const size_t before = memory_stats(cpu).allocated;
  reset_peak_memory_stats(cpu);
  const auto results = model.run(inputs);
  return static_cast<int64_t>(memory_stats(cpu).peak - before);
}

TEST(Memory, IsWhatARunTakes) {
  for (const char* budget : {"off", "1", "0.5", "0"}) {
    CompiledModel model = compiled_model(budget);
    const MemoryNeed need = model.report().memory;
    const auto peak = static_cast<double>(measured_peak(model));
    EXPECT_NEAR(static_cast<double>(need.all()), peak, 0.05 * peak) << budget;
    EXPECT_EQ(need.outputs, 6 * 256 * 256 * 4 + 4);
  }
}

TEST(Memory, CapsAreKept) {
  const int64_t most = compiled("1").memory.all(), least = compiled("0").memory.all();
  ASSERT_LT(least, most);
  EXPECT_EQ(compiled(std::to_string(most) + "B").memory.all(), most);  // nothing needs to be computed again
  for (const int64_t cap : {most - 1, (most + least) / 2, least}) {
    CompiledModel model = compiled_model(std::to_string(cap) + "B");
    EXPECT_LE(model.report().memory.all(), cap);
    EXPECT_LE(measured_peak(model), cap);
  }
  const std::string error = test::user_error([&] { compiled(std::to_string(least - 1) + "B"); });
  EXPECT_TRUE(test::contains(error, "needs " + std::to_string(least) + " bytes")) << error;
  EXPECT_TRUE(test::contains(error, "1 too few")) << error;
}

TEST(Memory, GrowsWithTheBudget) {
  int64_t before = 0;
  for (const char* budget : {"0", "0.25", "0.5", "0.75", "1"}) {
    const int64_t need = compiled(budget).memory.all();
    EXPECT_GE(need, before) << budget;
    before = need;
  }
}

}  // namespace
}  // namespace toroid::compiler

// Random graphs as programs: at each step from lowering to the schedule, on CPUs and GPUs, a program keeps the rules of the IR, its text
// reads back as the same program, and it means what the graph means. TOROID_FUZZ_PROGRAMS and TOROID_FUZZ_SEED choose how many graphs and
// from where (scripts/fuzz-compiled.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "fuzz_compiled/drawn_graphs.h"
#include "fuzz_compiled/from_environment.h"
#include "fuzz_compiled/program_steps.h"
#include "graph/random_graph.h"
#include "import/load_model.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

compiler::Setup setup_of(uint64_t seed, const device::cuda::GpuInfo* gpu) {
  compiler::Setup setup;
  setup.device = gpu ? Device::cuda() : Device::cpu();
  setup.options.set("check_indices", seed % 5 == 3 ? "0" : "1");
  if (seed % 11 == 5) setup.options.set("fusion", seed % 2 ? "none" : "per-node");
  return setup;
}

void check(const device::cuda::GpuInfo* gpu) {
  const uint64_t count = test::from_environment("TOROID_FUZZ_PROGRAMS", 400),
                 first = test::from_environment("TOROID_FUZZ_SEED", gpu ? fuzz::kFirstOfGpus : 1);
  uint64_t refused = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    const auto g = graph::random_graph(seed, fuzz::options_of_program(seed));
    test::ProgramCheck check(*g, graph::random_inputs(*g, seed, seed % 3 == 0), setup_of(seed, gpu), gpu);
    const std::string fault = check.fault({.interprets_each = true, .kernels = seed % 8 == 0});
    EXPECT_EQ(fault, "") << "seed " << seed << "\n" << graph::to_string(*g);
    failures += !fault.empty();
    refused += check.refused();
  }
  EXPECT_LT(refused, count / 10 + 1);
}

TEST(RandomProgram, MeansTheGraphOnTheCpu) { check(nullptr); }

TEST(RandomProgram, MeansTheGraphOnAGpu) {
  const device::cuda::GpuInfo hopper;
  check(&hopper);
}

// The models of tests/data, or those in the folder TOROID_TEST_PROGRAM_MODELS.
TEST(ModelProgram, MeansTheGraph) {
  const char* folder = std::getenv("TOROID_TEST_PROGRAM_MODELS");
  const device::cuda::GpuInfo hopper;
  int count = 0;
  for (auto& entry : std::filesystem::recursive_directory_iterator(folder ? folder : TOROID_SOURCE_DIR "/tests/data/models")) {
    const auto path = entry.path();
    if (path.extension() != ".pt2" && path.extension() != ".onnx") continue;
    SCOPED_TRACE(path.string());
    std::vector<Tensor> inputs;
    if (std::filesystem::exists(path.parent_path() / "in.safetensors"))
      for (auto& [name, t] : load_tensors(path.parent_path() / "in.safetensors"))
        if (name.find('.') == std::string::npos) inputs.push_back(t);  // of the first call
    const auto g = import::load_model(path);
    const bool given = !inputs.empty();
    if (!given) inputs = graph::random_inputs(*g, 1);  // which a model may refuse
    for (const auto* gpu : {static_cast<const device::cuda::GpuInfo*>(nullptr), &hopper}) {
      test::ProgramCheck check(*g, inputs, setup_of(0, gpu), gpu);
      EXPECT_EQ(check.fault({.interprets_each = false, .kernels = true}), "");
      EXPECT_FALSE(given && check.refused());
    }
    ++count;
  }
  EXPECT_GT(count, 0);
}

}  // namespace
}  // namespace toroid

// Random graphs one of whose operations may get an index that its dimension does not have: whatever runs a graph refuses it with the same
// words, or nothing does. TOROID_FUZZ_BAD_INDICES and TOROID_FUZZ_SEED choose how many and from where.
#include <gtest/gtest.h>

#include "base/options.h"
#include "compile/stages.h"
#include "errors.h"
#include "front/compile_model.h"
#include "fuzz_compiled/from_environment.h"
#include "graph/aliasing_oracle.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "graph/random_graph.h"
#include "program/interpret.h"

namespace toroid {
namespace {

graph::RandomGraphOptions options_of(uint64_t seed) {
  return {.nodes = 1 + static_cast<int>(seed % 6),
          .dynamic_sizes = seed % 3 != 0,
          .in_place = seed % 4 == 1,
          .data_dependent = false,
          .degenerate = seed % 7 == 4,
          .bad_indices = true};
}

class Subject {
 public:
  explicit Subject(uint64_t seed)
      : graph_(graph::random_graph(seed, options_of(seed))), inputs_(graph::random_inputs(*graph_, seed, seed % 2)) {}

  // What each of them says of the inputs: "no error" where it takes them.
  std::string graph_interpreter() {
    auto f = graph::functionalize(*graph_);
    return said([&](auto& inputs) { graph::interpret(f ? *f : *graph_, inputs); });
  }
  std::string program_interpreter(const device::cuda::GpuInfo* gpu, Fusion fusion) {
    test::Stages stages;
    stages.setup.device = gpu ? Device::cuda() : Device::cpu();
    stages.setup.options.set(fusion);
    stages.target = backend::make_backend(stages.setup.device, stages.setup.options, gpu);
    return said([&](auto& inputs) {
      auto p = stages.lowered(*graph_);
      p = target::run_passes(std::move(p), *stages.target, program::Stage::Scheduled, stages.setup.options);
      program::interpret(p, inputs);
    });
  }
  std::string kernels() {
    return said([&](auto& inputs) { front::compile_model(graph::clone(*graph_)).run(inputs); });
  }
  // Whether the operation gives nothing: then nobody needs to look at its indices.
  bool gives_nothing() const {
    const auto sizes = graph::bind_inputs(*graph_, inputs_).values(graph_->outputs.back().value->type.sizes);
    return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
  }
  std::string text() const { return graph::to_string(*graph_); }

 private:
  template <class F>
  std::string said(F&& run) {
    std::vector<Tensor> inputs;
    for (auto& t : inputs_) inputs.push_back(graph::deep_copy(t));
    return test::user_error([&] { run(inputs); });
  }

  std::unique_ptr<graph::Graph> graph_;
  std::vector<Tensor> inputs_;
};

TEST(BadIndices, AreRefusedByAllOrByNone) {
  ScopedOption no_cache("cache", "0");
  const uint64_t count = test::from_environment("TOROID_FUZZ_BAD_INDICES", 300), first = test::from_environment("TOROID_FUZZ_SEED", 1);
  const device::cuda::GpuInfo hopper;
  uint64_t refused = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    Subject s(seed);
    const std::string expected = s.graph_interpreter();
    const bool bad = test::contains(expected, "is out of range for");
    refused += bad;
    if (expected != "no error" && (!bad || s.gives_nothing())) continue;
    std::vector<std::pair<const char*, std::string>> found;
    found.emplace_back("on the CPU", s.program_interpreter(nullptr, Fusion::All));
    found.emplace_back("on the CPU, unfused", s.program_interpreter(nullptr, Fusion::None));
    found.emplace_back("on a GPU", s.program_interpreter(&hopper, Fusion::All));
    if (seed % 4 == 0) found.emplace_back("compiled", s.kernels());
    for (auto& [who, said] : found) {
      EXPECT_EQ(said, expected) << "seed " << seed << " " << who << "\n" << s.text();
      failures += said != expected;
    }
  }
  EXPECT_GT(refused, count / 3);
  EXPECT_LT(refused, count - count / 10);
}

}  // namespace
}  // namespace toroid

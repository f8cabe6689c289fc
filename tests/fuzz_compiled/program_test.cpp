// Random graphs as programs: at each step from lowering to the schedule, on CPUs and GPUs, a program keeps the rules of the IR, its text
// reads back as the same program, and it means what the graph means. TOROID_FUZZ_PROGRAMS and TOROID_FUZZ_SEED choose how many graphs and
// from where (scripts/fuzz-compiled.sh).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "choice/interpret.h"
#include "choice/parse.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/program_steps.h"
#include "graph/aliasing_oracle.h"
#include "graph/random_graph.h"

namespace toroid {
namespace {

using choice::Program;
using test::ProgramStep;

uint64_t from_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

graph::RandomGraphOptions options_of(uint64_t seed) {
  return {.nodes = 4 + static_cast<int>(seed % 13),
          .dynamic_sizes = seed % 4 != 0,
          .in_place = seed % 3 != 1,  // the oracle of aliasing runs no control flow
          .control_flow = seed % 6 == 1,
          .degenerate = seed % 7 == 4};
}

// A graph that is compiled for one device.
class Subject {
 public:
  Subject(uint64_t seed, const device::cuda::GpuInfo* gpu) : seed_(seed), gpu_(gpu), graph_(graph::random_graph(seed, options_of(seed))) {
    stages_.setup.device = gpu ? Device::cuda() : Device::cpu();
    stages_.setup.options.set("check_indices", seed % 5 == 3 ? "0" : "1");
    if (seed % 11 == 5) stages_.setup.options.set("fusion", seed % 2 ? "none" : "per-node");
    stages_.target = compiler::make_target(stages_.setup, gpu);
  }

  // What is wrong, and after which step; empty where nothing is.
  std::string fault() {
    try {
      Program p = stages_.lowered(*graph_);
      Program whole = compiler::schedule(p, *stages_.target, stages_.setup.options, stages_.report.fusion, stages_.report.choices);
      if (std::string what = fault_of(p, choice::Stage::Lowered); !what.empty()) return "lowered: " + what;
      for (auto& step : test::schedule_steps(stages_.setup, gpu_)) {
        p = step.run(std::move(p));
        if (std::string what = fault_of(p, step.stage); !what.empty()) return std::string(step.name) + ": " + what;
      }
      if (choice::to_string(whole) != choice::to_string(p)) return "these steps are not those of the compiler";
      return seed_ % 8 == 0 ? fault_of_kernels(p) : "";
    } catch (const Error& e) {
      return e.what();
    }
  }
  std::string text() const { return graph::to_string(*graph_); }
  bool refused() const { return refused_; }

 private:
  std::string fault_of(const Program& p, choice::Stage stage) {
    choice::verify(p, stage, "this step");
    const std::string text = choice::to_string(p);
    if (text == latest_) return "";  // nothing has happened
    latest_ = text;
    const Program again = test::reread(p);
    if (const std::string other = choice::to_string(again); other != text) return "its text reads back as\n" + other + "\nand was\n" + text;
    choice::verify(again, stage, "reading its text");
    if (refused_) return "";
    const auto inputs = graph::random_inputs(*graph_, seed_, seed_ % 3 == 0);
    const auto verdict = fuzz::compare(*graph_, inputs, [&](const std::vector<Tensor>& own) { return run_both(p, again, own); });
    refused_ = verdict.refused;
    return verdict.failure ? *verdict.failure + "\n" + text : "";
  }

  // Runs the program, and what was read of its text, which gives the same bits.
  static std::vector<Tensor> run_both(const Program& p, const Program& again, const std::vector<Tensor>& inputs) {
    std::vector<Tensor> own;
    for (auto& t : inputs) own.push_back(graph::deep_copy(t));
    const auto out = choice::interpret(p, inputs), other = choice::interpret(again, own);
    TOROID_USER_CHECK(out.size() == other.size(), "the program that was read has {} results, not {}", other.size(), out.size());
    for (size_t i = 0; i < out.size(); ++i) same_bits(out[i], other[i]);
    for (size_t i = 0; i < own.size(); ++i) same_bits(inputs[i], own[i]);
    return out;
  }
  static void same_bits(const Tensor& a, const Tensor& b) {
    if (!a.defined() && !b.defined()) return;
    const Tensor x = graph::deep_copy(a), y = graph::deep_copy(b);
    const size_t bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
    TOROID_USER_CHECK(x.sizes() == y.sizes() && x.dtype() == y.dtype() && std::memcmp(x.raw_data(), y.raw_data(), bytes) == 0,
                      "the program that was read gives other results");
  }

  // The kernels of the program, and of its text.
  std::string fault_of_kernels(const Program& p) {
    const auto own = kernels(p), again = kernels(test::reread(p));
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] != again.at(i)) return "kernel " + std::to_string(i) + " of its text is\n" + again[i] + "\ninstead of\n" + own[i];
    return "";
  }
  std::vector<std::string> kernels(Program p) {
    compiler::Assembly assembly(std::move(p), stages_.setup, stages_.report, stages_.target,
                                compiler::DebugFolder("test", stages_.setup.options));
    assembly.generate();
    std::vector<std::string> out;
    for (auto& k : assembly.kernels()) out.push_back(k.source);
    return out;
  }

  uint64_t seed_;
  const device::cuda::GpuInfo* gpu_;
  std::unique_ptr<graph::Graph> graph_;
  test::Stages stages_;
  std::string latest_;
  bool refused_ = false;  // by the interpreter of graphs
};

void check(const device::cuda::GpuInfo* gpu) {
  const uint64_t count = from_environment("TOROID_FUZZ_PROGRAMS", 400), first = from_environment("TOROID_FUZZ_SEED", gpu ? 1001 : 1);
  uint64_t refused = 0;
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    Subject subject(seed, gpu);
    const std::string fault = subject.fault();
    EXPECT_EQ(fault, "") << "seed " << seed << "\n" << subject.text();
    failures += !fault.empty();
    refused += subject.refused();
  }
  EXPECT_LT(refused, count / 10 + 1);
}

TEST(RandomProgram, MeansTheGraphOnTheCpu) { check(nullptr); }

TEST(RandomProgram, MeansTheGraphOnAGpu) {
  device::cuda::GpuInfo hopper;
  hopper.architecture = "sm_90a";
  check(&hopper);
}

}  // namespace
}  // namespace toroid

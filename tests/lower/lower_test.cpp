// Each family of operations by one example: tests/data/lowering/<family>.graph.txt becomes <family>.program.txt. TOROID_TEST_UPDATE=1
// writes what lowering gives instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "lower/lowering.h"
#include "program/verify.h"

namespace toroid::lower {
namespace {

const std::filesystem::path kGraphs = TOROID_SOURCE_DIR "/tests/data/lowering";

// Has templates of attention and sorting.
struct Templates : target::Target {
  Templates() : Target({.spare_operations = 16}) {}
  std::string refusal(const program::Problem& problem, const target::Question& question) const override {
    if (auto* g = std::get_if<program::Gemm>(&problem)) return is_float(g->a.dtype) ? "" : "floats alone";
    return program::is_a<program::Convolution>(problem) ? Target::refusal(problem, question) : "";
  }
};

program::Program lowered(const graph::Graph& g) {
  const Templates target;
  return lower(g, {.target = &target});
}

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, BecomesTheProgramThatIsExpected) {
  const std::string given = read_file(kGraphs / (std::string(GetParam()) + ".graph.txt"));
  const auto graph = graph::parse(given);
  const program::Program p = lowered(*graph);
  program::verify(p, program::Stage::Lowered, "lowering");
  const std::string text = program::to_string(p, given.find('@') != std::string::npos);
  const auto expected = kGraphs / (std::string(GetParam()) + ".program.txt");
  if (std::getenv("TOROID_TEST_UPDATE")) std::ofstream(expected) << text;
  EXPECT_EQ(text, read_file(expected));
}

INSTANTIATE_TEST_SUITE_P(Lower, Family,
                         testing::Values("pointwise", "view", "reduction", "template", "wide_product", "rotation", "whole_window",
                                         "attention", "attention_backward", "extern", "composite", "control_flow", "scatter", "checks",
                                         "sort"),
                         [](auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace toroid::lower

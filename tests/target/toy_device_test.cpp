// A device that no room of the compiler knows: it takes f32 products of few columns, joins loops, and has a pass of its own.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "sched/passes.h"
#include "tune/search/choices.h"

namespace toroid::target {
namespace {

constexpr int64_t kColumns = 16;

// Gives every product the toy's one configuration.
bool set_tiles(program::Program& p, PassContext& context) {
  bool any = false;
  for (auto& n : p.nodes)
    if (std::holds_alternative<program::Gemm>(n.problem) && n.config.empty()) {
      n.config = {"toy", {{"workers", context.target.facts().workers}}};
      context.report.choices.push_back(program::label(n) + ": toy");
      any = true;
    }
  return any;
}

constexpr ProgramPass kSchedule[] = {
    sched::kInlineDefaults,
    sched::kFuse,
    {"set_tiles", "Gives products the toy's configuration.", set_tiles},
    sched::kAbsorbProducers,
};

class Toy : public Target {
 public:
  explicit Toy(bool takes_rows = true) : Target({.isa = "toy", .key = "a toy", .workers = 3}), takes_rows_(takes_rows) {}

  std::string refusal(const program::Problem& problem, const Question&) const override {
    if (!program::is_a<program::Gemm>(problem)) return "the toy knows products alone";
    const auto& g = std::get<program::Gemm>(problem);
    if (g.a.dtype != DType::F32 || !g.batch.empty()) return "the toy knows matrices of f32";
    return g.n.maybe_constant().value_or(kColumns + 1) <= kColumns ? "" : "the toy has few columns";
  }
  std::span<const ProgramPass> passes(program::Stage to) const override {
    if (to == program::Stage::Lowered) return {};
    return kSchedule;
  }
  std::string producer_refusal(const program::Node&) const override { return takes_rows_ ? "" : "the toy reads rows from memory"; }
  std::vector<program::Config> proposals(const program::Program& p, size_t node) const override {
    if (!std::holds_alternative<program::Gemm>(p.nodes[node].problem)) return {};
    return {{"toy", {{"workers", 1}}}, {"toy", {{"workers", 2}}}};
  }

 private:
  const bool takes_rows_;
};

program::Program lowered(const std::string& text, const Target* target) {
  return lower::lower(*graph::run_passes(graph::parse(text), graph::pipeline(graph::kInference)), {.target = target});
}

std::string mm(int64_t columns, const char* dtype = "f32") {
  return fmt::format(R"(graph "toy"(%x: {0}[8, 32], %w: {0}[32, {1}]) {{
  %e: {0}[8, 32] = exp(%x)
  %p: {0}[8, {1}] = mm(%e, %w)
  %r: {0}[8, {1}] = relu(%p)
  return %r
}})",
                     dtype, columns);
}

size_t products(const program::Program& p) {
  return static_cast<size_t>(
      std::count_if(p.nodes.begin(), p.nodes.end(), [](auto& n) { return std::holds_alternative<program::Gemm>(n.problem); }));
}

TEST(ToyDevice, TakesWhatItSaysAndTheRestIsLoops) {
  const Toy toy;
  EXPECT_EQ(products(lowered(mm(16), &toy)), 1u);
  for (const std::string& text : {mm(17), mm(16, "bf16")}) {
    const program::Program p = lowered(text, &toy);
    EXPECT_EQ(products(p), 0u) << text;
    for (auto& n : p.nodes) EXPECT_TRUE(n.is_loop()) << program::to_string(p);
  }
}

// A batch of products, attention, a convolution and a sort, for a device that has none of them, and for no device at all.
TEST(ToyDevice, WhatItRefusesIsMadeOfLoopsAndCalls) {
  const std::string text = R"(graph "toy"(%x: f32[2, 8, 8, 8], %w: f32[4, 8, 3, 3]) {
  %a: f32[2, 8, 8, 8] = scaled_dot_product_attention(%x, %x, %x)
  %c: f32[2, 4, 6, 6] = convolution(%a, %w, none, stride=[1, 1], padding=[0, 0], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1)
  %v: f32[2, 4, 6, 6], %i: i64[2, 4, 6, 6] = sort(%c, dim=3)
  return %v, %i
})";
  const Toy toy;
  for (const Target* target : {static_cast<const Target*>(&toy), static_cast<const Target*>(nullptr)})
    for (auto& n : lowered(text, target).nodes) EXPECT_TRUE(n.is_loop() || n.is_extern()) << program::label(n);
  EXPECT_EQ(products(lowered(mm(16), nullptr)), 0u) << "the reference target takes nothing";
}

TEST(ToyDevice, IsScheduledByItsTable) {
  CompileOptions options;
  options.set("verify_passes", "1");
  ScheduleReport report;
  const Toy toy;
  const program::Program p = run_passes(lowered(mm(16), &toy), toy, program::Stage::Scheduled, options, &report);
  ASSERT_EQ(p.nodes.size(), 1u) << program::to_string(p);
  EXPECT_EQ(program::to_string(p.nodes[0].config), "toy(workers=3)");
  EXPECT_TRUE(p.nodes[0].producer) << "its rows are computed";
  EXPECT_EQ(report.choices.size(), 1u);
  std::vector<std::string> ran;
  for (auto& pass : report.passes.passes) ran.push_back(pass.name + (pass.changed ? "" : " (unchanged)"));
  EXPECT_EQ(ran, (std::vector<std::string>{"inline_defaults (unchanged)", "fuse", "set_tiles", "absorb_producers"}));

  ScheduleReport apart;
  const Toy reads(false);
  EXPECT_EQ(run_passes(lowered(mm(16), &reads), reads, program::Stage::Scheduled, {}, &apart).nodes.size(), 2u);
  ASSERT_EQ(apart.fusion.misses.size(), 1u);
  EXPECT_EQ(apart.fusion.misses[0].reason, "the toy reads rows from memory");
}

// The tuner asks the same interface.
TEST(ToyDevice, IsTunedByItsProposals) {
  auto pipeline = std::make_shared<tune::Pipeline>();
  pipeline->target = std::make_shared<Toy>();
  const program::Program p = lowered(mm(16), pipeline->target.get());
  const auto regions = tune::find_regions(p, pipeline->schedule(p), 3);
  ASSERT_EQ(regions.size(), 1u);
  tune::RegionReport report;
  std::set<std::string> names;
  for (auto& c : tune::choices_of(regions[0], pipeline, {}, report)) names.insert(c->name());
  for (const char* name : {"default", "toy(workers=1)", "toy(workers=2)"}) EXPECT_EQ(names.count(name), 1u) << name;
}

}  // namespace
}  // namespace toroid::target

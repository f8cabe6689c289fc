// The table of stages: wherever it is entered or left, a program goes the same way.
#include "compile/pipeline.h"

#include <gtest/gtest.h>

#include <set>

#include "compile/harness.h"
#include "compile/model.h"
#include "graph/interpreter.h"
#include "graph/text.h"
#include "toroid/nn.h"
#include "toroid/ops.h"

namespace toroid::compiler {
namespace {

using test::counting;

// Two branches, of which one has another within.
constexpr const char* kNested = R"(graph "outer"(%p: bool[], %q: bool[], %x: f32[33, 20]) {
  %h: f32[33, 20] = tanh(%x)
  %c: f32[33, 20] = cond(%p, [%q, %h]) {
    graph "then"(%s: bool[], %a: f32[33, 20]) {
      %r: f32[33, 20] = cond(%s, [%a]) {
        graph "deep"(%b: f32[33, 20]) {
          %e: f32[33, 20] = tanh(%b)
          return %e
        }
      } {
        graph "flat"(%b: f32[33, 20]) {
          %e: f32[33, 20] = exp(%b)
          return %e
        }
      }
      return %r
    }
  } {
    graph "else"(%s: bool[], %a: f32[33, 20]) {
      return %a
    }
  }
  return %c
})";

Setup setup_for(Mode mode) {
  Setup setup;
  setup.options.set(mode);
  setup.options.set("freezing", "1");
  return setup;
}
Job job_for_test() { return job_of("test", setup_for(Mode::Default)); }

std::vector<std::string> names_of(const CompileReport& r) {
  std::vector<std::string> out;
  for (auto& s : r.stages) out.push_back(s.stage);
  return out;
}

std::vector<std::string> texts_of(const Kernels& k) {
  std::vector<std::string> out;
  for (auto& [node, text] : k.texts) out.push_back(text.source);
  for (auto& [node, list] : k.blocks)
    for (auto& b : list)
      for (auto& text : texts_of(b.program)) out.push_back(text);
  return out;
}

std::vector<double> run(exec::Loadable made, const std::vector<Tensor>& inputs) {
  return exec::load(std::move(made.plan), made.store, Device::cpu())->run(inputs).at(0).to_vector();
}

TEST(Pipeline, TheReportNamesTheStagesInTheirOrder) {
  const Job job = job_for_test();
  CompileReport report;
  Fused half = advance<Fused>(Imported{graph::parse(kNested)}, job, report);
  EXPECT_EQ(names_of(report), (std::vector<std::string>{"layers", "passes", "lowering", "tuning", "fusion", "repetition", "memory"}));
  advance<exec::Loadable>(std::move(half), job, report);
  std::vector<std::string> table;
  std::apply([&](auto&... stage) { (table.push_back(stage.name), ...); }, kStages);
  EXPECT_EQ(names_of(report), table) << "those of blocks are no stages of the program";
  const auto model = CompiledModel::make(graph::parse(kNested), {});
  table.push_back("loading");
  EXPECT_EQ(names_of(model.report()), table);
}

TEST(Pipeline, ProgramsThatRestBetweenStagesAreTheSame) {
  const Job job = job_for_test();
  CompileReport at_once;
  const auto want = texts_of(advance<Kernels>(Imported{graph::parse(kNested)}, job, at_once));
  ASSERT_EQ(want.size(), 3u);
  EXPECT_EQ(at_once.blocks, 4u) << "nested ones are counted";
  // No stage needs what those before it said of themselves: each has a report of its own.
  CompileReport r[9];
  Lowered lowered = advance<Lowered>(advance<Transformed>(Imported{graph::parse(kNested)}, job, r[0]), job, r[1]);
  Fused fused = advance<Fused>(advance<Tuned>(std::move(lowered), job, r[2]), job, r[3]);
  Kernels kernels = advance<Kernels>(advance<Scheduled>(std::move(fused), job, r[4]), job, r[5]);
  EXPECT_EQ(texts_of(kernels), want);
  Objects objects = advance<Objects>(advance<Sent>(std::move(kernels), job, r[6]), job, r[7]);
  const exec::Loadable made = advance<exec::Loadable>(std::move(objects), job, r[8]);
  EXPECT_EQ(r[8].kernels, 1u);
  const Tensor x = counting({33, 20});
  for (bool p : {true, false})
    for (bool q : {true, false}) {
      const auto truth = [](bool v) { return Tensor::of({v ? 1.0 : 0.0}, {}, DType::Bool); };
      const std::vector<Tensor> inputs = {truth(p), truth(q), x};
      const auto got = run(made, inputs), expected = graph::interpret(*graph::parse(kNested), inputs).at(0).to_vector();
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << i;
    }
}

TEST(Pipeline, EqualKernelsOfBlocksAreOneObject) {
  const Job job = job_for_test();
  CompileReport report;
  const Objects made = advance<Objects>(Imported{graph::parse(kNested)}, job, report);
  const auto texts = texts_of(made.kernels);
  const std::set<std::string> distinct(texts.begin(), texts.end());
  ASSERT_LT(distinct.size(), texts.size()) << "the program and its innermost block compute the same";
  EXPECT_EQ(made.sources.size(), distinct.size());
  EXPECT_EQ(made.names.size(), distinct.size());
  EXPECT_EQ(made.store.kernels.all().size(), distinct.size());
}

// Who waits for the weights is the store that holds them, whatever became of the report.
TEST(Pipeline, ThePlanOwnsWhatFillsItsConstants) {
  nn::Linear layer(256, 128, true, nn::Init(1));
  const Tensor x = nn::Init(2).normal({64, 256}, 0, 1);
  const auto forward = [&](auto& in) { return layer.forward(in[0]); };
  const Job job = job_for_test();
  exec::Loadable made;
  {
    CompileReport before, last;
    Objects objects = advance<Objects>(Imported{test::graph_of(forward, {x})}, job, before);
    EXPECT_FALSE(before.packing.valid()) << "nothing is packed before the plan is made";
    made = advance<exec::Loadable>(std::move(objects), job, last);
    EXPECT_TRUE(last.packing.valid());
  }
  ASSERT_TRUE(made.store.filling.valid());
  const auto got = run(std::move(made), {x}), want = layer.forward(x).to_vector();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3) << i;
}

// Kernels can be had in modes that tune, too, and where nothing can be timed.
TEST(Pipeline, KernelsAloneAreThoseOfTheUntunedSchedule) {
  const auto sources = [](Mode mode) {
    std::vector<std::string> out;
    for (auto& k : kernels_of(graph::parse(kNested), setup_for(mode), nullptr)) out.push_back(k.source);
    return out;
  };
  ASSERT_EQ(sources(Mode::Default).size(), 1u) << "without those of blocks";
  EXPECT_EQ(sources(Mode::MaxAutotune), sources(Mode::Default));
}

}  // namespace
}  // namespace toroid::compiler

// The tables of passes are the order in which a compile runs them, and options leave rows out.
#include "sched/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "backend/backend.h"
#include "base/files.h"
#include "errors.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "temp_folder.h"

namespace toroid::target {
namespace {

constexpr const char* kText = R"(graph "g"(%x: f32[8, 32], %w: f32[32, 64]) {
  %e: f32[8, 32] = exp(%x)
  %p: f32[8, 64] = mm(%e, %w)
  %s: f32[8] = sum.dim_IntList(%p, dim=[1], keepdim=false)
  %r: f32[8, 64] = relu(%p)
  return %s, %r
})";

CompileOptions with(std::initializer_list<std::pair<std::string, std::string>> values) {
  return CompileOptions().with(std::vector(values));
}

// Schedules the text for a device that need not be there.
struct Scheduled {
  ScheduleReport report;
  program::Program program;

  explicit Scheduled(const Device& device, const CompileOptions& options = {}, const PassDump& dump = {}) {
    device::cuda::GpuInfo gpu;
    gpu.architecture = "sm_90a";
    const auto target = backend::make_backend(device, options, &gpu);
    program = lower::lower(*graph::run_passes(graph::parse(kText), graph::pipeline(graph::kInference), nullptr, options),
                           {.options = options, .target = target.get()});
    for (auto to : {program::Stage::Lowered, program::Stage::Scheduled})
      program = run_passes(std::move(program), *target, to, options, &report, dump);
  }
  std::vector<std::string> ran() const {
    std::vector<std::string> out;
    for (auto& pass : report.passes.passes) out.push_back(pass.name);
    return out;
  }
};

using Names = std::vector<std::string>;

TEST(ProgramPasses, RunInTheOrderOfTheTable) {
  const Device cpu = Device::cpu(), gpu = Device::cuda();
  const auto verified = [](const char* fusion) { return with({{"fusion", fusion}, {"verify_passes", "1"}}); };
  EXPECT_EQ(Scheduled(cpu, verified("all")).ran(),
            (Names{"inline_defaults", "fuse", "choose", "fuse", "factor_sums", "recompute", "absorb_producers", "split_reductions",
                   "write_back", "reuse", "share_launches", "overlap_collectives"}));
  EXPECT_EQ(Scheduled(cpu, verified("per-node")).ran(), (Names{"inline_defaults", "choose", "write_back"}));
  EXPECT_EQ(Scheduled(cpu, verified("none")).ran(), (Names{"inline_defaults", "choose", "split_reductions", "write_back"}));
  EXPECT_EQ(
      Scheduled(gpu, verified("all")).ran(),
      (Names{
          "pad_products",     "inline_defaults", "fuse",         "choose",           "fuse",          "factor_sums",    "recompute",
          "absorb_producers", "pair_products",   "sum_columns",  "rows_and_columns", "join_columns",  "bring_products", "overlap_products",
          "write_back",       "reuse",           "old_contents", "foreach",          "mark_meetings", "name_templates"}));
  EXPECT_EQ(Scheduled(gpu, verified("per-node")).ran(),
            (Names{"inline_defaults", "choose", "write_back", "old_contents", "mark_meetings", "name_templates"}));
}

TEST(ProgramPasses, AreLeftOutByName) {
  const size_t joined = Scheduled(Device::cpu()).program.nodes.size();
  const Scheduled apart(Device::cpu(), with({{"disable_passes", "fuse,share_launches"}}));
  EXPECT_GT(apart.program.nodes.size(), joined);
  EXPECT_EQ(apart.ran(), (Names{"inline_defaults", "choose", "factor_sums", "recompute", "absorb_producers", "split_reductions",
                                "write_back", "reuse", "overlap_collectives"}));
  EXPECT_EQ(test::user_error([] {
              Scheduled(Device::cpu(), with({{"disable_passes", "choose"}}));
            }),
            "the option disable_passes names \"choose\", which no program can be compiled without");
}

TEST(ProgramPasses, NamesOfNoTableAreErrors) {
  const auto compiled = [](const char* disabled) {
    front::compile_model(graph::parse(kText), {.options = {{"disable_passes", disabled}}});
  };
  EXPECT_EQ(test::user_error([&] { compiled("dce,fusee"); }),
            "the option disable_passes names \"fusee\", and there is no pass of that name; did you mean \"fuse\"?");
  // Of graphs, of this device's programs, and of another's.
  for (const char* name : {"cse", "split_reductions", "pair_products"}) EXPECT_EQ(test::user_error([&] { compiled(name); }), "no error");
}

TEST(ProgramPasses, DumpsSayWhatEachChanged) {
  std::vector<std::string> dumped;
  Scheduled(Device::cpu(), {}, [&](const std::string& pass, const std::function<std::string()>& text) {
    EXPECT_NE(text(), "");
    dumped.push_back(pass);
  });
  EXPECT_EQ(dumped, (Names{"fuse", "absorb_producers"}));
}

TEST(Passes, TheDebugFolderHoldsWhatEachMade) {
  const auto folder = make_temp_dir();
  std::string text = kText;
  text.insert(text.find("  %s:"), "  %dead: f32[8, 32] = neg(%x)\n");
  front::compile_model(graph::parse(text), {.options = {{"compile_debug", "1"}, {"debug_dir", folder.string()}}});
  std::string names;
  for (auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.path().parent_path().filename() == "passes") names += file.path().filename().string() + " ";
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(test::contains(names, "_graph_dce.txt")) << names;
  EXPECT_TRUE(test::contains(names, "_program_fuse.txt")) << names;
}

TEST(Passes, AnEditedKernelThatIsWrongIsNamed) {
  const test::TempFolder debug, edited;
  front::compile_model(graph::parse(kText), {.options = {{"compile_debug", "1"}, {"debug_dir", debug.path.string()}}});
  std::string name;
  for (auto& file : std::filesystem::recursive_directory_iterator(debug.path))
    if (file.path().parent_path().filename() == "kernels") name = file.path().filename().string();
  std::ofstream(edited.path / name) << "this is no C";
  const auto again = [&] { front::compile_model(graph::parse(kText), {.options = {{"kernel_dir", edited.path.string()}}}); };
  const std::string what = test::user_error(again);
  EXPECT_TRUE(test::contains(what, (edited.path / name).string() + " (option kernel_dir): the text of its kernel does not compile"))
      << what;
}

bool break_program(program::Program& p, PassContext&) {
  p.nodes.pop_back();  // whose result is an output
  return true;
}

// A device with a pass that breaks what it gets.
struct Broken : Target {
  Broken() : Target({}) {}
  std::span<const ProgramPass> passes(program::Stage) const override {
    static constexpr ProgramPass kTable[] = {sched::kFuse, {"break_program", "Drops the last node.", break_program}};
    return kTable;
  }
};

TEST(ProgramPasses, AreVerifiedOneByOne) {
  const auto scheduled = [](const CompileOptions& options) {
    const program::Program p = lower::lower(*graph::run_passes(graph::parse(kText), graph::pipeline(graph::kInference)));
    run_passes(p, Broken(), program::Stage::Scheduled, options);
  };
  const std::string why = test::error_of<InternalError>([&] { scheduled(with({{"verify_passes", "1"}})); });
  EXPECT_TRUE(test::contains(why, "program \"g\" after break_program: rule")) << why;
  EXPECT_NO_THROW(scheduled(with({{"verify_passes", "1"}, {"disable_passes", "break_program"}})));
}

// The option, of one compile and of the process.
TEST(GraphPasses, PaddingIsFoldedWhereTheOptionSaysSo) {
  const auto nodes = [](const std::map<std::string, std::string>& options) {
    const char* text = R"(graph "g"(%x: f32[1, 8, 16, 16], %w: f32[8, 8, 3, 3]) {
      %p: f32[1, 8, 18, 18] = constant_pad_nd(%x, pad=[1, 1, 1, 1])
      %y: f32[1, 8, 16, 16] = conv2d(%p, %w)
      return %y
    })";
    return front::compile_model(graph::parse(text), {.options = options}).report().graph_nodes;
  };
  EXPECT_EQ(nodes({}), 1u);
  EXPECT_EQ(nodes({{"fold_padding", "0"}}), 2u);
  const ScopedOption off("fold_padding", "0");
  EXPECT_EQ(nodes({}), 2u);
  EXPECT_EQ(nodes({{"fold_padding", "1"}}), 1u);
}

TEST(GraphPasses, TheLargestProbabilityIsFoldedWhereTheOptionSaysSo) {
  const auto nodes = [](const std::map<std::string, std::string>& options) {  // of the program, before fusion
    const char* text = R"(graph "g"(%x: f32[8, 16]) {
      %p: f32[8, 16] = softmax.int(%x, 1)
      %y: f32[8] = amax(%p, [1])
      return %y
    })";
    return front::compile_model(graph::parse(text), {.options = options}).report().kernels_unfused;
  };
  EXPECT_EQ(nodes({}), 3u);
  EXPECT_EQ(nodes({{"fold_probabilities", "0"}}), 4u);
  const ScopedOption off("fold_probabilities", "0");
  EXPECT_EQ(nodes({}), 4u);
  EXPECT_EQ(nodes({{"fold_probabilities", "1"}}), 3u);
}

// What a purpose changes about the one order.
TEST(GraphPasses, ArePartOfThePipelinesTheyAreFor) {
  const auto names = [](const graph::Purpose& purpose) {
    Names out;
    for (auto& row : graph::pipeline(purpose)) out.push_back(row.name);
    return out;
  };
  const Names last = {"explicit_random", "simplify", "constant_fold", "cse", "largest_probability", "trim"};
  const auto list = [&](Names first, const Names& end) {
    first.insert(first.end(), last.begin(), last.end());
    first.insert(first.end(), end.begin(), end.end());
    return first;
  };
  EXPECT_EQ(names(graph::kLoops), list({"functionalize", "decompose"}, {"widen_products", "dce"}));
  EXPECT_EQ(names(graph::kInference),
            list({"functionalize", "find_attention", "decompose_keeping_templates", "fold_padding", "plain_convolutions"},
                 {"widen_products", "dce"}));
  EXPECT_EQ(names({.frozen = true}),
            list({"functionalize", "freeze", "dce", "store_weights", "fold_conv_bn", "decompose"}, {"widen_products", "dce"}));
  EXPECT_EQ(names(graph::kFrozen), list({"functionalize", "freeze", "dce", "store_weights", "fold_conv_bn", "find_attention",
                                         "decompose_keeping_templates", "fold_padding", "plain_convolutions"},
                                        {"merge_linear", "widen_products", "dce"}));
  EXPECT_EQ(names(graph::kFrozenInt8), list({"functionalize", "freeze", "dce", "store_weights", "fold_conv_bn", "integer_products", "dce",
                                             "find_attention", "decompose_keeping_templates", "fold_padding", "plain_convolutions"},
                                            {"merge_linear", "widen_products", "dce"}));
  EXPECT_EQ(names({.templates = true, .gradients = true}),
            list({"functionalize", "find_attention", "decompose_keeping_gradients", "fold_padding", "plain_convolutions_apart"},
                 {"widen_products", "dce"}));
  EXPECT_EQ(names({.templates = true, .padding_apart = true}),
            list({"functionalize", "find_attention", "decompose_keeping_templates", "plain_convolutions"}, {"widen_products", "dce"}));
  Names without = names(graph::kInference);
  without.erase(std::find(without.begin(), without.end(), "largest_probability"));
  EXPECT_EQ(names({.templates = true, .all_probabilities = true}), without);
  EXPECT_EQ(names({.templates = true, .int8 = true}), names(graph::kInference)) << "only constants are quantized";
}

}  // namespace
}  // namespace toroid::target

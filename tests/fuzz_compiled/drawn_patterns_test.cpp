// Random graphs have something to do for each pass, so that a pass that is wrong is seen by the tests that compare what they compute.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/options.h"
#include "compile/pipeline.h"
#include "front/compile_model.h"
#include "fuzz_compiled/differential.h"
#include "fuzz_compiled/drawn_graphs.h"
#include "graph/pass.h"

namespace toroid::fuzz {
namespace {

using Names = std::set<std::string>;
using Reasons = std::map<std::string, std::string>;

// What changed one of the graphs and programs that were compiled so far.
struct Changed {
  Names graph, program;

  void compile(std::unique_ptr<graph::Graph> g, const compiler::Setup& setup, const device::cuda::GpuInfo* gpu) {
    compiler::CompileReport report;
    const compiler::Job job = compiler::job_of(g->name, setup, {}, gpu);
    compiler::advance<compiler::Scheduled>(compiler::Imported{std::move(g)}, job, report);
    note(report.passes, graph);
    note(report.schedule.passes, program);
  }

 private:
  static void note(const PassReport& report, Names& changed) {
    for (auto& p : report.passes)
      if (p.changed) changed.insert(p.name);
  }
};

// Each of the passes has changed something or a reason why not, and none has both.
void expect_each(const Names& passes, const Names& changed, const Reasons& reasons, const std::string& table) {
  for (auto& p : passes)
    EXPECT_NE(changed.count(p), reasons.count(p)) << table << ": " << p
                                                  << (changed.count(p) ? " changes random graphs: take it from the list"
                                                                       : " changes none of the random graphs: draw what it looks for");
  for (auto& [p, why] : reasons) EXPECT_TRUE(passes.count(p)) << table << " has no pass " << p << " (" << why << ")";
}

Names passes_of(const std::string& backend) {
  Names out;
  for (auto& table : backend::pass_tables())
    if (table.backend == backend)
      for (auto& pass : table.passes) out.insert(pass.name);
  return out;
}

TEST(DrawnPatterns, EachPassHasSomethingToDo) {
  Changed cpu, gpu;
  const device::cuda::GpuInfo hopper;
  for (uint64_t seed = 1; seed <= 500; ++seed)
    cpu.compile(graph::random_graph(seed, options_of(seed)), front::setup_of(variant_of(seed).options), nullptr);
  for (uint64_t seed = 1; seed <= 200; ++seed)
    if (auto joint = joint_graph(seed)) cpu.compile(std::move(joint), front::setup_of(variant_of(seed).options), nullptr);
  compiler::Setup on_gpu;
  on_gpu.device = Device::cuda();
  for (uint64_t seed = kFirstOfGpus; seed < kFirstOfGpus + 400; ++seed)
    gpu.compile(graph::random_graph(seed, options_of_program(seed)), on_gpu, &hopper);

  Names passes, changed = cpu.graph;
  for (auto& row : graph::all_passes()) passes.insert(row.name);
  changed.insert(gpu.graph.begin(), gpu.graph.end());
  expect_each(passes, changed,
              {{"explicit_random", "no two ways draw the same random numbers: tests/compile/random_test.cpp"},
               {"widen_products", "it leaves out a rounding, which results of f32 show: tests/graph/passes_test.cpp"},
               {"integer_products", "it looks for quantized models: tests/graph/integer_products_test.cpp"},
               {"plain_convolutions_apart", "plain_convolutions is drawn; the rest is of large ones: tests/compile/convolution_test.cpp"}},
              "graphs");
  // Most of these look for sizes from which they are worth it, which the interpreter of graphs would take too long for.
  const Reasons on_both = {{"choose", "libraries are chosen by options and tuning: tests/compile/backends_test.cpp"},
                           {"inline_defaults", "of operations with several implementations: tests/front/custom_op_test.cpp"},
                           {"reuse", "of large temporaries: tests/sched/reuse_test.cpp"}};
  Reasons on_cpu = {{"overlap_collectives", "of several ranks: tests/sched/overlap_collectives_test.cpp"},
                    {"split_reductions", "of long rows: tests/sched/text_test.cpp"}};
  Reasons on_gpu_alone = {{"bring_products", "of several ranks: tests/sched/bring_test.cpp"},
                          {"factor_sums", "of joint graphs, which are drawn for CPUs: tests/sched/factor_sums_test.cpp"},
                          {"foreach", "of updates of several inputs: tests/sched/foreach_test.cpp"},
                          {"mark_meetings", "of several ranks: tests/dist/gpu_test.cpp"},
                          {"name_templates", "it reports, and changes nothing"},
                          {"old_contents", "of opaque operations: tests/front/opaque_op_test.cpp"},
                          {"overlap_products", "of several ranks: tests/sched/pieces_test.cpp"},
                          {"pad_products", "of large products: tests/sched/layout_test.cpp"},
                          {"pair_products", "of products read in pairs of columns: tests/sched/pair_test.cpp"},
                          {"recompute", "of large values: tests/sched/recompute_test.cpp"},
                          {"join_columns", "of gradients of biases: tests/sched/join_columns_test.cpp"},
                          {"rows_and_columns", "of gradients of many rows: tests/sched/rows_and_columns_test.cpp"},
                          {"sum_columns", "of products of many rows: tests/sched/sum_columns_test.cpp"}};
  on_cpu.insert(on_both.begin(), on_both.end());
  on_gpu_alone.insert(on_both.begin(), on_both.end());
  expect_each(passes_of("cpu"), cpu.program, on_cpu, "cpu");
  expect_each(passes_of("cuda"), gpu.program, on_gpu_alone, "cuda");
}

}  // namespace
}  // namespace toroid::fuzz

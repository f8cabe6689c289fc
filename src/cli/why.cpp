// toroid why: what the compiler did with a model, and what it did not do, with reasons.
#include <fmt/core.h>

#include "cli/commands.h"
#include "compile/model.h"
#include "import/pt2_importer.h"

namespace toroid::cli {

int why(const WhyArgs& args) {
  auto model = compiler::CompiledModel::compile(import::load_model(args.model));
  const auto& report = model.report();
  for (auto& p : report.passes.passes)
    fmt::print("pass {:<28} {:>8.2f} ms{}\n", p.name, p.milliseconds, p.changed ? "" : ", changed nothing");
  fmt::print("lowering {:.2f} ms, fusion {:.2f} ms, code {:.2f} ms, compiler {:.2f} ms, packing {:.2f} ms, all {:.2f} ms\n",
             report.lower_ms, report.fuse_ms, report.codegen_ms, report.jit_ms, report.pack_ms, report.total_ms);
  fmt::print("{} graph nodes, {} loops before fusion, {} kernels, {} library calls, {} kernels compiled (the others were cached)\n",
             report.graph_nodes, report.kernels_unfused, report.kernels, report.host_calls, report.kernels_compiled);
  for (auto& m : report.fusion.misses) fmt::print("not fused: {} and {}: {}\n", m.first, m.second, m.reason);
  for (auto& u : report.fusion.unsplit) fmt::print("not split: {}: {}\n", u.node, u.reason);
  return kOk;
}

}  // namespace toroid::cli

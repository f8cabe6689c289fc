// toroid bisect: the first operation of a compiled model whose result is not what the reference evaluator makes of its operands.
#include "compile/bisect.h"

#include <fmt/core.h>

#include "base/compile_options.h"
#include "cli/bench_subject.h"
#include "cli/progress.h"
#include "cli/runner.h"

namespace toroid::cli {

int bisect(const BenchArgs& args) {
  if (args.threads > 0) set_option("threads", std::to_string(args.threads));
  Progress progress(!args.json);
  progress.say("building the model");
  const BenchSubject subject = make_subject(args);
  progress.say("computing and comparing");
  const auto run = [&](std::unique_ptr<graph::Graph> g, std::span<const Tensor> inputs) {
    return make_runner(Backend::Compiled, std::move(g), args.device)->run(inputs);
  };
  const bool tf32 = device_from_name(args.device).is_cuda() && CompileOptions::of_process().get(options::kAllowTf32);
  const compiler::BisectReport r = compiler::bisect(subject.graph(), subject.inputs, run, tf32);
  progress.say("");
  std::string rows;
  for (auto& row : r.beyond) {
    if (args.json)
      rows += fmt::format("{}{{\"value\":{},\"op\":{},\"where\":{},\"difference\":{}}}", rows.empty() ? "" : ",", json_string(row.value),
                          json_string(row.op), json_string(row.where), json_string(row.difference));
    else
      fmt::print("%{} = {} ({}): {}\n", row.value, row.op, row.where.empty() ? "no source line" : row.where, row.difference);
  }
  if (args.json)
    fmt::print("{{\"compared\":{},\"left_out\":{},\"beyond\":[{}]}}\n", r.compared, r.left_out, rows);
  else if (r.beyond.empty())
    fmt::print("all {} operations are within what rounding explains; {} cannot be compared\n", r.compared, r.left_out);
  else
    fmt::print("{} of {} operations are beyond what rounding explains, the first is %{}; {} cannot be compared\n", r.beyond.size(),
               r.compared, r.beyond.front().value, r.left_out);
  return r.beyond.empty() ? kOk : kMismatch;
}

}  // namespace toroid::cli

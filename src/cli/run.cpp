// toroid run: one or more calls of a model on tensors from a file.
#include <fmt/core.h>

#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/runner.h"
#include "cli/tensor_files.h"
#include "cli/verify_rules.h"
#include "import/pt2_importer.h"

namespace toroid::cli {
namespace {

std::string sizes_text(const Tensor& t) {
  std::string out;
  for (int64_t s : t.sizes()) out += fmt::format("{}{}", out.empty() ? "" : ",", s);
  return "[" + out + "]";
}

void print_outputs(size_t call, const std::vector<Tensor>& outputs, bool json) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    if (json)
      fmt::print("{{\"call\":{},\"output\":{},\"dtype\":\"{}\",\"sizes\":{}}}\n", call, i, name_of(outputs[i].dtype()),
                 sizes_text(outputs[i]));
    else
      fmt::print("output {}{}: {}\n", call ? fmt::format("{} of call ", i) : "", call ? call : i, to_string(outputs[i]));
  }
}

}  // namespace

int run_model(const RunArgs& args) {
  Backend backend = backend_from_name(args.backend);
  auto graph = import::load_model(args.model);
  auto inputs = read_calls(args.inputs);
  VerifyRules rules(*graph);
  auto runner = make_runner(backend, std::move(graph));
  CallTensors expected;
  if (!args.expect.empty()) expected = read_calls(args.expect);
  bool matches = true;
  std::vector<Tensor> last;
  for (size_t call = 0; call < inputs.calls.size(); ++call) {
    std::vector<Tensor> given;
    for (auto& [index, t] : inputs.calls[call]) given.push_back(t);
    last = runner->run(given);
    print_outputs(call, last, args.json);
    if (call >= expected.calls.size()) continue;
    for (auto& [index, t] : expected.calls[call]) {
      auto bad = rules.check(static_cast<size_t>(index), given, last, t, {args.tolerance});
      if (!bad) continue;
      matches = false;
      if (args.json)
        fmt::print("{{\"call\":{},\"output\":{},\"mismatch\":{}}}\n", call, index, json_string(*bad));
      else
        fmt::print("output {} differs: {}\n", index, *bad);
    }
  }
  if (!args.outputs.empty()) write_outputs(args.outputs, last);
  if (!args.expect.empty() && matches && !args.json) fmt::print("all outputs match\n");
  return matches ? kOk : kMismatch;
}

}  // namespace toroid::cli

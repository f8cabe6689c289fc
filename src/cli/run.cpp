// toroid run: one or more calls of a model on tensors from a file.
#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "base/files.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/runner.h"
#include "cli/tensor_files.h"
#include "cli/verify_rules.h"
#include "import/load_model.h"
#include "package/package.h"

namespace toroid::cli {
namespace {

std::string sizes_text(const Tensor& t) {
  std::string out;
  for (int64_t s : t.sizes()) out += fmt::format("{}{}", out.empty() ? "" : ",", s);
  return "[" + out + "]";
}

// Each call's tensors, each in its place. A place without a tensor would shift those behind it.
std::vector<std::vector<Tensor>> read_inputs(const std::string& path, const std::string& model, const std::string& entry) {
  std::vector<std::vector<Tensor>> out;
  for (auto& tensors : read_calls(path, [&] { return input_names(model, entry); }).calls) {
    std::vector<Tensor> given;
    for (auto& [index, t] : tensors) {
      std::string prefix = out.empty() ? "" : fmt::format("call{}.", out.size());
      TOROID_USER_CHECK(index == static_cast<int64_t>(given.size()),
                        "{}: there is a tensor \"{}{:03}\", but none for the place \"{}{:03}\"", path, prefix, index, prefix, given.size());
      given.push_back(t);
    }
    out.push_back(std::move(given));
  }
  for (size_t call = 1; call < out.size(); ++call)
    TOROID_USER_CHECK(!out[call].empty(), "{}: there are tensors for call {}, but none for call {}", path, out.size() - 1, call);
  return out;
}

CallTensors read_expected(const std::string& path, size_t calls, const PlaceNames& names) {
  CallTensors expected = read_calls(path, names);
  TOROID_USER_CHECK(std::any_of(expected.calls.begin(), expected.calls.end(), [](auto& c) { return !c.empty(); }),
                    "{}: no tensors here to compare the outputs with; expected \"000\", \"001\", ...", path);
  TOROID_USER_CHECK(expected.calls.size() <= calls, "{}: there are outputs of call {}, but the inputs are those of {} call{}", path,
                    expected.calls.size() - 1, calls, calls == 1 ? "" : "s");
  return expected;
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
  check_tolerance(args.tolerance.value_or(kUsualTolerance));
  Backend backend = backend_from_name(args.backend);
  require_file(args.model);  // what is wrong with this path is said before what is wrong with the other
  const bool packed = package::Package::is_package(args.model);
  TOROID_USER_CHECK(packed || args.weights.empty(),
                    "--weights is of packages, {} is a model; make one: toroid compile MODEL -o FILE --swappable", args.model);
  TOROID_USER_CHECK(packed || args.entry.empty(), "--entry is of packages, {} is a model", args.model);
  if (packed) check_entry(args.model, args.entry);
  auto inputs = read_inputs(args.inputs, args.model, args.entry);
  const VerifyRules rules([&] { return packed ? std::make_unique<graph::Graph>() : import::load_model(args.model, inputs.at(0)); });
  PackageRunner program;
  if (packed)
    program = make_package_runner(args.model, args.entry, args.device, args.weights, args.weights_folder);
  else
    program.runner = make_model_runner(backend, args.model, inputs.at(0), args.device);
  const Tolerance tolerance{args.tolerance.value_or(program.tolerance > 0 ? program.tolerance : kUsualTolerance)};
  CallTensors expected;
  if (!args.expect.empty()) expected = read_expected(args.expect, inputs.size(), [&] { return output_names(args.model, args.entry); });
  bool matches = true;
  std::vector<Tensor> last;
  for (size_t call = 0; call < inputs.size(); ++call) {
    const std::vector<Tensor>& given = inputs[call];
    last = program.runner->run(given);
    print_outputs(call, last, args.json);
    if (call >= expected.calls.size()) continue;
    for (auto& [index, t] : expected.calls[call]) {
      auto bad = rules.check(static_cast<size_t>(index), given, last, t, tolerance);
      if (!bad) continue;
      matches = false;
      if (args.json)
        fmt::print("{{\"call\":{},\"output\":{},\"mismatch\":{}}}\n", call, index, json_string(*bad));
      else
        fmt::print("output {} differs: {}\n", index, *bad);
    }
  }
  if (!args.outputs.empty()) write_outputs(args.outputs, last);
  if (!args.expect.empty() && args.json) fmt::print("{{\"matches\":{}}}\n", matches);
  if (!args.expect.empty() && matches && !args.json) fmt::print("all outputs match\n");
  return matches ? kOk : kMismatch;
}

}  // namespace toroid::cli

#include "cli/verify_onnx.h"

#include <fmt/core.h>

#include "cli/compare.h"
#include "cli/runner.h"
#include "import/onnx/importer.h"
#include "import/onnx/tensors.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

// ONNX's own, for every type of element.
constexpr ElementTolerance kTolerance{1e-3, 1e-7};

// input_0.pb, input_1.pb, ... as far as there are any.
std::vector<Tensor> read_tensors(const fs::path& folder, const char* what) {
  std::vector<Tensor> out;
  for (;;) {
    fs::path file = folder / fmt::format("{}_{}.pb", what, out.size());
    if (!fs::exists(file)) return out;
    out.push_back(import::onnx::read_tensor_file(file));
  }
}

}  // namespace

bool is_onnx_case(const fs::path& folder) { return fs::exists(folder / "model.onnx") && fs::exists(folder / "test_data_set_0"); }

std::vector<Tensor> onnx_case_inputs(const fs::path& folder) { return read_tensors(folder / "test_data_set_0", "input"); }

void run_onnx_case(const VerifyCase& c, const VerifyArgs& args, CaseResult& result) {
  Backend backend = backend_from_name(args.backend);
  auto file = import::onnx::ModelFile::open(c.model);
  import::onnx::check_values(*file);  // before the files beside it, which hold what the model takes and returns
  std::unique_ptr<Runner> runner;
  for (int set = 0;; ++set) {
    fs::path folder = c.folder / fmt::format("test_data_set_{}", set);
    if (!fs::exists(folder)) break;
    auto inputs = read_tensors(folder, "input"), expected = read_tensors(folder, "output");
    bool only_once = false;
    if (!runner) runner = make_runner(backend, import::onnx::import_model(file, inputs, &only_once), args.device);
    auto got = runner->run(inputs);
    if (only_once) runner.reset();
    std::string prefix = set == 0 ? "" : fmt::format("data set {}, ", set);
    if (got.size() != expected.size())
      result.lines.push_back(fmt::format("{}{} outputs, {} are expected", prefix, got.size(), expected.size()));
    for (size_t i = 0; i < std::min(got.size(), expected.size()); ++i)
      if (auto bad = compare_elements(got[i], expected[i], kTolerance))
        result.lines.push_back(fmt::format("{}output {}: {}", prefix, i, *bad));
  }
  if (!result.lines.empty()) result.state = CaseState::Failed;
}

}  // namespace toroid::cli

#include "cli/verify_onnx.h"

#include <fmt/core.h>

#include <cstring>

#include "cli/compare.h"
#include "cli/runner.h"
#include "import/onnx/importer.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;
using import::onnx::Item, import::onnx::TypeKind, import::onnx::ValueInfo, import::onnx::with_tensors;

// ONNX's own, for every type of element.
constexpr ElementTolerance kTolerance{1e-3, 1e-7};

Tensor bf16_of_bits(const Tensor& t) {
  Tensor out = Tensor::empty(t.sizes(), DType::BF16);
  std::memcpy(out.raw_data(), t.raw_data(), static_cast<size_t>(t.numel()) * size_of(DType::BF16));
  return out;
}

// The files of that name, input_0.pb, input_1.pb, ..., as far as there are any, each of the type that the model declares.
std::vector<Item> read_items(const fs::path& folder, const char* what, const std::vector<const ValueInfo*>& declared) {
  constexpr int32_t kBFloat16 = 16;
  std::vector<Item> out;
  for (;;) {
    fs::path file = folder / fmt::format("{}_{}.pb", what, out.size());
    if (!fs::exists(file)) return out;
    const ValueInfo* type = out.size() < declared.size() ? declared[out.size()] : nullptr;
    Item item = import::onnx::read_item_file(file, type ? type->kind : TypeKind::Tensor);
    bool as_bits = type && type->element == kBFloat16;  // the suite has no other way to write them than as whole numbers
    out.push_back(with_tensors(item, [&](const Tensor& t) { return as_bits && t.dtype() == DType::U16 ? bf16_of_bits(t) : t; }));
  }
}

// One tensor after another, as programs take and return them.
std::vector<Tensor> tensors_of(const std::vector<Item>& items) {
  std::vector<Tensor> out;
  for (auto& item : items) with_tensors(item, [&](const Tensor& t) { return out.push_back(t), t; });
  return out;
}

std::vector<const ValueInfo*> outputs_of(const import::onnx::GraphProto& graph) {
  std::vector<const ValueInfo*> out;
  for (auto& o : graph.outputs) out.push_back(&o);
  return out;
}

}  // namespace

bool is_onnx_case(const fs::path& folder) { return fs::exists(folder / "model.onnx") && fs::exists(folder / "test_data_set_0"); }

std::vector<Tensor> onnx_case_inputs(const fs::path& folder) { return tensors_of(read_items(folder / "test_data_set_0", "input", {})); }

void run_onnx_case(const VerifyCase& c, const VerifyArgs& args, CaseResult& result) {
  Backend backend = backend_from_name(args.backend);
  auto file = import::onnx::ModelFile::open(c.model);
  import::onnx::check_values(*file);  // before the files beside it, which hold what the model takes and returns
  auto takes = import::onnx::user_inputs(file->model().graph), returns = outputs_of(file->model().graph);
  std::unique_ptr<Runner> runner;
  for (int set = 0;; ++set) {
    fs::path folder = c.folder / fmt::format("test_data_set_{}", set);
    if (!fs::exists(folder)) break;
    auto inputs = read_items(folder, "input", takes);
    auto expected = tensors_of(read_items(folder, "output", returns));
    bool only_once = false;
    if (!runner) runner = make_runner(backend, import::onnx::import_model(file, inputs, &only_once), args.device);
    auto got = runner->run(tensors_of(inputs));
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

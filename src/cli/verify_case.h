// One case of `toroid verify`: a model file and the tensors beside it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace toroid::cli {

enum class CaseKind {
  Model,      // with in.safetensors and out.safetensors beside it, and gradients where grad.safetensors is there
  OnnxSuite,  // tensors lie in test_data_set_0, ...
  Optimizer,  // see cli/verify_training.h
  Schedules,
};

struct VerifyCase {
  std::filesystem::path folder, model;  // model: the file that the case is about
  std::string name;                     // "torch-2.14/tied/core.pt2": the way from the folder that was asked for
  CaseKind kind = CaseKind::Model;
};

enum class CaseState { Passed, Failed, Refused, Known };

struct CaseResult {
  CaseState state = CaseState::Passed;
  std::vector<std::string> lines;  // one a miss, or why the model was refused
  double milliseconds = 0;
};

// Folders under `path` (itself included) with in.safetensors, out.safetensors and models, sorted; every model of a folder, .pt2 or
// .onnx, is one case.
// Those with model.onnx and test_data_set_0 are cases, too, and named by the folder; so are runs of optimizers and schedules.json.
// UserError when there is none.
std::vector<VerifyCase> find_cases(const std::filesystem::path& path);

// Never throws: a UserError of the model makes the case refused, anything else failed.
CaseResult run_case(const VerifyCase& c, const VerifyArgs& args);

// The same in a process of its own, so that a crash is a failed case: started, and waited for.
struct IsolatedCase {
  int pid = -1, pipe = -1;
};
IsolatedCase start_isolated(const VerifyCase& c, const VerifyArgs& args);
CaseResult finish_isolated(const IsolatedCase& started);

}  // namespace toroid::cli

// Cases in the form of ONNX's own test suite: model.onnx, and folders test_data_set_<n> with input_<i>.pb and output_<i>.pb.
#pragma once

#include "cli/verify_case.h"
#include "toroid/tensor.h"

namespace toroid::cli {

// Whether the folder is such a case.
bool is_onnx_case(const std::filesystem::path& folder);

// The inputs of the case's first data set.
std::vector<Tensor> onnx_case_inputs(const std::filesystem::path& folder);

// Runs all data sets of the case and adds a line to the result for each output that differs by more than ONNX's own runner allows.
void run_onnx_case(const VerifyCase& c, const VerifyArgs& args, CaseResult& result);

}  // namespace toroid::cli

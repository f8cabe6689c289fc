// Matrix products on the plain arithmetic units of a GPU: any layout, any size, f32, f16 and bf16.
#pragma once

#include "codegen/kernel_text.h"
#include "program/program.h"

namespace toroid::codegen {

// Why generate_gemm_simt() does not take a Gemm node; empty when it does.
std::string gemm_simt_refusal(const program::Node& node, const program::Gemm& g);
KernelText generate_gemm_simt(const program::Node& node, const program::Gemm& g);

}  // namespace toroid::codegen

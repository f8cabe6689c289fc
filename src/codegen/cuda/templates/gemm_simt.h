// Matrix products on the plain arithmetic units of a GPU: any layout, any size, f32, f16 and bf16.
#pragma once

#include "choice/program.h"
#include "codegen/kernel_text.h"

namespace toroid::codegen {

KernelText generate_gemm_simt(const choice::Node& node, const choice::Gemm& g);

}  // namespace toroid::codegen

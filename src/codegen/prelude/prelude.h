// The text that every generated kernel starts with: types, and exactly the functions that the kernel uses.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/scalar.h"

namespace toroid::codegen {

// Text with all types and, in dependency order, the named functions ("v_exp_f32", "s_load_bf16") and whatever they use.
// `lanes` is the number of lanes of every vector type: 4, 8, 16 or 32. Names that repeat are emitted once.
// Throws InternalError for a name that the prelude does not have.
std::string prelude_for(std::span<const std::string_view> used_functions, int lanes);

// The same in CUDA C++ for NVRTC, without headers: the scalar functions ("s_exp_f32"), and what kernels of several threads need (see
// cuda_types.inc).
std::string cuda_prelude_for(std::span<const std::string_view> used_functions);

// Names of all functions, sorted: "s_abs_f32" ... with helpers and declarations of the C library.
std::vector<std::string> prelude_functions();

// Is there such a function?
bool prelude_has(std::string_view function);
bool cuda_prelude_has(std::string_view function);

// The stem of an op's function: "exp" for v_exp_f32 and s_exp_f32. Empty for Const, Input and Cast, which is v_cvt_<from>_<to>.
std::string_view prelude_stem(ScalarOp op);

}  // namespace toroid::codegen

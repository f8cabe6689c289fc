// Shared by the families that make new tensors.
#pragma once

#include <string>

#include "ops/table.h"

namespace toroid::ops {

// The tail of a creation schema: dtype and what Toroid does not use.
inline constexpr const char* kCreationOptions = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None";

std::vector<Expr> sizes_of(const Tensor& t);
// Windows and frequencies of spectra.
void add_window_rows(Table& t);
// A tensor of one repeated number.
Tensor filled(std::vector<Expr> sizes, Arg<Tensor> value, DType dtype);
// start, start + step, ... as `dtype`.
Tensor counted(Expr length, Expr start, Expr step, DType dtype);

}  // namespace toroid::ops

// The functions of the C library that kernels may call: the allow-list for LoadedCode::load.
#pragma once

#include <span>

#include "device/cpu/code_loader.h"

namespace toroid::device {

// Memory functions that the compiler itself inserts, float and double math, conversions of half on old processors.
std::span<const ExternalSymbol> runtime_symbols();

}  // namespace toroid::device

// What the option disable_passes may name.
#pragma once

#include "base/compile_options.h"

namespace toroid::compiler {

// UserError, with the nearest names, where the option disable_passes names what is a pass of no table, of graphs or of programs.
void check_disabled_passes(const CompileOptions& options);

}  // namespace toroid::compiler

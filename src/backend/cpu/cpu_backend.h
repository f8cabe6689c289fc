// The processor that the program runs on.
#pragma once

#include "backend/backend.h"

namespace toroid::backend {

// absent: see make_backend.
std::unique_ptr<Backend> make_cpu_backend(const CompileOptions& options, bool absent);
std::span<const target::ProgramPass> cpu_passes(program::Stage to);

}  // namespace toroid::backend

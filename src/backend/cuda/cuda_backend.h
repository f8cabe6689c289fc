// NVIDIA GPUs.
#pragma once

#include "backend/backend.h"

namespace toroid::backend {

// The GPU of this number, or another in its place for which code is made and never loaded.
std::unique_ptr<Backend> make_cuda_backend(int index, device::cuda::GpuInfo gpu, const CompileOptions& options);
std::span<const target::ProgramPass> cuda_passes(program::Stage to);

}  // namespace toroid::backend

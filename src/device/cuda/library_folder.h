// Where NVIDIA's libraries lie that have folders of their own.
#pragma once

#include <span>
#include <string>

namespace toroid::device::cuda {

// The first folder that has a file of one of these names, empty where none has: the option cuda_dir; lib64, lib and extras/CUPTI/lib64 in
// it (a CUDA toolkit); lib in `package` beside it or beside the folder above it (Python's packages: nvidia/cu13/lib, nvidia/cudnn/lib).
std::string library_folder(std::span<const char* const> names, const std::string& package);

}  // namespace toroid::device::cuda

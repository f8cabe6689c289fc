// GPUs that code is made for, whether they are there or not.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/gpu.h"

namespace toroid::device::cuda {

// Whether the text names code of GPUs: "sm_90a" is machine code for one architecture, "compute_80" is PTX, which the driver of any GPU of
// that capability or a later one translates when it is loaded.
bool is_gpu_code(std::string_view code_for);
bool is_ptx(std::string_view code_for);

// The codes that programs can be made for without a GPU.
std::vector<std::string_view> known_gpu_codes();
// What a GPU has that such code is made for: a large chip of the architecture, named in the table; for PTX the least cache and shared
// memory of all. UserError with the known ones for another text.
GpuInfo typical_gpu(const std::string& code_for);

// Whether such code runs there.
bool runs(std::string_view code_for, const GpuInfo& gpu);

// What measured times hold for: "NVIDIA H200, sm_90a, 132 multiprocessors". And a GPU of such a text; nothing for another text.
std::string tuning_key(const GpuInfo& gpu);
std::optional<GpuInfo> gpu_of_tuning_key(std::string_view key);

}  // namespace toroid::device::cuda

// Tensors in safetensors files: "000", "001", ... are the tensors of the first call, "call1.000", ... of the second.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::cli {

// The tensors of each call, in order, in memory of their own. An output that is no tensor has no key: its place stays undefined.
struct CallTensors {
  std::vector<std::map<int64_t, Tensor>> calls;
};
// UserError for a missing or damaged file, or a key of another form.
CallTensors read_calls(const std::filesystem::path& path);

// Writes the outputs of one call under the keys "000", "001", ...; undefined ones are left out.
void write_outputs(const std::filesystem::path& path, const std::vector<Tensor>& outputs);

}  // namespace toroid::cli

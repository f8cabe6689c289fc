// Tensors in safetensors files: "000", "001", ... are the tensors of the first call, "call1.000", ... of the second. Where a model has
// names for its tensors, these may stand in place of the numbers.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::cli {

// The tensors of each call, in order, in memory of their own. An output that is no tensor has no key: its place stays undefined.
struct CallTensors {
  std::vector<std::map<int64_t, Tensor>> calls;
};
// names: those of the places, in order; asked for where a key is no number. UserError for a missing or damaged file, a key of another form,
// and two keys of one place.
using PlaceNames = std::function<std::vector<std::string>()>;
CallTensors read_calls(const std::filesystem::path& path, const PlaceNames& names = {});

// Names of what a model file takes, or an entry of a package (empty: its only one; none where it has several).
std::vector<std::string> input_names(const std::filesystem::path& model, const std::string& entry = {});
// Names of what it gives, in the same way; the entry is one that there is.
std::vector<std::string> output_names(const std::filesystem::path& model, const std::string& entry = {});

// Writes the outputs of one call under the keys "000", "001", ...; undefined ones are left out.
void write_outputs(const std::filesystem::path& path, const std::vector<Tensor>& outputs);

}  // namespace toroid::cli

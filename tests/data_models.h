// The models that PyTorch wrote, in tests/data/models.
#pragma once

#include <string>
#include <vector>

#include "toroid/model.h"

namespace toroid::test {

inline const std::string kModels = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/";

// Those that PyTorch ran the model with, in the order of their names.
inline std::vector<Tensor> inputs_of(const std::string& model) {
  std::vector<Tensor> out;
  for (auto& [name, t] : load_tensors(kModels + model + "/in.safetensors")) out.push_back(t);
  return out;
}

}  // namespace toroid::test

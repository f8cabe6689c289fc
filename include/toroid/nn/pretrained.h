// Models from Hugging Face folders: config.json with model.safetensors, or shards with their index.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toroid/nn/models/token_model.h"
#include "toroid/weights.h"

namespace toroid::nn {

struct PretrainedOptions {
  // Parameters are converted to this dtype; not set: they stay as the file has them (the dtype of most of them).
  std::optional<DType> dtype = {};
  // Give each weight memory of its own. Otherwise all are views of one block, which holds the file's bytes and lives as long as any of
  // them.
  bool copy = false;
};

// Builds the model that config.json names under "architectures" and gives it the weights beside. UserError for a folder without these
// files, an architecture or a setting that is not supported, and weights that do not fit. The result is one of the classes in
// nn/models: use std::dynamic_pointer_cast for what only that class has. A BertForMaskedLM is loaded as its encoder, without the head.
std::shared_ptr<TokenModel> load_pretrained(const std::string& folder, const PretrainedOptions& options = {});

// Builds the model that a configuration as in config.json names under "architectures.0", with first values from `init`. `source`: for
// messages. strict: UserError, with the nearest name, for keys that the architecture does not take; otherwise they do not matter.
// Other UserErrors as above.
std::shared_ptr<TokenModel> make_model(const std::map<std::string, ConfigValue>& config, const std::string& source,
                                       const Init& init = Init::standard(), bool strict = false);

// Names that load_pretrained() takes in "architectures".
std::vector<std::string> supported_architectures();

}  // namespace toroid::nn

// What `toroid train` trains: a model of a configuration, the data that goes with it, and a loss of both.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "cli/train_config.h"
#include "toroid/nn/module.h"
#include "toroid/train/data.h"
#include "toroid/train/trainer.h"

namespace toroid::cli {

struct TrainSubject {
  std::shared_ptr<nn::Module> model;
  std::function<Tensor(const train::Batch&)> loss;
  std::unique_ptr<train::DataSource> data, held_out;  // no held-out data: null
  train::Trainer::Metrics metrics;                    // of evaluations; may be empty
  bool is_language_model = false;
  std::map<std::string, std::string> files;  // beside the weights of a checkpoint, so that the folder loads again
  std::string description;                   // "GPT2LMHeadModel, 3.2M parameters"
};

// UserError for a model that has no loss here, and for what load_pretrained(), make_model() and the data refuse.
TrainSubject make_train_subject(const TrainConfig& config);

}  // namespace toroid::cli

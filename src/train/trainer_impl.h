// What a Trainer consists of.
#pragma once

#include <atomic>
#include <fstream>

#include "toroid/train/trainer.h"
#include "train/errors.h"
#include "train/training_log.h"

namespace toroid::train {

struct Trainer::Impl {
  Impl(nn::Module& model, Loss loss, Optimizer& optimizer, const DataSource& data, TrainerOptions options);

  // ---- a step (trainer_step.cpp)
  // Compiles nothing yet.
  void make_functions();
  void make_evaluation();
  // The loss of one batch as a share of the step's, scaled back, and its gradients in the dtype of what the optimizer trains.
  std::pair<Tensor, std::vector<Tensor>> differentiate(const Batch& batch);
  // Clips, steps where all is finite, and moves what follows the weights. f32 [4 + gradients]: loss, norm, whether the step was taken, the
  // scale, and the norm of each gradient.
  Tensor apply(const Tensor& loss, std::vector<Tensor> gradients);
  Tensor loss_of(const Batch& batch);
  // f32 [1 + metrics]: the loss, and what `metrics` gives.
  Tensor evaluated(const Batch& batch);
  // Of a step with that result which was skipped; see StepReport.
  std::string first_not_finite(const std::vector<Batch>& batches, const std::vector<double>& result) const;
  // The next samples, on the device.
  Batch next_batch();
  StepReport step();
  EvaluationReport evaluate();

  // ---- checkpoints (trainer_state.cpp)
  std::string save();
  void load(const std::string& checkpoint);
  // All that is saved beside the module, by name.
  std::map<std::string, Tensor> own_state() const;

  nn::Module& model;
  Loss loss;
  Optimizer& optimizer;
  const DataSource& data;
  const DataSource* held_out = nullptr;
  Metrics metrics;
  std::vector<std::string> metric_names;  // in the order of the last evaluation that was traced
  TrainerOptions options;
  std::vector<Schedule> schedules;    // by group; empty: none
  std::vector<double> initial_rates;  // by group
  SampleOrder order;
  Device device;

  std::vector<Tensor> trained;         // the optimizer's parameters
  std::vector<Tensor> differentiated;  // those of the module that stand for them: the same, or what has them as masters
  std::vector<std::string> names;      // of `differentiated`, in the module
  std::vector<Tensor> sums;            // of gradients, and of the loss at the end; none without accumulation
  std::vector<Tensor> averages;        // of `trained`
  std::optional<GradScaler> scaler;
  std::function<Tensor(const Batch&)> whole_step, last_part, evaluation;
  std::function<void(const Batch&)> first_part;

  int64_t steps = 0, place = 0;  // done, and in the order of samples
  int64_t skipped = 0;           // in a row
  bool is_first = true;
  std::optional<int64_t> saved_at;
  std::atomic<bool> stop{false};
  TrainingLog log;
};

}  // namespace toroid::train

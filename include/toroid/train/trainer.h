// Trainer: the loop around a loss. Steps, evaluation, checkpoints, a log and a page with plots.
//
//   nn::GPT2LMHeadModel model({.vocab_size = 256, .n_positions = 128, .n_embd = 128, .n_layer = 4, .n_head = 4, .dropout = 0});
//   train::TokenData data("tale.txt", {.length = 128, .to = 0.9}), held_out("tale.txt", {.length = 128, .from = 0.9});
//   train::AdamW optimizer(model.parameters(), {.lr = 1e-3});
//   train::Trainer trainer(
//       model, [&](const train::Batch& batch) { return train::next_token_loss(model, batch[0]); }, optimizer, data,
//       {.steps = 500, .clip_norm = 1, .folder = "out", .on_step = [](const auto& r) { std::puts(to_string(r).c_str()); }});
//   trainer.set_schedule(train::cosine_annealing_lr(1e-3, 500));
//   trainer.set_evaluation(held_out);
//   trainer.resume();
//   trainer.run();
//
// A step (forward, loss, backward, clipping, optimizer, moving average) is one compiled function.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "toroid/compile.h"
#include "toroid/nn/models/token_model.h"
#include "toroid/nn/module.h"
#include "toroid/train/data.h"
#include "toroid/train/grad_scaler.h"
#include "toroid/train/optimizers.h"
#include "toroid/train/schedules.h"

namespace toroid::train {

// What a step did. Text: `step 12  loss 3.2140  grad norm 0.82  lr 3.00e-04  12.3 ms  41.6k tokens/s`.
struct StepReport {
  int64_t step = 0;  // 1: the first
  double loss = 0;   // before the step
  double grad_norm = 0, lr = 0, seconds = 0, units_per_second = 0;
  std::string unit;        // "tokens"
  bool compiling = false;  // the first step of this trainer
  bool skipped = false;    // loss or gradients were not finite: nothing was changed
  double loss_scale = 1;   // of the GradScaler
  // Of a step that was skipped, the first of these with an infinity or a NaN: a tensor of the batch ("tensor 0 of the batch"), a weight
  // ("weight ln_f.bias"), "loss", a gradient ("gradient of ln_f.bias"), "norm of all gradients".
  std::string not_finite = {};
};
std::string to_string(const StepReport& r);

// A mean loss over samples that are not trained on, weights as they are after a step.
struct EvaluationReport {
  int64_t step = 0, samples = 0;
  double loss = 0, seconds = 0;
  std::vector<std::pair<std::string, double>> metrics = {};  // means of what Metrics give, and "perplexity"
};
// `step 100  held-out loss 2.5582  accuracy 0.4102  8 samples  15.5 ms`
std::string to_string(const EvaluationReport& r);

// Copies of a module's parameters in f32, which an optimizer trains, while the module has and computes with weights of a narrower dtype.
struct MasterWeights {
  std::vector<Tensor> weights, masters;  // one for one
};
// Converts the module to `dtype` and keeps what its parameters were.
MasterWeights make_master_weights(nn::Module& model, DType dtype);

// What run() does after a step whose loss or gradients were not finite. Nothing was changed by it either way.
enum class NotFinite : uint8_t { Skip, Stop };

struct TrainerOptions {
  int64_t steps = 1000;                                // of the optimizer, in all
  int64_t batch_size = 8;                              // samples of one forward
  int64_t accumulate = 1;                              // forwards of a step, whose mean gradient it takes
  uint64_t seed = 0;                                   // of the order of samples
  bool shuffle = true;                                 // each epoch anew
  double clip_norm = 0, clip_value = 0;                // of gradients, the norm first; 0: not
  double ema_decay = 0;                                // average = decay * average + (1 - decay) * weight after each step; 0: none
  std::optional<DType> autocast = {};                  // the loss is computed within an autocast scope of this dtype
  std::optional<GradScalerOptions> scaler = {};        // for f16
  std::optional<MasterWeights> masters = {};           // the optimizer's parameters are among the masters
  NotFinite not_finite = NotFinite::Skip;              // Stop: run() fails after the first such step
  int64_t max_skipped = 10;                            // steps in a row that are skipped before run() fails
  int64_t evaluate_every = 0, evaluation_batches = 0;  // steps between evaluations, 0: at the end alone; batches of one, 0: all
  bool perplexity = false;                             // evaluations report exp(loss), for losses in nats a token
  std::string folder = {};                             // for checkpoints, log.jsonl and training.html; empty: nothing is written
  int64_t save_every = 0;                              // steps between checkpoints; 0: at the end alone
  int64_t keep = 3;                                    // checkpoints that stay, the newest; 0: all
  std::map<std::string, std::string> files = {};       // further files of a checkpoint beside the weights, by name: config.json
  CompileConfig compile = {};                          // of the step; always a full graph
  std::function<void(const StepReport&)> on_step = {};
  std::function<void(const EvaluationReport&)> on_evaluation = {};
  std::function<void(const std::string& folder)> on_checkpoint = {};
};

class Trainer {
 public:
  using Loss = std::function<Tensor(const Batch&)>;  // one float
  // What is to be told of an evaluation beside the loss: one number each by name, {{"accuracy", mean(to(argmax(y, 1) == b[1],
  // DType::F32))}}. They are computed with the loss, in evaluation mode, and averaged over batches.
  using Metrics = std::function<nn::NamedTensors(const Batch&)>;

  // All that is given by reference must live as long as the trainer, which puts the module into training mode. Batches are moved to the
  // device of the module's parameters. UserError for options out of range, and for an optimizer whose parameters are not the module's (or
  // their masters).
  Trainer(nn::Module& model, Loss loss, Optimizer& optimizer, const DataSource& data, TrainerOptions options = {});
  ~Trainer();

  // The optimizer's learning rate before each step; without one it stays as it is. Other groups than the first one have their share of
  // it, as in PyTorch: their rate when the trainer was made, by that of the first group. UserError where that was 0.
  void set_schedule(Schedule schedule);
  // One for each group, where the schedules differ or have a floor (eta_min). UserError for another number.
  void set_schedule(std::vector<Schedule> schedules);
  void set_evaluation(const DataSource& data, Metrics metrics = {});

  // Steps until there have been options.steps, with evaluations and checkpoints between them, and both at the end. False where
  // request_stop() ended it: a checkpoint was written. UserError that names the step and StepReport::not_finite as options.not_finite
  // and options.max_skipped say; what was saved before stays.
  bool run();
  // One step and nothing else.
  StepReport step();
  // The mean loss and metrics over full batches, in evaluation mode; one batch of all samples where they are fewer than a batch has.
  // UserError without set_evaluation(), and for metrics that are not one number or whose name is empty, given twice or has quotes.
  EvaluationReport evaluate();

  // Ends run() after the step that it is at. May be called from another thread and from a signal handler.
  void request_stop() noexcept;
  int64_t steps_done() const;

  // Writes folder/step-000100: model.safetensors under the module's names, options.files, optimizer.safetensors, trainer.json and, with
  // ema_decay, ema/model.safetensors. It has that name only when all of it is on the disk. Removes older ones beyond options.keep.
  std::string save();
  // Loads the newest checkpoint of options.folder; false where there is none. What a save that was interrupted has left does not count.
  // UserError that names the file for a damaged checkpoint, for one of another model or optimizer, and for other data, seed or shuffling.
  bool resume();
  // The same of one folder.
  void load(const std::string& checkpoint);

  // The moving averages, by the module's names. UserError without ema_decay.
  nn::NamedTensors averages() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Checkpoints of a folder, the oldest first. None where there is no such folder.
std::vector<std::string> list_checkpoints(const std::string& folder);

// The mean cross-entropy of each token but the first, predicted from those before it; tokens: i64 [batch, length + 1].
Tensor next_token_loss(nn::TokenModel& model, const Tensor& tokens);

}  // namespace toroid::train

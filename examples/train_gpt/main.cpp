// Trains a small GPT on fourteen of Shakespeare's sonnets, byte by byte, by train::Trainer; gpt.toml is the same for `toroid train`.
// Usage: toroid_demo_train_gpt [FOLDER]   FOLDER: for checkpoints, a log and a page with plots (default: nothing is written)
#include <cstdio>
#include <string>

#include "toroid/error.h"
#include "toroid/nn.h"
#include "toroid/nn/models/gpt2.h"
#include "toroid/train/trainer.h"

using namespace toroid;

int main(int argc, char** argv) try {
  const std::string text = std::string(TOROID_EXAMPLE_DIR) + "/sonnets.txt";
  const int64_t length = 64, steps = 300;
  const double lr = 3e-3;
  nn::GPT2LMHeadModel model({.vocab_size = 256, .n_positions = length, .n_embd = 64, .n_layer = 2, .n_head = 4, .dropout = 0});
  const train::TokenData data(text, {.length = length, .to = 0.9}), held_out(text, {.length = length, .from = 0.9});
  train::AdamW optimizer(model.parameters(), {.lr = lr});
  train::TrainerOptions options{.steps = steps, .clip_norm = 1, .evaluate_every = 100, .folder = argc > 1 ? argv[1] : ""};
  options.on_step = [](const train::StepReport& r) {
    if (r.step % 25 == 0 || r.compiling) std::puts(to_string(r).c_str());
  };
  options.on_evaluation = [](const train::EvaluationReport& r) { std::puts(to_string(r).c_str()); };
  train::Trainer trainer(
      model, [&](const train::Batch& batch) { return train::next_token_loss(model, batch[0]); }, optimizer, data, options);
  trainer.set_schedule(train::cosine_annealing_lr(lr, steps));
  trainer.set_evaluation(held_out);
  if (argc > 1) trainer.resume();
  trainer.run();
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

// `toroid train`: a thin layer over train::Trainer.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>

#include "base/check.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/train_config.h"
#include "cli/train_model.h"
#include "toroid/autograd.h"
#include "toroid/mode.h"
#include "toroid/train/trainer.h"
#include "train/training_log.h"

namespace toroid::cli {
namespace {

std::atomic<train::Trainer*> trained{nullptr};
std::atomic<int> received{0};

// The first signal ends training after the step; a second one ends the program as it does elsewhere.
void stop_training(int signal) {
  received = signal;
  if (train::Trainer* t = trained.load()) t->request_stop();
}

// While it lives, SIGINT and SIGTERM ask the trainer to stop.
class StopOnSignal {
 public:
  explicit StopOnSignal(train::Trainer& t) {
    received = 0;
    trained = &t;
    struct sigaction now {};
    now.sa_handler = stop_training;
    now.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    ::sigemptyset(&now.sa_mask);
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &now, nullptr);
    }
  }
  ~StopOnSignal() {
    for (size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
    trained = nullptr;
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  struct sigaction before_[2]{};
};

// Lines on the standard output, and below them, on a terminal, how far it is. With `json` each line is an object.
class TrainOutput {
 public:
  TrainOutput(int64_t steps, bool json) : progress_(!json), steps_(steps), json_(json) {}
  void line(const std::string& text) {
    progress_.say("");
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  // `key`: of the object, whose value is `value`; text: the line without `json`.
  void line(const char* key, const std::string& value, const std::string& text) {
    line(json_ ? fmt::format("{{\"{}\":{}}}", key, value) : text);
  }
  void evaluation(const train::EvaluationReport& r) { line(json_ ? train::json_of(r) : to_string(r)); }
  void step(const train::StepReport& r) {
    line(json_ ? train::json_of(r) : to_string(r));
    constexpr int64_t kWidth = 30;
    const auto done = static_cast<size_t>(kWidth * r.step / std::max<int64_t>(steps_, 1));
    const double left = r.seconds * static_cast<double>(steps_ - r.step);
    const std::string when = r.compiling ? "" : fmt::format("  {:.0f} s left", left);
    progress_.say(fmt::format("[{}{}] {}/{}{}", std::string(done, '='), std::string(kWidth - done, ' '), r.step, steps_, when));
  }

 private:
  Progress progress_;
  int64_t steps_;
  bool json_;
};

train::TrainerOptions options_of(const TrainConfig& c, std::map<std::string, std::string> files) {
  train::TrainerOptions o;
  o.steps = c.steps, o.batch_size = c.batch_size, o.accumulate = c.accumulate;
  o.seed = static_cast<uint64_t>(c.seed), o.shuffle = c.shuffle;
  o.clip_norm = c.clip_norm, o.clip_value = c.clip_value, o.ema_decay = c.ema_decay;
  if (c.precision == "bf16") o.autocast = DType::BF16;
  if (c.precision == "f16") o.autocast = DType::F16, o.scaler.emplace();
  o.not_finite = c.not_finite == "stop" ? train::NotFinite::Stop : train::NotFinite::Skip;
  o.max_skipped = c.max_skipped;
  o.evaluate_every = c.evaluate_every, o.evaluation_batches = c.evaluation_batches;
  o.folder = c.folder, o.save_every = c.save_every, o.keep = c.keep;
  o.files = std::move(files);
  o.compile.mode = static_cast<Mode>(std::find(std::begin(kModeNames), std::end(kModeNames), c.mode) - std::begin(kModeNames));
  return o;
}

train::Schedule schedule_of(const TrainConfig& c, double lr) {
  train::Arguments arguments = c.schedule_arguments;
  if (c.schedule == "CosineAnnealingLR") arguments.emplace("T_max", static_cast<double>(std::max<int64_t>(c.steps - c.warmup_steps, 1)));
  TOROID_USER_CHECK(!c.schedule.empty() || arguments.empty(), "schedule.name is missing");
  const train::Schedule main = c.schedule.empty() ? [lr](int64_t) { return lr; } : train::make_schedule(c.schedule, lr, arguments);
  if (c.warmup_steps == 0) return main;
  const auto warmup = static_cast<double>(c.warmup_steps);
  return train::sequential_lr({[=](int64_t step) { return lr * static_cast<double>(step + 1) / warmup; }, main}, {c.warmup_steps});
}

}  // namespace

int train(const TrainArgs& args) {
  if (args.keys) return std::printf("%s", (args.json ? train_keys_json() : describe_train_keys()).c_str()) >= 0 ? kOk : kEnvironmentError;
  TOROID_USER_CHECK(!args.config.empty(), "train: the configuration's path is missing; `toroid train --keys` lists what it may have");
  TrainConfig config = read_train_config(args.config, args.settings);
  if (!args.out.empty()) config.folder = args.out;
  if (!args.device.empty()) config.device = args.device;
  TOROID_USER_CHECK(config.resume || train::list_checkpoints(config.folder).empty(),
                    "{}: the folder holds checkpoints; choose another one, remove them, or set checkpoint.resume", config.folder);
  const Device device = device_from_name(config.device);
  TrainSubject subject = make_train_subject(config);
  subject.model->to(device);
  TrainOutput output(config.steps, args.json);
  train::TrainerOptions options = options_of(config, subject.files);
  if (config.precision == "bf16-weights") options.masters = train::make_master_weights(*subject.model, DType::BF16);
  const auto optimizer = with_place(config, "optimizer", [&] {
    return train::make_optimizer(config.optimizer, options.masters ? options.masters->masters : subject.model->parameters(),
                                 config.optimizer_arguments);
  });
  options.perplexity = subject.is_language_model;
  const double lr = optimizer->learning_rate().item();
  options.on_step = [&](const train::StepReport& r) { output.step(r); };
  options.on_evaluation = [&](const train::EvaluationReport& r) { output.evaluation(r); };
  options.on_checkpoint = [&](const std::string& folder) { output.line("saved", json_string(folder), "saved " + folder); };
  train::Trainer trainer(*subject.model, subject.loss, *optimizer, *subject.data, options);
  trainer.set_schedule(with_place(config, "schedule", [&] { return schedule_of(config, lr); }));
  if (subject.held_out) trainer.set_evaluation(*subject.held_out, subject.metrics);
  const StopOnSignal on_signal(trainer);
  const std::string begin = fmt::format("{} on {}; {} samples", subject.description, to_string(device), subject.data->size());
  output.line("training", json_string(begin), begin);
  const auto done = [&] { return std::to_string(trainer.steps_done()); };
  if (config.resume && trainer.resume()) output.line("resumed_after_step", done(), "resumed after step " + done());
  if (trainer.run()) return kOk;
  output.line("stopped_after_step", done(), fmt::format("stopped after step {}; the same call goes on from there", done()));
  return 128 + received.load();
}

}  // namespace toroid::cli

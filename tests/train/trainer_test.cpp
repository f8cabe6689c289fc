// Trainer: what a step does, what ends a run, and what goes on after it.
#include "toroid/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/files.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/random.h"
#include "train/harness.h"

namespace toroid::train {
namespace {

namespace fs = std::filesystem;

// Two layers, with dropout between them where it is asked for.
class SmallNet : public nn::Module {
 public:
  explicit SmallNet(double dropout = 0) : dropout_(dropout) {
    add_child("first", first_);
    add_child("second", second_);
    add_child("dropout", dropout_);
  }
  Tensor forward(const Tensor& x) { return second_(dropout_(tanh(first_(x)))); }

 private:
  nn::Linear first_{4, 8}, second_{8, 2};
  nn::Dropout dropout_;
};

// Rows whose targets follow from them.
TensorData make_rows(int64_t n = 37) {
  Tensor x = filled({n, 4}, 0), y = filled({n, 2}, 0);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i)));
  for (int64_t i = 0; i < y.numel(); ++i) y.data<float>()[i] = static_cast<float>(std::cos(0.6 * static_cast<double>(i)));
  return TensorData({x, y});
}

// A model, its optimizer and a trainer of both, from the same first values each time.
struct Attempt {
  explicit Attempt(TrainerOptions options, const DataSource& rows, double dropout = 0, DType masters_of = DType::F32,
                   const Device& device = Device::cpu()) {
    nn::manual_seed(1);
    manual_seed(2);
    model = std::make_unique<SmallNet>(dropout);
    model->to(device);
    if (masters_of != DType::F32) options.masters = make_master_weights(*model, masters_of);
    optimizer = std::make_unique<AdamW>(options.masters ? options.masters->masters : model->parameters(), AdamWOptions{.lr = 0.01});
    trainer = std::make_unique<Trainer>(
        *model, [this](const Batch& b) { return mse_loss(model->forward(to(b[0], model->parameters()[0].dtype())), b[1]); }, *optimizer,
        rows, options);
  }
  std::map<std::string, std::vector<double>> weights() const {
    std::map<std::string, std::vector<double>> out;
    for (auto& [name, t] : model->state()) out[name] = t.to_vector();
    return out;
  }
  std::unique_ptr<SmallNet> model;
  std::unique_ptr<AdamW> optimizer;
  std::unique_ptr<Trainer> trainer;
};

class Trainers : public testing::Test {
 protected:
  ~Trainers() override { fs::remove_all(folder_); }
  std::string folder(const std::string& name = "run") const { return (folder_ / name).string(); }
  const fs::path folder_ = make_temp_dir();
  const TensorData rows_ = make_rows();
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  for (auto& e : fs::directory_iterator(folder)) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

// ---- steps

// As of users who call backward() elsewhere.
TEST_F(Trainers, ParametersMayRequireGradients) {
  for (const int64_t accumulate : {1, 2}) {
    const auto trained = [&](bool required) {
      Attempt a({.steps = 3, .batch_size = 4, .accumulate = accumulate, .clip_norm = 1, .ema_decay = 0.9}, rows_);
      if (required) a.model->requires_grad();
      a.trainer->run();
      return a.weights();
    };
    EXPECT_EQ(trained(true), trained(false));
  }
}

// The rates of torch.optim.lr_scheduler.CosineAnnealingLR(AdamW([{..., "lr": 0.01}, {..., "lr": 0.003}]), T_max=4).
TEST_F(Trainers, GroupsKeepTheirShareOfASchedule) {
  const std::vector<std::array<double, 2>> expected = {{0.01, 0.003},
                                                       {0.008535533905932738, 0.0025606601717798213},
                                                       {0.005, 0.0015},
                                                       {0.0014644660940672624, 0.0004393398282201788},
                                                       {0, 0}};
  const auto check = [&](bool each_its_own) {
    SmallNet model;
    const auto all = model.parameters();
    using Group = GroupOf<AdamWOptions>;
    AdamW optimizer(std::vector<Group>{{{all.begin(), all.begin() + 1}, {.lr = 0.01}}, {{all.begin() + 1, all.end()}, {.lr = 0.003}}});
    Trainer trainer(model, [&](const Batch& b) { return mse_loss(model.forward(b[0]), b[1]); }, optimizer, rows_, {.batch_size = 4});
    if (each_its_own)
      trainer.set_schedule({cosine_annealing_lr(0.01, 4), cosine_annealing_lr(0.003, 4)});
    else
      trainer.set_schedule(cosine_annealing_lr(0.01, 4));
    for (auto& [first, second] : expected) {
      EXPECT_NEAR(trainer.step().lr, first, 1e-15);
      EXPECT_NEAR(optimizer.learning_rate(0).item(), first, 1e-15);
      EXPECT_NEAR(optimizer.learning_rate(1).item(), second, 1e-15);
    }
    EXPECT_THROW(trainer.set_schedule(std::vector<Schedule>(3, exponential_lr(0.1, 0.5))), UserError);
  };
  check(true);
  check(false);
}

TEST_F(Trainers, AccumulationIsOneLargeBatch) {
  Attempt whole({.batch_size = 12, .clip_norm = 0.1}, rows_), parts({.batch_size = 3, .accumulate = 4, .clip_norm = 0.1}, rows_);
  for (int k = 0; k < 5; ++k) {
    const StepReport a = whole.trainer->step(), b = parts.trainer->step();
    EXPECT_NEAR(a.loss, b.loss, 1e-6) << k;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-5 * a.grad_norm) << k;
  }
  for (auto& [name, w] : whole.weights())
    for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(w[i], parts.weights().at(name)[i], 2e-6) << name;
}

TEST_F(Trainers, StepsAreThoseOfTheLoopByHand) {
  Attempt run({.batch_size = 37, .shuffle = false, .clip_norm = 0.5, .clip_value = 0.2}, rows_);
  run.trainer->set_schedule(exponential_lr(0.02, 0.5));
  nn::manual_seed(1);
  SmallNet model;
  AdamW optimizer(model.parameters(), {.lr = 0.01});
  std::vector<int64_t> all(37);
  for (int64_t i = 0; i < 37; ++i) all[static_cast<size_t>(i)] = i;
  const Batch batch = rows_.batch(all);
  for (int k = 0; k < 3; ++k) {
    optimizer.set_learning_rate(0.02 * std::pow(0.5, k));
    auto [loss, gradients] = value_and_gradients([&] { return mse_loss(model.forward(batch[0]), batch[1]); }, optimizer.parameters());
    const auto [clipped, norm] = clip_grad_norm(gradients, 0.5);
    optimizer.step(clip_grad_value(clipped, 0.2));
    const StepReport r = run.trainer->step();
    EXPECT_EQ(r.step, k + 1);
    EXPECT_EQ(r.compiling, k == 0);
    EXPECT_NEAR(r.loss, loss.item(), 1e-6);
    EXPECT_NEAR(r.grad_norm, norm.item(), 1e-6);
    EXPECT_DOUBLE_EQ(r.lr, 0.02 * std::pow(0.5, k));
  }
  for (auto& [name, t] : model.state()) {
    const auto got = run.weights().at(name), expected = t.to_vector();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6) << name;
  }
}

TEST_F(Trainers, AveragesFollowTheWeights) {
  Attempt run({.ema_decay = 0.75}, rows_);
  auto expected = run.weights();
  for (int k = 0; k < 4; ++k) {
    run.trainer->step();
    for (auto& [name, w] : run.weights())
      for (size_t i = 0; i < w.size(); ++i) expected[name][i] = 0.75 * expected[name][i] + 0.25 * w[i];
  }
  const auto averages = run.trainer->averages();
  EXPECT_EQ(averages.size(), 4u);
  for (auto& [name, t] : averages)
    for (size_t i = 0; i < expected.at(name).size(); ++i) EXPECT_NEAR(t.to_vector()[i], expected.at(name)[i], 1e-6) << name;
  EXPECT_REFUSED(Attempt({}, rows_).trainer->averages(), "option ema_decay");
}

// Steps that are too small for the weights' dtype add up in the masters.
TEST_F(Trainers, MastersKeepWhatNarrowWeightsCannot) {
  Attempt run({.steps = 40}, rows_, 0, DType::BF16);
  run.optimizer->set_learning_rate(1e-5);
  const auto before = run.optimizer->parameters()[0].to_vector();
  run.trainer->run();
  const Tensor weight = run.model->parameters()[0], master = run.optimizer->parameters()[0];
  EXPECT_EQ(weight.dtype(), DType::BF16);
  EXPECT_EQ(master.dtype(), DType::F32);
  EXPECT_EQ(weight.to_vector(), to(master, DType::BF16).to_vector());
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved = std::max(moved, std::abs(master.to_vector()[i] - before[i]));
  EXPECT_GT(moved, 1e-4);
  EXPECT_LT(moved, 4.1e-4);
}

TEST_F(Trainers, AutocastAndScaledLossesStayNearF32) {
  Attempt exact({.steps = 20}, rows_), bf16({.steps = 20, .autocast = DType::BF16}, rows_),
      f16({.steps = 20, .autocast = DType::F16, .scaler = GradScalerOptions{}}, rows_);
  for (int k = 0; k < 20; ++k) {
    const double loss = exact.trainer->step().loss;
    EXPECT_NEAR(bf16.trainer->step().loss, loss, 2e-2);
    EXPECT_NEAR(f16.trainer->step().loss, loss, 5e-3);
  }
}

TEST_F(Trainers, EvaluationChangesNothingAndSkipsDropout) {
  TrainerOptions options{.steps = 4, .batch_size = 5, .evaluate_every = 1};
  std::vector<EvaluationReport> reports;
  Attempt plain(options, rows_, 0.5);
  options.on_evaluation = [&](const EvaluationReport& r) { reports.push_back(r); };
  Attempt evaluated(options, rows_, 0.5);
  const TensorData held_out = make_rows(11);
  evaluated.trainer->set_evaluation(held_out);
  manual_seed(2);
  EXPECT_TRUE(plain.trainer->run());
  manual_seed(2);
  EXPECT_TRUE(evaluated.trainer->run());
  EXPECT_EQ(plain.weights(), evaluated.weights());
  ASSERT_EQ(reports.size(), 4u);
  EXPECT_EQ(reports[3].step, 4);
  EXPECT_EQ(reports[3].samples, 10);  // two full batches
  EXPECT_TRUE(evaluated.model->is_training());
  evaluated.model->eval();
  std::vector<int64_t> first(10);
  for (int64_t i = 0; i < 10; ++i) first[static_cast<size_t>(i)] = i;
  const Batch b = held_out.batch(first);
  EXPECT_NEAR(reports[3].loss, mse_loss(evaluated.model->forward(b[0]), b[1]).item(), 1e-6);
  EXPECT_REFUSED(plain.trainer->evaluate(), "call set_evaluation() first");
}

TEST_F(Trainers, OptionsOutOfRangeAreRefused) {
  EXPECT_REFUSED(Attempt({.steps = -1}, rows_), "steps must be at least 0, not -1");
  EXPECT_REFUSED(Attempt({.batch_size = 0}, rows_), "batch_size must be at least 1, not 0");
  EXPECT_REFUSED(Attempt({.accumulate = 0}, rows_), "accumulate must be at least 1");
  EXPECT_REFUSED(Attempt({.clip_norm = -1}, rows_), "clip_norm must not be negative");
  EXPECT_REFUSED(Attempt({.clip_norm = NAN}, rows_), "clip_norm must not be negative");
  EXPECT_REFUSED(Attempt({.clip_value = -1}, rows_), "clip_value must not be negative");
  EXPECT_REFUSED(Attempt({.ema_decay = 1}, rows_), "ema_decay must be from 0 on and below 1");
  EXPECT_REFUSED(Attempt({.max_skipped = 0}, rows_), "max_skipped must be at least 1");
  EXPECT_REFUSED(Attempt({.evaluate_every = -1}, rows_), "evaluate_every must be at least 0");
  EXPECT_REFUSED(Attempt({.keep = -1}, rows_), "keep must be at least 0");
  SmallNet model;
  AdamW other({filled({3}, 0)});
  EXPECT_REFUSED(Trainer(
                     model, [](const Batch& b) { return b[0]; }, other, rows_),
                 "parameter 0 of the optimizer is no parameter");
  EXPECT_REFUSED(Attempt({}, rows_).trainer->save(), "has no folder");
}

// ---- what is not finite

TEST_F(Trainers, ABadWeightIsNamedAndNothingChanges) {
  Attempt run({.ema_decay = 0.5}, rows_);
  run.trainer->step();
  copy_(run.model->parameters()[3], Tensor::of({0, NAN}, {2}));
  const auto before = run.weights();
  const auto averages = run.trainer->averages()[0].second.to_vector();
  const StepReport r = run.trainer->step();
  EXPECT_TRUE(r.skipped);
  EXPECT_EQ(r.not_finite, "weight second.bias");
  EXPECT_NE(to_string(r).find("(skipped: weight second.bias is not finite)"), std::string::npos) << to_string(r);
  for (auto& [name, w] : run.weights()) EXPECT_TRUE(name == "second.bias" || w == before.at(name)) << name;
  EXPECT_EQ(run.trainer->averages()[0].second.to_vector(), averages);
}

TEST_F(Trainers, BadDataLossesAndGradientsAreTold) {
  Tensor x = filled({6, 4}, 0.5);
  x.data<float>()[9] = INFINITY;  // row 2
  const TensorData bad({x, filled({6, 2}, 1)});
  Attempt run({.batch_size = 1, .shuffle = false}, bad);
  EXPECT_FALSE(run.trainer->step().skipped);
  EXPECT_FALSE(run.trainer->step().skipped);
  EXPECT_EQ(run.trainer->step().not_finite, "tensor 0 of the batch");
  EXPECT_FALSE(run.trainer->step().skipped);
  SmallNet model;
  AdamW optimizer(model.parameters());
  Trainer loss(
      model, [&](const Batch& b) { return sum(log(model.forward(b[0]) * 0 - 1)); }, optimizer, rows_);
  EXPECT_EQ(loss.step().not_finite, "loss");
  // sqrt at 0 has a finite value, and no finite gradient.
  Trainer gradient(
      model, [&](const Batch& b) { return sum(sqrt(model.forward(b[0]) * 0)); }, optimizer, rows_);
  const StepReport r = gradient.step();
  EXPECT_EQ(r.loss, 0);
  EXPECT_EQ(r.not_finite, "gradient of first.weight");
}

TEST_F(Trainers, StopsOrSkipsByChoice) {
  Tensor x = filled({8, 4}, 0.5);
  for (int i = 8; i < 24; ++i) x.data<float>()[i] = NAN;  // rows 2 to 5
  const TensorData bad({x, filled({8, 2}, 1)});
  const TrainerOptions options{.steps = 8, .batch_size = 1, .shuffle = false};
  TrainerOptions stops = options, few = options;
  stops.not_finite = NotFinite::Stop;
  few.max_skipped = 3;
  Attempt a(stops, bad), b(few, bad), c(options, bad);
  EXPECT_REFUSED(a.trainer->run(), "training stopped at step 3: tensor 0 of the batch is not finite;");
  EXPECT_EQ(a.trainer->steps_done(), 3);
  EXPECT_REFUSED(b.trainer->run(), "training stopped at step 5: tensor 0 of the batch is not finite, and 3 steps in a row were skipped");
  EXPECT_TRUE(c.trainer->run());
  for (auto& [name, w] : c.weights())
    for (const double v : w) EXPECT_TRUE(std::isfinite(v)) << name;
}

TEST_F(Trainers, AScaleThatIsTooLargeIsFound) {
  Attempt run({.autocast = DType::F16, .scaler = GradScalerOptions{.init_scale = 1e30}}, rows_);
  int skipped = 0;
  for (int k = 0; k < 100; ++k) {
    const StepReport r = run.trainer->step();
    skipped += r.skipped;
    EXPECT_EQ(r.not_finite.substr(0, 11), r.skipped ? "gradient of" : "") << k;
  }
  EXPECT_GT(skipped, 50);
  EXPECT_LT(skipped, 100);
  EXPECT_FALSE(run.trainer->step().skipped);
}

// ---- checkpoints

TrainerOptions everything(const std::string& folder) {
  return {.steps = 11,
          .batch_size = 5,
          .accumulate = 2,
          .clip_norm = 1,
          .ema_decay = 0.9,
          .scaler = GradScalerOptions{.init_scale = 8, .growth_interval = 4},
          .folder = folder,
          .save_every = 4};
}

TEST_F(Trainers, ResumedRunsAreEqualToTheBit) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const std::string name = dtype == DType::F32 ? "f32" : "bf16";
    using Reports = std::map<int64_t, std::array<double, 4>>;
    const auto noted_in = [](Reports& reports) {
      return [&reports](const StepReport& r) { reports[r.step] = {r.loss, r.grad_norm, r.lr, r.loss_scale}; };
    };
    Reports expected, got;
    TrainerOptions options = everything(folder(name + "-whole"));
    options.on_step = noted_in(expected);
    Attempt whole(options, rows_, 0.3, dtype);
    whole.trainer->set_schedule(cosine_annealing_lr(0.05, 11));
    EXPECT_FALSE(whole.trainer->resume());
    EXPECT_TRUE(whole.trainer->run());
    options.folder = folder(name);
    options.on_step = noted_in(got);
    for (const int64_t until : {3, 7, 8, 11}) {  // 3: a run that ends between two checkpoints
      options.steps = until;
      Attempt part(options, rows_, 0.3, dtype);
      part.trainer->set_schedule(cosine_annealing_lr(0.05, 11));
      EXPECT_EQ(part.trainer->resume(), until > 3);
      EXPECT_TRUE(part.trainer->run());
      if (until < 11) continue;
      EXPECT_EQ(part.weights(), whole.weights()) << name;
      EXPECT_EQ(part.trainer->averages()[2].second.to_vector(), whole.trainer->averages()[2].second.to_vector()) << name;
    }
    EXPECT_EQ(got, expected) << name;
    EXPECT_EQ(got.at(11)[3], 32);  // the scale grew twice
    for (const char* file : {"model.safetensors", "optimizer.safetensors", "trainer.json", "ema/model.safetensors"})
      EXPECT_EQ(read_file(fs::path(folder(name)) / "step-000011" / file),
                read_file(fs::path(folder(name + "-whole")) / "step-000011" / file))
          << file;
  }
}

TEST_F(Trainers, AGpuTrainsAsTheCpuDoesAndGoesOnWithItsCheckpoints) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  TrainerOptions options = everything("");
  options.ema_decay = 0;
  Attempt cpu(options, rows_);
  options.folder = folder();
  options.steps = 6;
  std::vector<double> losses;
  options.on_step = [&](const StepReport& r) { losses.push_back(r.loss); };
  EXPECT_TRUE(Attempt(options, rows_, 0, DType::F32, Device::cuda()).trainer->run());
  options.steps = 11;
  Attempt rest(options, rows_, 0, DType::F32, Device::cuda());
  EXPECT_TRUE(rest.trainer->resume());
  EXPECT_TRUE(rest.trainer->run());
  ASSERT_EQ(losses.size(), 11u);
  for (const double loss : losses) EXPECT_NEAR(loss, cpu.trainer->step().loss, 1e-4);
}

TEST_F(Trainers, TheNewestCheckpointsStay) {
  TrainerOptions options{.steps = 7, .folder = folder(), .save_every = 2, .keep = 2, .files = {{"config.json", "{}"}}};
  std::vector<std::string> saved;
  options.on_checkpoint = [&](const std::string& f) { saved.push_back(fs::path(f).filename().string()); };
  Attempt(options, rows_).trainer->run();
  EXPECT_EQ(saved, (std::vector<std::string>{"step-000002", "step-000004", "step-000006", "step-000007"}));
  EXPECT_EQ(names_in(folder()), (std::vector<std::string>{"log.jsonl", "step-000006", "step-000007", "training.html"}));
  EXPECT_EQ(names_in(folder() + "/step-000007"),
            (std::vector<std::string>{"config.json", "model.safetensors", "optimizer.safetensors", "trainer.json"}));
  EXPECT_EQ(list_checkpoints(folder()).size(), 2u);
  EXPECT_TRUE(list_checkpoints(folder("none")).empty());
}

// What a process leaves that is killed while it saves: no checkpoint, and gone with the next save.
TEST_F(Trainers, UnfinishedCheckpointsDoNotCount) {
  Attempt first({.steps = 2, .folder = folder()}, rows_);
  first.trainer->run();
  const fs::path partial = fs::path(folder()) / ".partial-step-000004-999999999", other = fs::path(folder()) / ".partial-notes";
  fs::create_directories(partial);
  fs::create_directories(other);
  std::ofstream(partial / "model.safetensors") << "half";
  Attempt second({.steps = 3, .folder = folder()}, rows_);
  EXPECT_TRUE(second.trainer->resume());
  EXPECT_EQ(second.trainer->steps_done(), 2);
  second.trainer->run();
  EXPECT_FALSE(fs::exists(partial));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(Trainers, DamagedCheckpointsAreNamed) {
  Attempt({.steps = 2, .folder = folder()}, rows_).trainer->run();
  const fs::path checkpoint = fs::path(folder()) / "step-000002";
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "trainer.json"}) {
    const std::string bytes = read_file(checkpoint / file);
    const auto refused = [&](const std::string& damaged) {
      std::ofstream(checkpoint / file, std::ios::binary) << damaged;
      Attempt run({.steps = 3, .folder = folder()}, rows_);
      const auto before = run.weights();
      EXPECT_REFUSED(run.trainer->resume(), file);
      EXPECT_EQ(run.weights(), before);
      EXPECT_EQ(run.trainer->steps_done(), 0);
    };
    refused("");
    refused(bytes.substr(0, bytes.size() / 2));
    if (std::string_view(file) != "trainer.json") {
      std::string flipped = bytes;
      flipped[bytes.size() - 3] ^= 1;
      refused(flipped);
    }
    fs::remove(checkpoint / file);
    Attempt run({.steps = 3, .folder = folder()}, rows_);
    EXPECT_REFUSED(run.trainer->resume(), file);
    std::ofstream(checkpoint / file, std::ios::binary) << bytes;
  }
  Attempt whole({.steps = 3, .folder = folder()}, rows_);
  EXPECT_TRUE(whole.trainer->resume());
}

TEST_F(Trainers, CheckpointsOfOtherRunsAreRefused) {
  Attempt({.steps = 2, .folder = folder()}, rows_).trainer->run();
  EXPECT_REFUSED(Attempt({.folder = folder()}, make_rows(36)).trainer->resume(), "was made with the data tensors: f32 [37, 4]");
  EXPECT_REFUSED(Attempt({.seed = 1, .folder = folder()}, rows_).trainer->resume(), "was made with the seed 0, this trainer has 1");
  EXPECT_REFUSED(Attempt({.shuffle = false, .folder = folder()}, rows_).trainer->resume(), "was made with shuffling on");
  EXPECT_REFUSED(Attempt({.ema_decay = 0.5, .folder = folder()}, rows_).trainer->resume(), "there is no \"average.0\"");
  Attempt sgd({.folder = folder()}, rows_);
  SGD optimizer(sgd.model->parameters(), {.momentum = 0.5});
  Trainer other(*sgd.model, [](const Batch& b) { return b[0]; }, optimizer, rows_, {.folder = folder()});
  EXPECT_REFUSED(other.resume(), "optimizer.safetensors: ");
  SmallNet wide;
  wide.to(DType::F64);
  AdamW of_wide(wide.parameters());
  Trainer in_f64(wide, [](const Batch& b) { return b[0]; }, of_wide, rows_, {.folder = folder()});
  EXPECT_REFUSED(in_f64.resume(), "\"first.bias\" is f32[8] in the checkpoint and f64[8] here");
}

TEST_F(Trainers, AFolderThatCannotBeWrittenIsAnErrorAndLosesNothing) {
  std::ofstream(folder_ / "file") << "x";
  Attempt run({.steps = 2, .folder = folder("file") + "/below"}, rows_);
  EXPECT_THROW(run.trainer->run(), Error);
  Attempt other({.steps = 2, .folder = "/proc/none"}, rows_);
  EXPECT_THROW(other.trainer->run(), EnvironmentError);
  EXPECT_EQ(read_file(folder_ / "file"), "x");
}

TEST_F(Trainers, ARequestToStopSavesAndGoesOnLater) {
  TrainerOptions options{.steps = 9, .folder = folder()};
  Attempt whole({.steps = 9}, rows_);
  whole.trainer->run();
  Trainer* stopping = nullptr;
  options.on_step = [&](const StepReport& r) {
    if (r.step == 4) stopping->request_stop();
  };
  Attempt stopped(options, rows_);
  stopping = stopped.trainer.get();
  EXPECT_FALSE(stopped.trainer->run());
  EXPECT_EQ(stopped.trainer->steps_done(), 4);
  options.on_step = {};
  Attempt rest(options, rows_);
  EXPECT_TRUE(rest.trainer->resume());
  EXPECT_EQ(rest.trainer->steps_done(), 4);
  EXPECT_TRUE(rest.trainer->run());
  EXPECT_EQ(rest.weights(), whole.weights());
}

// ---- log and page

TEST_F(Trainers, TheLogHasEachStepOnce) {
  TrainerOptions options{.steps = 6, .evaluate_every = 3, .folder = folder(), .save_every = 4};
  const auto run = [&](int64_t steps) {
    options.steps = steps;
    Attempt r(options, rows_);
    r.trainer->set_evaluation(rows_);
    r.trainer->resume();
    r.trainer->run();
  };
  run(6);
  fs::remove_all(folder() + "/step-000006");  // as if it had been killed after step 6
  std::ofstream(folder() + "/log.jsonl", std::ios::app) << "{\"step\":7,\"lo";
  run(8);
  run(8);  // nothing is left to do
  std::istringstream lines(read_file(folder() + "/log.jsonl"));
  std::vector<std::string> steps, evaluations;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("{\"step\":") && line.ends_with("}")) << line;
    (line.find("held_out_loss") == line.npos ? steps : evaluations).push_back(line.substr(0, line.find(',')));
  }
  ASSERT_EQ(steps.size(), 8u);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(steps[i], "{\"step\":" + std::to_string(i + 1));
  EXPECT_EQ(evaluations, (std::vector<std::string>{"{\"step\":3", "{\"step\":6", "{\"step\":8"}));
}

TEST_F(Trainers, ThePageNeedsNothingButItself) {
  Attempt run({.steps = 3, .folder = folder("<b>")}, rows_);
  run.trainer->run();
  const std::string page = read_file(folder("<b>") + "/training.html");
  for (const char* part : {"<h2>Loss</h2>", "<h2>Learning rate</h2>", "samples a second", "<polyline points=", "step 3  loss", "&lt;b&gt;"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const char* part : {"http", "src=", "href", "@import", "<b>", "nan", "inf"}) EXPECT_EQ(page.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace toroid::train

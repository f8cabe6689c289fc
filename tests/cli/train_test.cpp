// `toroid train`: configurations, and what ends and resumes a run.
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "base/files.h"
#include "cli/harness.h"
#include "import/json.h"
#include "toroid/device.h"
#include "toroid/model.h"
#include "toroid/nn.h"
#include "toroid/nn/pretrained.h"
#include "toroid/ops.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace test;

const fs::path kSource = TOROID_SOURCE_DIR;

constexpr const char* kTiny = R"([model.config]
architectures = ["GPT2LMHeadModel"]
vocab_size = 128
n_positions = 8
n_embd = 8
n_layer = 1
n_head = 2
resid_pdrop = 0.1

[data]
file = "text.txt"
length = 8

[optimizer]
lr = 1e-2

[training]
steps = 4
batch_size = 2
)";

class TrainCommand : public testing::Test {
 protected:
  TrainCommand() {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "the quick brown fox jumps over " + std::to_string(i * i) + " lazy dogs\n";
    std::ofstream(folder_ / "text.txt") << text;
    std::ofstream(folder_ / "tiny.toml") << kTiny;
  }
  ~TrainCommand() override { fs::remove_all(folder_); }

  Outcome train(const std::string& arguments, const std::string& out = "out", const std::string& before = "") const {
    return toroid_command("train " + arguments + (out.empty() ? "" : " --out " + path(out)), before);
  }
  Outcome tiny(const std::string& settings = "", const std::string& out = "out", const std::string& before = "") const {
    return train(path("tiny.toml") + " " + settings, out, before);
  }
  // The same with one line of the configuration replaced, or added at the end.
  Outcome changed(const std::string& line, const std::string& by) const {
    std::string text = kTiny;
    if (const size_t at = line.empty() ? text.npos : text.find(line); at != text.npos)
      text.replace(at, line.size(), by);
    else
      text += by + "\n";
    std::ofstream(folder_ / "changed.toml") << text;
    return train(path("changed.toml"));
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string file(const std::string& name) const { return read_file(folder_ / name); }
  const fs::path folder_ = make_temp_dir();
};

std::vector<double> losses_in(const fs::path& folder) {
  std::vector<double> out;
  std::ifstream in(folder / "log.jsonl");
  for (std::string line; std::getline(in, line);)
    if (const size_t at = line.find("\"loss\":"); at != line.npos) out.push_back(std::stod(line.substr(at + 7)));
  return out;
}

#define EXPECT_TRAIN(outcome, expected_code, what) \
  do { \
    const Outcome o = outcome; \
    EXPECT_EQ(o.code, expected_code) << o.text; \
    EXPECT_NE(o.text.find(what), std::string::npos) << o.text; \
  } while (false)

// ---- configurations

TEST_F(TrainCommand, ALineAStepAndWhatWasWritten) {
  const Outcome o = tiny("--set checkpoint.every=2 --set evaluation.every=2");
  EXPECT_EQ(o.code, 0) << o.text;
  for (const char* pattern : {"language model, 1976 parameters on cpu; \\d+ samples\n",
                              "step 1  loss 4\\.\\d+  grad norm [^\n]*\\(compiling\\)\n", "step 2  loss [^\n]* tokens/s\n",
                              "step 2  held-out loss 4\\.\\d+  perplexity \\d+\\.\\d+  \\d+ samples", "saved [^\n]*step-000004\n"})
    EXPECT_TRUE(std::regex_search(o.text, std::regex(pattern))) << pattern << "\n" << o.text;
  for (const char* name : {"log.jsonl", "training.html", "step-000002/config.json", "step-000004/model.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
  const auto model = nn::load_pretrained(path("out/step-000004"));
  EXPECT_EQ(model->parameter_count(), 1976);
}

// Each line of --json is an object; those of steps and evaluations are the log's, in its order.
TEST_F(TrainCommand, JsonLinesAreThoseOfTheLog) {
  const Outcome o = tiny("--json --set checkpoint.every=2 --set evaluation.every=2");
  ASSERT_EQ(o.code, 0) << o.text;
  std::istringstream lines(o.text);
  std::string steps;
  int saved = 0, others = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto document = import::JsonDocument::parse(line, "train");
    if (document.root().find("step")) {
      steps += line + "\n";
    } else if (const auto folder = document.root().find("saved")) {
      EXPECT_TRUE(fs::exists(std::string(folder->as_str()))) << line;
      ++saved;
    } else {
      EXPECT_TRUE(document.root().find("training")) << line;
      ++others;
    }
  }
  EXPECT_EQ(steps, file("out/log.jsonl"));
  EXPECT_EQ(saved, 2);
  EXPECT_EQ(others, 1);
  EXPECT_TRAIN(tiny("--json --set training.steps=6"), 0, "{\"resumed_after_step\":4}\n");
}

// Each key of --keys: refused with its place where the value is of another kind, or below its range; taken with its default.
TEST_F(TrainCommand, EachKeyIsChecked) {
  std::istringstream keys(toroid_command("train --keys").text);
  const std::string documents = read_file(kSource / "docs/training.md");
  std::string table, defaults;
  int count = 0;
  for (std::string line; std::getline(keys, line);) {
    std::smatch m;
    if (std::regex_match(line, m, std::regex("\\[(\\w+)\\]"))) table = m[1];
    if (!std::regex_match(line, m, std::regex("  (\\w+) +(integer|number|bool|string) +(\\S+) .*"))) continue;
    ++count;
    const std::string key = table + "." + m[1].str(), kind = m[2];
    EXPECT_NE(documents.find("| `" + key + "` | "), std::string::npos) << "docs/training.md lacks " << key;
    EXPECT_TRAIN(tiny("--set " + key + "=[1]"), 2, key + " must be ");
    if (kind == "string") EXPECT_TRAIN(tiny("--set " + key + "=3"), 2, key + " must be a string");
    if (kind != "string") EXPECT_TRAIN(tiny("--set " + key + "=word"), 2, key + " must be ");
    if (kind == "integer") EXPECT_TRAIN(tiny("--set " + key + "=1.5"), 2, key + " must be an integer");
    if (kind == "integer" || kind == "number") EXPECT_TRAIN(tiny("--set " + key + "=-1"), 2, key + " must be ");
    if (kind == "number") EXPECT_TRAIN(tiny("--set " + key + "=nan"), 2, key + " must be ");
    if (table != "model" && key != "data.file") defaults += " --set '" + key + "=" + m[3].str() + "'";
  }
  EXPECT_EQ(count, 30);
  EXPECT_TRAIN(tiny(defaults + " --set training.steps=1 --set data.length=8"), 0, "step 1 ");
}

TEST_F(TrainCommand, TyposAreRefusedWithLineAndNearestName) {
  const std::string at = path("changed.toml") + ", line ";
  EXPECT_TRAIN(changed("batch_size", "batchsize"), 2, at + "19: [training] has no key \"batchsize\"; did you mean \"batch_size\"?");
  EXPECT_TRAIN(changed("[training]", "[trainig]"), 2, at + "17: there is no table [trainig]; did you mean \"training\"?");
  EXPECT_TRAIN(changed("lr =", "lrr ="), 2, at + "15: unknown argument of AdamW \"lrr\"; did you mean \"lr\"?");
  EXPECT_TRAIN(changed("n_embd", "n_embed"), 2,
               at + "5: model.config: GPT2LMHeadModel does not take \"n_embed\"; did you mean \"n_embd\"?");
  EXPECT_TRAIN(changed("GPT2LMHeadModel", "GPT2LMHead"), 2, "the architecture \"GPT2LMHead\" is not supported; there are ");
  EXPECT_TRAIN(changed("", "precision = \"fp32\""), 2, at + "20: training.precision must be one of f32, bf16");
  EXPECT_TRAIN(changed("lr = 1e-2", "name = \"AdamV\""), 2, "unknown optimizer \"AdamV\"; did you mean");
  EXPECT_TRAIN(changed("", "[schedule]\nname = \"Cosine\""), 2, "unknown schedule \"Cosine\"; did you mean \"CosineAnnealingLR\"");
  EXPECT_TRAIN(changed("", "[schedule]\nT_max = 4"), 2, "schedule.name is missing");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

TEST_F(TrainCommand, BadValuesAreRefused) {
  const std::string at = path("changed.toml") + ", line ";
  EXPECT_TRAIN(changed("steps = 4", "steps = -4"), 2, at + "18: training.steps must be at least 0");
  EXPECT_TRAIN(changed("steps = 4", "steps = \"4\""), 2, at + "18: training.steps must be an integer");
  EXPECT_TRAIN(changed("steps = 4", "steps = 99999999999999999999"), 2, at + "18: ");
  EXPECT_TRAIN(changed("lr = 1e-2", "lr = -1"), 2, at + "15: AdamW: the argument \"lr\" must be at least 0");
  EXPECT_TRAIN(changed("lr = 1e-2", "lr = nan"), 2, at + "15: AdamW: the argument \"lr\" must be a number, not NaN");
  EXPECT_TRAIN(changed("lr = 1e-2", "betas = [0.9, 1.0]"), 2, at + "15: AdamW: the argument \"betas\" must be from 0 on and below 1");
  EXPECT_TRAIN(changed("lr = 1e-2", "betas = 0.9"), 2, "the argument \"betas\" must be a list of 2 numbers");
  EXPECT_TRAIN(changed("lr = 1e-2", "lr = 2020-01-01"), 2, at + "15: optimizer.lr must be a number, a bool, a string or a list of numbers");
  EXPECT_TRAIN(changed("n_embd = 8", "n_embd = -8"), 2, at + "5: model.config: \"n_embd\" must be an integer");
  EXPECT_TRAIN(changed("n_embd = 8", "n_embd = 0"), 2, "n_embd 0");
  EXPECT_TRAIN(changed("n_embd = 8", "n_embd = 2020-01-01"), 2, at + "5: model.config.n_embd must be");
  EXPECT_TRAIN(changed("n_head = 2", "n_head = 3"), 2, "is not a multiple of 3 heads");
  EXPECT_TRAIN(changed("length = 8", "length = 100000"), 2, "a sample of length 100000 needs 100001");
  EXPECT_TRAIN(changed("length = 8", "length = 9"), 2, "longer than the 8 positions");
  EXPECT_TRAIN(changed("vocab_size = 128", "vocab_size = 99"), 2, "index 1");
  EXPECT_TRAIN(changed("", "ema_decay = 1"), 2, "training.ema_decay must be below 1");
  EXPECT_TRAIN(changed("", "device = \"cpuu\""), 2, "\"cpuu\" is no device");
}

TEST_F(TrainCommand, FilesThatAreNoneAreRefused) {
  EXPECT_TRAIN(train("", ""), 2, "the configuration's path is missing; `toroid train --keys` lists what it may have");
  EXPECT_TRAIN(train(path("none.toml")), 2, "cannot read \"" + path("none.toml") + "\": No such file or directory");
  EXPECT_TRAIN(train(folder_.string()), 2, "cannot read");
  const std::string at = path("changed.toml") + ", line ";
  EXPECT_TRAIN(changed("text.txt", "none.txt"), 2, at + "11: data.file: there is no \"" + path("none.txt") + "\"");
  EXPECT_TRAIN(changed("file = \"text.txt\"", ""), 2, "data.file is missing");
  EXPECT_TRAIN(changed("[data]", "[data"), 2, at + "10: ");
  EXPECT_TRAIN(changed("", "steps = 5"), 2, at + "20: ");  // a key twice
  std::ofstream(folder_ / "text.toml") << "steps";
  EXPECT_TRAIN(train(path("text.toml")), 2, "text.toml, line 1: ");
  std::ofstream(folder_ / "empty.toml") << "";
  EXPECT_TRAIN(train(path("empty.toml")), 2, "none of model.folder, model.file, model.program and [model.config] are given");
  EXPECT_TRAIN(tiny("--set model.folder=."), 2, "2 of model.folder, model.file, model.program and [model.config] are given");
  std::ofstream(folder_ / "plain.toml") << "training = 3\n";
  EXPECT_TRAIN(train(path("plain.toml")), 2, "plain.toml, line 1: \"training\" must be a table: [training]");
  EXPECT_TRAIN(tiny("--set training.steps"), 2, "--set training.steps: expected TABLE.KEY=VALUE");
  EXPECT_TRAIN(tiny("--set 'training.steps=[1'"), 2, "the value is none of TOML's");
}

TEST_F(TrainCommand, AGpuThatIsNotThereIsTold) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this machine has a GPU";
  const Outcome o = tiny("--device cuda");
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_NE(o.text.find("GPU"), std::string::npos) << o.text;
}

// ---- what it trains

// gpt.toml of the examples against the losses that PyTorch wrote down.
TEST_F(TrainCommand, AGptFollowsPyTorchsCurve) {
  const fs::path example = kSource / "examples/train_gpt";
  const auto curve = load_config((example / "curve.json").string());
  const Outcome o =
      train((example / "gpt.toml").string() + " --set training.shuffle=false --set training.steps=80 --set checkpoint.every=0");
  ASSERT_EQ(o.code, 0) << o.text;
  const auto losses = losses_in(folder_ / "out");
  ASSERT_EQ(losses.size(), 80u);
  for (size_t i = 0; i < losses.size(); ++i) {
    const double expected = std::get<double>(curve.at("losses." + std::to_string(i)));
    ASSERT_NEAR(losses[i], expected, 1e-4 * expected)
        << "step " << i + 1 << "; are the first weights those of the curve? See write_curve.py";
  }
  EXPECT_LT(losses.back(), 0.55 * losses.front());
}

// Programs of torch.export with a loss: losses and parameters after ten steps of AdamW in PyTorch.
TEST_F(TrainCommand, ExportedProgramsTrainAsInPyTorch) {
  for (const std::string name : {"gru", "cnn"}) {
    const fs::path known = kSource / "tests/data/gradients/models" / name;
    auto inputs = load_tensors((known / "in.safetensors").string());
    save_tensors(path(name + ".safetensors"), {{"a_0", inputs.at("000")}, {"a_1", inputs.at("001")}});
    std::ofstream(folder_ / (name + ".toml"))
        << "[model]\nprogram = \"" << (known / "core.pt2").string() << "\"\n[data]\nfile = \"" << name
        << ".safetensors\"\nheld_out = 0\n[optimizer]\nlr = 1e-3\nbetas = [0.9, 0.95]\nweight_decay = 0.1\n"
        << "[training]\nsteps = 10\nclip_norm = 0\nshuffle = false\nbatch_size = " << inputs.at("000").sizes()[0] << "\n";
    const Outcome o = train(path(name + ".toml"), name);
    ASSERT_EQ(o.code, 0) << o.text;
    const auto losses = losses_in(folder_ / name),
               expected = load_tensors((known / "losses.safetensors").string()).at("losses").to_vector();
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4 * expected[i]) << name << " " << i;
    const auto got = load_tensors(path(name + "/step-000010/model.safetensors"));
    const auto gradients = load_tensors((known / "grad.safetensors").string());
    for (auto& [parameter, t] : load_tensors((known / "after.safetensors").string())) {
      ASSERT_TRUE(got.count(parameter)) << parameter;
      const auto a = got.at(parameter).to_vector(), b = t.to_vector(), g = gradients.at(parameter).to_vector();
      for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], std::abs(g[i]) > 1e-4 ? 2e-4 : 2.5e-2) << name << " " << parameter;
    }
  }
  std::ofstream(folder_ / "bad.toml") << "[model]\nprogram = \"" << (kSource / "tests/data/gradients/models/gru/core.pt2").string()
                                      << "\"\n[data]\nfile = \"other.safetensors\"\n";
  save_tensors(path("other.safetensors"), {{"x", arange(3)}});
  EXPECT_TRAIN(train(path("bad.toml"), "bad"), 2, "there is no tensor \"a_0\"");
  EXPECT_TRAIN(train(path("bad.toml") + " --set training.precision=bf16-weights"), 2, "\"bf16-weights\" is for models");
  save_tensors(path("other.safetensors"), {{"a_0", zeros({40, 7, 8})}, {"a_1", zeros({40}, DType::I64)}});
  EXPECT_TRAIN(train(path("bad.toml"), "bad"), 2,
               "the input \"a_0\" of a batch is f32 [8, 7, 8]; the program was exported for f32[4, 7, 8]");
}

// A folder of a small BERT with random weights, and rows whose label is whether their third token is odd.
TEST_F(TrainCommand, ABertFolderIsFineTuned) {
  const std::string config =
      "{\"architectures\":[\"BertForSequenceClassification\"],\"vocab_size\":24,\"hidden_size\":16,\"num_hidden_layers\":1,"
      "\"num_attention_heads\":2,\"intermediate_size\":32,\"max_position_embeddings\":8,\"type_vocab_size\":2,"
      "\"hidden_dropout_prob\":0.0,\"attention_probs_dropout_prob\":0.0,\"id2label\":{\"0\":\"even\",\"1\":\"odd\"}}";
  fs::create_directories(folder_ / "bert");
  std::ofstream(folder_ / "bert/config.json") << config;
  std::ofstream(folder_ / "bert/vocab.txt") << "[PAD]\n";
  nn::manual_seed(3);
  save_tensors(path("bert/model.safetensors"), nn::make_model(load_config(path("bert/config.json")), "config.json")->state());
  Tensor ids = zeros({96, 6}, DType::I64), mask = ones({96, 6}, DType::I64), labels = zeros({96}, DType::I64);
  for (int64_t i = 0; i < 96; ++i) {
    for (int64_t k = 0; k < 6; ++k) ids.data<int64_t>()[i * 6 + k] = 1 + (i * 7 + k * 5 + i * i / 3) % 23;
    mask.data<int64_t>()[i * 6 + 5] = i % 2;
    labels.data<int64_t>()[i] = ids.data<int64_t>()[i * 6 + 2] % 2;
  }
  save_tensors(path("rows.safetensors"), {{"input_ids", ids}, {"attention_mask", mask}, {"labels", labels}});
  std::ofstream(folder_ / "bert.toml") << "[model]\nfolder = \"bert\"\n[data]\nfile = \"rows.safetensors\"\n[optimizer]\nlr = 1e-2\n"
                                          "[training]\nsteps = 60\nbatch_size = 16\n";
  const Outcome o = train(path("bert.toml"));
  ASSERT_EQ(o.code, 0) << o.text;
  const auto losses = losses_in(folder_ / "out");
  EXPECT_GT(losses.front(), 0.6);
  EXPECT_LT(losses.back(), 0.3);
  EXPECT_TRUE(std::regex_search(o.text, std::regex("held-out loss [^\n]*  accuracy [01]\\.\\d{4}  \\d+ samples"))) << o.text;
  EXPECT_NE(file("out/log.jsonl").find("\"metrics\":{\"accuracy\":"), std::string::npos);
  EXPECT_EQ(file("out/step-000060/config.json"), config);
  EXPECT_EQ(file("out/step-000060/vocab.txt"), "[PAD]\n");
  EXPECT_EQ(nn::load_pretrained(path("out/step-000060"))->state().size(), nn::load_pretrained(path("bert"))->state().size());
  save_tensors(path("rows.safetensors"), {{"input_ids", ids}, {"attention_mask", mask}});
  EXPECT_TRAIN(train(path("bert.toml"), "other"), 2, "rows.safetensors: there is no tensor \"labels\"");
}

TEST_F(TrainCommand, EachPrecisionTrains) {
  EXPECT_TRAIN(tiny("--set training.precision=bf16-weights", "bf16-weights"), 0, "step 4  loss 4.");
  EXPECT_EQ(load_tensors(path("bf16-weights/step-000004/model.safetensors")).begin()->second.dtype(), DType::BF16);
  const std::string all =
      "--set training.precision=f16 --set training.ema_decay=0.9 --set training.accumulate=3 --set training.clip_value=0.1 "
      "--set schedule.name=CosineAnnealingLR --set schedule.warmup_steps=2";
  const Outcome o = tiny(all, "all");
  EXPECT_EQ(o.code, 0) << o.text;
  for (const char* rate : {"step 1  [^\n]*lr 5.00e-03", "step 2  [^\n]*lr 1.00e-02", "step 3  [^\n]*lr 1.00e-02",
                           "step 4  [^\n]*lr 5.00e-03 [^\n]*  scale 65536\n"})
    EXPECT_TRUE(std::regex_search(o.text, std::regex(rate))) << rate << "\n" << o.text;
  EXPECT_EQ(nn::load_pretrained(path("all/step-000004/ema"))->parameter_count(), 1976);
}

// ---- what ends it, and what goes on

// The command while it runs.
class RunningCommand {
 public:
  RunningCommand(std::vector<std::string> arguments, const std::string& output) {
    arguments.insert(arguments.begin(), (fs::read_symlink("/proc/self/exe").parent_path() / "toroid").string());
    std::vector<char*> argv;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t to_file;
    ::posix_spawn_file_actions_init(&to_file);
    ::posix_spawn_file_actions_addopen(&to_file, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (::posix_spawn(&id_, argv[0], &to_file, nullptr, argv.data(), environ) != 0) ADD_FAILURE() << "cannot start the command";
    ::posix_spawn_file_actions_destroy(&to_file);
  }
  pid_t id() const { return id_; }
  // Sends the signal when `is_time`, `later` after that. How the process ended, as waitpid() has it.
  int signal_when(const std::function<bool()>& is_time, int signal, std::chrono::microseconds later = {}) {
    int status = 0;
    while (::waitpid(id_, &status, WNOHANG) == 0) {
      if (!is_time()) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      std::this_thread::sleep_for(later);
      ::kill(id_, signal);
      ::waitpid(id_, &status, 0);
      break;
    }
    return status;
  }

 private:
  pid_t id_ = -1;
};

TEST_F(TrainCommand, KilledWhileItSavesAndResumedIsEqualToTheBit) {
  const std::string settings = "--set training.steps=24 --set checkpoint.every=1 --set checkpoint.keep=2 --set training.ema_decay=0.9";
  ASSERT_EQ(tiny(settings, "whole").code, 0);
  std::vector<std::string> arguments{"train", path("tiny.toml"), "--out", path("killed")};
  std::istringstream words(settings);
  for (std::string word; words >> word;) arguments.push_back(word);
  int killed = 0;
  for (size_t k = 0; k < 5; ++k) {
    RunningCommand command(arguments, path("output"));
    std::set<std::string> begun;  // its checkpoints
    const auto is_saving = [&] {
      std::error_code error;
      for (fs::directory_iterator it(folder_ / "killed", error), end; !error && it != end; it.increment(error))
        if (const std::string name = it->path().filename().string(); name.ends_with("-" + std::to_string(command.id()))) begun.insert(name);
      return begun.size() >= 2 + k % 3;
    };
    killed += WIFSIGNALED(command.signal_when(is_saving, SIGKILL, std::chrono::microseconds(700 * k)));
  }
  EXPECT_GE(killed, 1);
  EXPECT_EQ(tiny(settings, "killed").code, 0);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "ema/model.safetensors", "trainer.json"})
    EXPECT_TRUE(file(std::string("whole/step-000024/") + name) == file(std::string("killed/step-000024/") + name)) << name;
  EXPECT_EQ(losses_in(folder_ / "whole"), losses_in(folder_ / "killed"));
}

TEST_F(TrainCommand, SignalsSaveAndTheSameCallGoesOn) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string out = "out" + std::to_string(signal);
    RunningCommand command({"train", path("tiny.toml"), "--out", path(out), "--set", "training.steps=1000000"}, path("output"));
    const int status = command.signal_when([&] { return losses_in(folder_ / out).size() > 2; }, signal);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    const std::string text = file("output"), tail = text.substr(text.size() - std::min<size_t>(text.size(), 300));
    std::smatch m;
    ASSERT_TRUE(std::regex_search(tail, m, std::regex("stopped after step (\\d+); the same call goes on from there\n$"))) << tail;
    const int64_t step = std::stoll(m[1]);
    EXPECT_GT(step, 2);
    EXPECT_NE(tail.find(fmt::format("saved {}/step-{:06}\n", path(out), step)), std::string::npos) << tail;
    const Outcome rest = tiny("--set training.steps=" + std::to_string(step + 2), out);
    EXPECT_EQ(rest.code, 0) << rest.text;
    EXPECT_NE(rest.text.find(fmt::format("resumed after step {}\nstep {}  loss", step, step + 1)), std::string::npos) << rest.text;
    EXPECT_EQ(losses_in(folder_ / out).size(), static_cast<size_t>(step) + 2);
  }
}

// As where the disk is full: no file may have more than 4 KiB.
TEST_F(TrainCommand, AFullDiskLeavesTheCheckpointBefore) {
  ASSERT_EQ(tiny("--set training.steps=2").code, 0);
  const Outcome o = tiny("", "out", "trap '' XFSZ; ulimit -f 4;");
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_NE(o.text.find("cannot write"), std::string::npos) << o.text;
  EXPECT_FALSE(fs::exists(folder_ / "out/step-000004"));
  for (auto& e : fs::directory_iterator(folder_ / "out")) EXPECT_NE(e.path().filename().string().substr(0, 8), ".partial") << e.path();
  EXPECT_TRAIN(tiny(), 0, "resumed after step 2");
  EXPECT_TRAIN(tiny("--set checkpoint.resume=false"), 2, "the folder holds checkpoints");
  EXPECT_TRAIN(tiny("--set training.seed=1"), 2, "was made with the seed 0, this trainer has 1");
}

TEST_F(TrainCommand, InfinitiesSkipOrStop) {
  const std::string huge = "--set optimizer.name=SGD --set optimizer.lr=1e30 --set training.clip_norm=0 --set training.steps=40";
  EXPECT_TRAIN(tiny(huge + " --set training.not_finite=stop", "stop"), 2, " is not finite; a lower learning rate");
  EXPECT_TRAIN(tiny(huge + " --set training.max_skipped=3", "skip"), 2, ", and 3 steps in a row were skipped");
}

}  // namespace
}  // namespace toroid

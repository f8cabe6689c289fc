#include "cli/train_model.h"

#include <cmath>
#include <filesystem>

#include "base/check.h"
#include "base/files.h"
#include "cli/train_program.h"
#include "toroid/model.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/random.h"
#include "toroid/train/trainer.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

// Of a Hugging Face folder, what a checkpoint takes along beside the weights.
constexpr const char* kTakenAlong[] = {"config.json",
                                       "generation_config.json",
                                       "tokenizer.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "vocab.json",
                                       "vocab.txt",
                                       "merges.txt"};

std::shared_ptr<nn::TokenModel> make_token_model(const TrainConfig& c, TrainSubject& out) {
  if (!c.model_folder.empty()) {
    for (const char* name : kTakenAlong)
      if (const fs::path file = fs::path(c.model_folder) / name; fs::exists(file)) out.files[name] = read_file(file);
    return nn::load_pretrained(c.model_folder, {.dtype = DType::F32});
  }
  if (!c.model_file.empty()) {
    out.files["config.json"] = read_file(c.model_file);
    return nn::make_model(load_config(c.model_file), c.model_file);
  }
  out.files["config.json"] = c.model_json;
  return with_place(c, "model.config", [&] { return nn::make_model(c.model_config, "model.config", nn::Init::standard(), true); });
}

// Rows `from` to `to` of each tensor, as shares of all.
std::vector<Tensor> rows_between(const std::vector<Tensor>& tensors, double from, double to) {
  std::vector<Tensor> out;
  for (auto& t : tensors) {
    const auto row = [&](double share) { return SymInt(int64_t{std::llround(share * static_cast<double>(t.sizes().at(0)))}); };
    out.push_back(slice(t, 0, row(from), row(to)));
  }
  return out;
}

std::vector<Tensor> read_rows(const std::string& path, const std::vector<std::string>& names) {
  const auto all = load_tensors(path);
  std::vector<Tensor> out;
  for (auto& name : names) {
    const auto it = all.find(name);
    TOROID_USER_CHECK(it != all.end(), "{}: there is no tensor \"{}\"", path, name);
    TOROID_USER_CHECK(it->second.dim() > 0, "{}: \"{}\" has no rows", path, name);
    out.push_back(it->second);
  }
  return out;
}

void add_rows(const TrainConfig& c, const std::vector<std::string>& names, TrainSubject& out) {
  const auto rows = read_rows(c.data_file, names);
  const double end = c.held_out_file.empty() ? 1 - c.held_out : 1;
  out.data = std::make_unique<train::TensorData>(rows_between(rows, 0, end));
  if (!c.held_out_file.empty())
    out.held_out = std::make_unique<train::TensorData>(read_rows(c.held_out_file, names));
  else if (c.held_out > 0)
    out.held_out = std::make_unique<train::TensorData>(rows_between(rows, end, 1));
}

void add_tokens(const TrainConfig& c, TrainSubject& out) {
  const train::TokenFormat format = train::parse_token_format(c.data_format);
  const double end = c.held_out_file.empty() ? 1 - c.held_out : 1;
  out.data = std::make_unique<train::TokenData>(c.data_file, train::TokenOptions{.length = c.length, .format = format, .to = end});
  if (!c.held_out_file.empty())
    out.held_out = std::make_unique<train::TokenData>(c.held_out_file, train::TokenOptions{.length = c.length, .format = format});
  else if (c.held_out > 0)
    out.held_out = std::make_unique<train::TokenData>(c.data_file, train::TokenOptions{.length = c.length, .format = format, .from = end});
}

// Batches: token ids, mask of what is no padding, labels.
std::function<Tensor(const train::Batch&)> classification(std::shared_ptr<nn::TokenModel> model) {
  return [model = std::move(model)](const train::Batch& b) {
    return cross_entropy(model->forward(to(b[0], DType::I64), b[1]), to(b[2], DType::I64));
  };
}

void add_program(const TrainConfig& c, TrainSubject& out) {
  const auto program = std::make_shared<TrainProgram>(c.model_program);
  out.model = program;
  out.loss = [program](const train::Batch& b) { return program->loss(b); };
  add_rows(c, program->input_names(), out);
  out.description = fmt::format("{}, {} parameters", fs::path(c.model_program).filename().string(), program->parameter_count());
}

}  // namespace

TrainSubject make_train_subject(const TrainConfig& c) {
  nn::manual_seed(static_cast<uint64_t>(c.seed));
  manual_seed(c.seed);
  TrainSubject out;
  if (!c.model_program.empty()) {
    add_program(c, out);
    return out;
  }
  const auto model = make_token_model(c, out);
  out.model = model;
  TOROID_USER_CHECK(model->parameter_count() > 0, "{}: the model has no parameters; are its sizes 0?", c.source);
  std::string kind;
  if (std::dynamic_pointer_cast<nn::BertForSequenceClassification>(model)) {
    kind = "classifier";
    out.loss = classification(model);
    out.metrics = [model](const train::Batch& b) {
      const Tensor chosen = argmax(model->forward(to(b[0], DType::I64), b[1]), -1);
      return nn::NamedTensors{{"accuracy", mean(to(chosen == to(b[2], DType::I64), DType::F32))}};
    };
    add_rows(c, {"input_ids", "attention_mask", "labels"}, out);
  } else if (std::dynamic_pointer_cast<nn::GPT2LMHeadModel>(model) || std::dynamic_pointer_cast<nn::LlamaForCausalLM>(model)) {
    kind = "language model";
    out.is_language_model = true;
    out.loss = [model](const train::Batch& b) { return train::next_token_loss(*model, b[0]); };
    add_tokens(c, out);
  } else {
    fail<UserError>(
        "{}: this architecture has no loss here; there are language models (GPT2LMHeadModel, LlamaForCausalLM and relatives) and "
        "BertForSequenceClassification, or an exported program that returns its loss (model.program)",
        c.source);
  }
  out.description = fmt::format("{}, {} parameters", kind, model->parameter_count());
  return out;
}

}  // namespace toroid::cli

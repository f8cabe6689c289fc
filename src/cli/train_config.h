// The configuration of `toroid train`: a TOML file, read by one table of keys.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "toroid/error.h"
#include "toroid/train/by_name.h"
#include "toroid/weights.h"

namespace toroid::cli {

struct TrainConfig {
  std::string source;                         // the file's path, for messages
  std::map<std::string, std::string> places;  // "gpt.toml, line 12", by key: optimizer.lr, model.config.n_embd

  std::string model_folder, model_file, model_program;
  std::map<std::string, ConfigValue> model_config;  // flattened as load_config() does
  std::string model_json;                           // the same as the text of a config.json; empty without it

  std::string data_file, data_format = "text", held_out_file;
  double held_out = 0.1;
  int64_t length = 128;

  std::string optimizer = "AdamW", schedule;
  train::Arguments optimizer_arguments, schedule_arguments;
  int64_t warmup_steps = 0;

  int64_t steps = 1000, batch_size = 8, accumulate = 1, seed = 0, max_skipped = 10;
  bool shuffle = true;
  double clip_norm = 1, clip_value = 0, ema_decay = 0;
  std::string precision = "f32", device = "cpu", mode = "default", not_finite = "skip";

  int64_t evaluate_every = 0, evaluation_batches = 0;

  std::string folder = "out";
  int64_t save_every = 0, keep = 3;
  bool resume = true;
};

// UserError, with file, line and the nearest name, for unknown keys; for values of other kinds or out of range; for TOML that is none and a
// file that is missing. Paths of what is read are relative to the file's folder. settings: "training.steps=10", values as TOML has them, in
// place of the file's; strings may go without quotes.
TrainConfig read_train_config(const std::string& path, const std::vector<std::string>& settings);

// Where a message about a table is about: the key that it quotes, else the table.
std::string place_in(const TrainConfig& config, const std::string& table, const std::string& message);
// f(). A UserError of it is thrown again with that place before it.
template <class F>
auto with_place(const TrainConfig& config, const std::string& table, F&& f) {
  try {
    return f();
  } catch (const UserError& e) {
    throw UserError(place_in(config, table, e.what()) + ": " + e.what());
  }
}

// All keys with their kinds, defaults and meanings, a line each, by table.
std::string describe_train_keys();
// The same as an array of objects.
std::string train_keys_json();

}  // namespace toroid::cli

#include "cli/train_config.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>
#include <variant>

#include "base/check.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/text.h"
#include "toroid/mode.h"

namespace toroid::cli {
namespace {

using Member = std::variant<int64_t TrainConfig::*, double TrainConfig::*, bool TrainConfig::*, std::string TrainConfig::*>;
constexpr double kNone = std::numeric_limits<double>::infinity();

struct Key {
  const char *table, *name;
  Member member;
  const char* doc;
  double least = 0, most = kNone;  // of numbers
  std::vector<std::string_view> choices = {};
  bool is_path = false;
};

using C = TrainConfig;

const std::vector<Key>& keys() {
  static const std::vector<Key> rows = {
      {"model", "folder", &C::model_folder, "A Hugging Face folder to go on from: config.json with model.safetensors", 0, kNone, {}, true},
      {"model", "file", &C::model_file, "A config.json: a model with random weights", 0, kNone, {}, true},
      {"model",
       "program",
       &C::model_program,
       "An exported program (.pt2) that returns a loss: its parameters are trained",
       0,
       kNone,
       {},
       true},
      {"data", "file", &C::data_file, "What is trained on", 0, kNone, {}, true},
      {"data",
       "format",
       &C::data_format,
       "Of token files: text (each byte is a token), u16 or u32 (little-endian), or safetensors (tensor \"tokens\"). Classifiers and programs "
       "read safetensors, a row a sample",
       0,
       kNone,
       {"text", "u16", "u32", "safetensors"}},
      {"data", "length", &C::length, "Tokens of a sample", 1},
      {"data", "held_out", &C::held_out, "Share of the file's end that is not trained on but evaluated", 0, 0.9},
      {"data", "held_out_file", &C::held_out_file, "Another file to evaluate on, in place of held_out", 0, kNone, {}, true},
      {"optimizer", "name", &C::optimizer, "As in torch.optim; its arguments are further keys of the table: lr, betas, weight_decay, ..."},
      {"schedule", "name", &C::schedule,
       "As in torch.optim.lr_scheduler; its arguments are further keys of the table. Empty: the rate stays. T_max of CosineAnnealingLR need "
       "not be given: all steps after the warm-up"},
      {"schedule", "warmup_steps", &C::warmup_steps, "Steps in which the rate rises from 0 to the optimizer's lr, before the schedule"},
      {"training", "steps", &C::steps, "Steps of the optimizer, in all"},
      {"training", "batch_size", &C::batch_size, "Samples of a forward pass", 1},
      {"training", "accumulate", &C::accumulate, "Forward passes of a step, whose mean gradient it takes", 1},
      {"training", "seed", &C::seed, "Of first weights, the order of samples, and dropout"},
      {"training", "shuffle", &C::shuffle, "Whether each epoch has the samples in another order"},
      {"training", "clip_norm", &C::clip_norm, "Largest norm of all gradients together; 0: any"},
      {"training", "clip_value", &C::clip_value, "Largest element of a gradient; 0: any"},
      {"training", "ema_decay", &C::ema_decay, "Of a moving average of the weights, saved beside them; 0: none", 0, 1},
      {"training",
       "precision",
       &C::precision,
       "f32; bf16 or f16: products in that dtype (autocast), f16 with a scaled loss; bf16-weights: the weights too, with masters in f32",
       0,
       kNone,
       {"f32", "bf16", "f16", "bf16-weights"}},
      {"training", "device", &C::device, "cpu, cuda or cuda:<number>"},
      {"training", "mode", &C::mode, "Of compiling, as bench --mode has it", 0, kNone, {std::begin(kModeNames), std::end(kModeNames)}},
      {"training",
       "not_finite",
       &C::not_finite,
       "What happens where loss or gradients have infinities or NaNs: the step is skipped, or training fails",
       0,
       kNone,
       {"skip", "stop"}},
      {"training", "max_skipped", &C::max_skipped, "Steps in a row with infinities or NaNs, which are skipped, before training fails", 1},
      {"evaluation", "every", &C::evaluate_every, "Steps between evaluations; 0: at the end alone"},
      {"evaluation", "batches", &C::evaluation_batches, "Batches of an evaluation; 0: all"},
      {"checkpoint", "folder", &C::folder, "For checkpoints, log.jsonl and training.html, from the current folder on (option --out)"},
      {"checkpoint", "every", &C::save_every, "Steps between checkpoints; 0: at the end alone"},
      {"checkpoint", "keep", &C::keep, "Checkpoints that stay, the newest; 0: all"},
      {"checkpoint", "resume", &C::resume, "Go on from the newest checkpoint of the folder; false: the folder must hold none"},
  };
  return rows;
}

const Key* find_key(std::string_view table, std::string_view name) {
  const auto it = std::find_if(keys().begin(), keys().end(), [&](const Key& k) { return table == k.table && name == k.name; });
  return it == keys().end() ? nullptr : &*it;
}

std::vector<std::string_view> tables() {
  std::vector<std::string_view> out;
  for (auto& k : keys())
    if (out.empty() || out.back() != k.table) out.emplace_back(k.table);
  return out;
}

const char* kind_of(const Member& m) {
  constexpr const char* kNames[] = {"integer", "number", "bool", "string"};
  return kNames[m.index()];
}

// Reads one file's table into a configuration.
class TrainConfigReader {
 public:
  TrainConfigReader(const std::string& path, const toml::table& root) : path_(path), root_(root) { config_.source = path; }

  TrainConfig read() {
    for (auto&& [name, node] : root_) {
      const auto known = tables();
      TOROID_USER_CHECK(std::count(known.begin(), known.end(), name.str()) > 0, "{}: there is no table [{}]{}; there are {}", place(node),
                        name.str(), did_you_mean(name.str(), known), fmt::join(known, ", "));
      const toml::table* table = node.as_table();
      TOROID_USER_CHECK(table, "{}: \"{}\" must be a table: [{}]", place(node), name.str(), name.str());
      for (auto&& [key, value] : *table) read_key(name.str(), key.str(), value);
    }
    check();
    return std::move(config_);
  }

 private:
  std::string place(const toml::node& node) const {
    const auto line = node.source().begin.line;
    return line > 0 ? fmt::format("{}, line {}", path_, line) : fmt::format("{} (--set)", path_);
  }

  void read_key(std::string_view table, std::string_view name, const toml::node& value) {
    config_.places[fmt::format("{}.{}", table, name)] = place(value);
    if (const Key* key = find_key(table, name)) return read_value(*key, value);
    if (table == "model" && name == "config") return read_model(value);
    if (table == "optimizer") return void(config_.optimizer_arguments[std::string(name)] = argument(table, name, value));
    if (table == "schedule") return void(config_.schedule_arguments[std::string(name)] = argument(table, name, value));
    std::vector<std::string_view> known;
    for (auto& k : keys())
      if (table == k.table) known.emplace_back(k.name);
    if (table == "model") known.emplace_back("config");
    fail<UserError>("{}: [{}] has no key \"{}\"{}; it has {}", place(value), table, name, did_you_mean(name, known),
                    fmt::join(known, ", "));
  }

  void read_value(const Key& key, const toml::node& value) {
    const auto wrong = [&](const std::string& expected) {
      fail<UserError>("{}: {}.{} must be {}", place(value), key.table, key.name, expected);
    };
    const auto in_range = [&](double v) {
      if (!(v >= key.least && v <= key.most))
        wrong(key.most == kNone ? fmt::format("at least {:g}", key.least) : fmt::format("from {:g} to {:g}", key.least, key.most));
    };
    std::visit(
        [&](auto member) {
          using T = std::decay_t<decltype(config_.*member)>;
          if constexpr (std::is_same_v<T, std::string>) {
            const auto* v = value.as_string();
            if (!v) wrong("a string");
            if (!key.choices.empty() && !std::count(key.choices.begin(), key.choices.end(), v->get()))
              wrong(fmt::format("one of {}{}", fmt::join(key.choices, ", "), did_you_mean(v->get(), key.choices)));
            config_.*member = key.is_path ? existing(key, *v) : v->get();
          } else if constexpr (std::is_same_v<T, bool>) {
            const auto* v = value.as_boolean();
            if (!v) wrong("true or false");
            config_.*member = v->get();
          } else if constexpr (std::is_same_v<T, int64_t>) {
            const auto* v = value.as_integer();
            if (!v) wrong("an integer");
            in_range(static_cast<double>(v->get()));
            config_.*member = v->get();
          } else {
            const auto v = value.value<double>();
            if (!value.is_number() || !v) wrong("a number");
            in_range(*v);
            config_.*member = *v;
          }
        },
        key.member);
  }

  std::string existing(const Key& key, const toml::value<std::string>& value) const {
    if (value.get().empty()) return "";
    const auto path = (std::filesystem::path(path_).parent_path() / value.get()).lexically_normal();
    std::error_code error;
    TOROID_USER_CHECK(std::filesystem::exists(path, error), "{}: {}.{}: there is no \"{}\"", place(value), key.table, key.name,
                      path.string());
    return path.string();
  }

  train::ArgumentValue argument(std::string_view table, std::string_view name, const toml::node& value) const {
    if (const auto* b = value.as_boolean()) return b->get();
    if (const auto* s = value.as_string()) return s->get();
    if (value.is_number()) return *value.value<double>();
    const toml::array* list = value.as_array();
    if (!list || !std::all_of(list->begin(), list->end(), [](auto& v) { return v.is_number(); }))
      fail<UserError>("{}: {}.{} must be a number, a bool, a string or a list of numbers", place(value), table, name);
    std::vector<double> out;
    for (auto& v : *list) out.push_back(*v.template value<double>());
    return out;
  }

  void flatten(const std::string& key, const toml::node& node) {
    config_.places["model.config." + key] = place(node);
    const auto inside = [&](std::string_view name) { return key.empty() ? std::string(name) : key + "." + std::string(name); };
    if (const auto* table = node.as_table())
      for (auto&& [name, value] : *table) flatten(inside(name.str()), value);
    else if (const auto* list = node.as_array())
      for (size_t i = 0; i < list->size(); ++i) flatten(inside(std::to_string(i)), *list->get(i));
    else if (const auto* i = node.as_integer())
      config_.model_config[key] = i->get();
    else if (const auto* d = node.as_floating_point())
      config_.model_config[key] = d->get();
    else if (const auto* b = node.as_boolean())
      config_.model_config[key] = b->get();
    else if (const auto* s = node.as_string())
      config_.model_config[key] = s->get();
    else
      fail<UserError>("{}: model.config.{} must be a number, a bool, a string, a list or a table", place(node), key);
  }

  void read_model(const toml::node& node) {
    const toml::table* table = node.as_table();
    TOROID_USER_CHECK(table, "{}: \"model.config\" must be a table: [model.config]", place(node));
    flatten("", *table);
    std::ostringstream text;
    text << toml::json_formatter{*table} << "\n";
    config_.model_json = text.str();
  }

  void check() const {
    const int models =
        !config_.model_folder.empty() + !config_.model_file.empty() + !config_.model_program.empty() + !config_.model_config.empty();
    TOROID_USER_CHECK(models == 1, "{}: {} of model.folder, model.file, model.program and [model.config] are given; exactly one is needed",
                      path_, models == 0 ? "none" : std::to_string(models));
    TOROID_USER_CHECK(!config_.data_file.empty(), "{}: data.file is missing", path_);
    TOROID_USER_CHECK(config_.model_program.empty() || config_.precision != "bf16-weights",
                      "{}: training.precision \"bf16-weights\" is for models; a program (model.program) computes in the dtypes it was "
                      "exported with, or by autocast (bf16, f16)",
                      path_);
    TOROID_USER_CHECK(config_.ema_decay < 1, "{}: training.ema_decay must be below 1", path_);
    TOROID_USER_CHECK(!config_.folder.empty(), "{}: checkpoint.folder must not be empty", path_);
  }

  const std::string path_;
  const toml::table& root_;
  TrainConfig config_;
};

toml::table parse_toml(const std::string& text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    fail<UserError>("{}, line {}: {}", path, e.source().begin.line, e.description());
  }
}

// Puts what `from` has in the place of what `into` has.
void merge(toml::table& into, const toml::table& from) {
  for (auto&& [name, value] : from) {
    toml::table* below = into.get_as<toml::table>(name.str());
    if (const toml::table* own = value.as_table(); own && below)
      merge(*below, *own);
    else
      into.insert_or_assign(name.str(), value);
  }
}

// "training.steps=10" as a table.
toml::table setting(const std::string& text) {
  const size_t at = text.find('=');
  TOROID_USER_CHECK(at != text.npos && at > 0, "--set {}: expected TABLE.KEY=VALUE, such as training.steps=10", text);
  const std::string key = text.substr(0, at), value = text.substr(at + 1);
  try {
    return toml::parse(key + " = " + value);
  } catch (const toml::parse_error&) {
    const bool is_word = value.find_first_of("\"'[]{}\n\\") == value.npos;
    if (is_word) return parse_toml(key + " = \"" + value + "\"", "--set " + text);
    fail<UserError>("--set {}: the value is none of TOML's", text);
  }
}

}  // namespace

TrainConfig read_train_config(const std::string& path, const std::vector<std::string>& settings) {
  toml::table root = parse_toml(read_file(path), path);
  for (auto& s : settings) merge(root, setting(s));
  return TrainConfigReader(path, root).read();
}

std::string place_in(const TrainConfig& config, const std::string& table, const std::string& message) {
  for (auto& [key, place] : config.places) {
    if (key.starts_with(table + ".") && message.find("\"" + key.substr(table.size() + 1) + "\"") != message.npos) return place;
  }
  return fmt::format("{}, [{}]", config.source, table);
}

namespace {

// The default of a key, as TOML has it.
std::string default_of(const TrainConfig& defaults, const Member& member) {
  return std::visit(
      [&](auto of) {
        if constexpr (std::is_same_v<std::decay_t<decltype(defaults.*of)>, std::string>)
          return fmt::format("\"{}\"", defaults.*of);
        else
          return fmt::format("{}", defaults.*of);
      },
      member);
}

constexpr const char* kConfigDoc = "What a config.json has, in its place: a model with random weights";

// row(table, name, kind, default, doc) of each.
template <class F>
void for_each_key(F&& row) {
  const TrainConfig defaults;
  for (auto& k : keys()) {
    row(std::string(k.table), std::string(k.name), std::string(kind_of(k.member)), default_of(defaults, k.member), std::string(k.doc));
    if (std::string_view(k.name) == "program") row(std::string(k.table), "config", "table", "", kConfigDoc);
  }
}

}  // namespace

std::string describe_train_keys() {
  std::string out, last;
  for_each_key(
      [&](const std::string& table, const std::string& name, const std::string& kind, const std::string& standard, const std::string& doc) {
        if (last != table) out += fmt::format("{}[{}]\n", last.empty() ? "" : "\n", table);
        last = table;
        out += fmt::format("  {:<14} {:<8} {:<10} {}\n", name, kind, standard, doc);
      });
  return out;
}

std::string train_keys_json() {
  std::string out;
  for_each_key(
      [&](const std::string& table, const std::string& name, const std::string& kind, const std::string& standard, const std::string& doc) {
        out += fmt::format("{}{{\"table\":{},\"name\":{},\"kind\":{},\"default\":{},\"doc\":{}}}", out.empty() ? "" : ",\n ",
                           json_string(table), json_string(name), json_string(kind), json_string(standard), json_string(doc));
      });
  return fmt::format("[{}]\n", out);
}

}  // namespace toroid::cli

// What a Trainer saves and loads.
#include <filesystem>

#include "toroid/autograd.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/random.h"
#include "toroid/weights.h"
#include "train/checkpoint.h"
#include "train/trainer_impl.h"

namespace toroid::train {
namespace {

constexpr int64_t kFormat = 1;

using State = std::map<std::string, Tensor>;

// trainer.json, read by name.
class Record {
 public:
  explicit Record(std::string path) : path_(std::move(path)), values_(load_config(path_)) {}
  template <class T>
  T get(const std::string& key) const {
    const auto it = values_.find(key);
    const T* v = it == values_.end() ? nullptr : std::get_if<T>(&it->second);
    require(v, "{}: damaged: \"{}\" is missing or of another kind", path_, key);
    return *v;
  }
  int64_t count(const std::string& key) const {
    const auto v = get<int64_t>(key);
    require(v >= 0, "{}: damaged: \"{}\" is {}", path_, key, v);
    return v;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::map<std::string, ConfigValue> values_;
};

// "f32[2, 3]": the text of a tensor without its elements.
std::string type_of(const Tensor& t) {
  const std::string text = to_string(t);
  return text.substr(0, text.find(" {"));
}

// The tensors of a file, of which all must be as they were written, and fit those that are there now.
State checked(const std::string& path, const State& now, const std::string& digest) {
  const State read = load_tensors(path);
  require(digest_of(read) == digest, "{}: damaged: it does not hold what was written (its digest differs)", path);
  for (auto& [name, t] : now) {
    const auto it = read.find(name);
    require(it != read.end(), "{}: there is no \"{}\", which this trainer has; is it of another model, optimizer or option?", path, name);
    require(it->second.dtype() == t.dtype() && it->second.sizes() == t.sizes(), "{}: \"{}\" is {} in the checkpoint and {} here", path,
            name, type_of(it->second), type_of(t));
  }
  for (auto& [name, t] : read) require(now.count(name) > 0, "{}: this trainer has no \"{}\"", path, name);
  return read;
}

void copy_into(const State& now, const State& read) {
  const NoGrad copies;
  for (auto& [name, t] : now) copy_(t, read.at(name).to(t.device()));
}

// The average's names are the module's, so that its file can be loaded in place of the weights.
State with_averages(const nn::Module& model, const nn::NamedTensors& averages) {
  State out = model.state();
  for (auto& [name, t] : averages) out[name] = t;
  return out;
}

}  // namespace

std::map<std::string, Tensor> Trainer::Impl::own_state() const {
  State out;
  for (auto& [name, t] : optimizer.state()) out["optimizer." + name] = t;
  if (scaler)
    for (auto& [name, t] : scaler->state()) out["scaler." + name] = t;
  for (size_t i = 0; i < averages.size(); ++i) out[fmt::format("average.{}", i)] = averages[i];
  if (options.masters)
    for (size_t i = 0; i < trained.size(); ++i) out[fmt::format("master.{}", i)] = trained[i];
  return out;
}

std::string Trainer::Impl::save() {
  require(!options.folder.empty(), "save: this trainer has no folder (TrainerOptions::folder)");
  CheckpointWriter writer(options.folder, steps);
  const State weights = model.state(), own = own_state();
  save_tensors(writer.file("model.safetensors"), weights, {{"format", "pt"}});
  save_tensors(writer.file("optimizer.safetensors"), own);
  for (auto& [name, text] : options.files) write_text(writer.file(name), text);
  if (!averages.empty()) {
    nn::NamedTensors named;
    for (auto& [name, p] : weights)  // all names of each
      for (size_t i = 0; i < differentiated.size(); ++i)
        if (p.impl() == differentiated[i].impl()) named.emplace_back(name, averages[i]);
    save_tensors(writer.file("ema/model.safetensors"), with_averages(model, named), {{"format", "pt"}});
    for (auto& [name, text] : options.files) write_text(writer.file("ema/" + name), text);
  }
  const Generator::State random = default_generator().state();
  std::string text = "{\n";
  const auto add = [&](const char* key, const std::string& value) { text += fmt::format("  \"{}\": {},\n", key, value); };
  add("format", std::to_string(kFormat));
  add("step", std::to_string(steps));
  add("place", std::to_string(place));
  add("seed", json_string(std::to_string(options.seed)));
  add("shuffle", options.shuffle ? "true" : "false");
  add("data", json_string(data.describe()));
  add("random_seed", std::to_string(random.seed));
  add("random_offset", std::to_string(random.offset));
  add("model_digest", json_string(digest_of(weights)));
  text += fmt::format("  \"optimizer_digest\": {}\n}}\n", json_string(digest_of(own)));
  write_text(writer.file("trainer.json"), text);
  const std::string folder = writer.publish();
  saved_at = steps;
  remove_old_checkpoints(options.folder, options.keep);
  return folder;
}

void Trainer::Impl::load(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const Record record((fs::path(checkpoint) / "trainer.json").string());
  require(record.count("format") == kFormat, "{}: format {} is not known; this version reads {}", record.path(), record.count("format"),
          kFormat);
  const auto fits = [&](const char* what, const std::string& was, const std::string& is) {
    require(was == is, "{}: the checkpoint was made with {} {}, this trainer has {}; give it the same, or another folder to begin anew",
            record.path(), what, was, is);
  };
  fits("the data", record.get<std::string>("data"), data.describe());
  fits("the seed", record.get<std::string>("seed"), std::to_string(options.seed));
  fits("shuffling", record.get<bool>("shuffle") ? "on" : "off", options.shuffle ? "on" : "off");
  const int64_t step = record.count("step"), at = record.count("place");
  const Generator::State random{record.get<int64_t>("random_seed"), record.count("random_offset")};
  const State weights = model.state(), own = own_state();
  const State read_weights =
      checked((fs::path(checkpoint) / "model.safetensors").string(), weights, record.get<std::string>("model_digest"));
  const State read_own =
      checked((fs::path(checkpoint) / "optimizer.safetensors").string(), own, record.get<std::string>("optimizer_digest"));
  // From here on nothing is refused.
  copy_into(weights, read_weights);
  copy_into(own, read_own);
  default_generator().set_state(random);
  steps = step, place = at, skipped = 0;
  saved_at = fs::path(checkpoint).parent_path() == fs::path(options.folder) ? std::optional(step) : std::nullopt;
}

}  // namespace toroid::train

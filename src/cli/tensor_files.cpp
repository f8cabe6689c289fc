#include "cli/tensor_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/text.h"
#include "import/load_model.h"
#include "import/safetensors.h"
#include "package/package.h"

namespace toroid::cli {
namespace {

constexpr int64_t kMaxCalls = 1 << 16;

Tensor copy_of(const import::TensorRecord& record) {
  Tensor t = Tensor::empty(record.sizes, record.dtype);
  auto bytes = record.bytes();
  if (!bytes.empty()) std::memcpy(t.raw_data(), bytes.data(), bytes.size());
  return t;
}

bool parse_number(std::string_view text, int64_t& out) {
  if (text.empty() || text.size() > 6 || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) return false;
  out = std::stoll(std::string(text));
  return true;
}

// The place of a name; UserError for one that is none of `names`.
int64_t place_of(std::string_view key, const std::vector<std::string>& names, const std::filesystem::path& path, const std::string& whole) {
  const auto it = std::find(names.begin(), names.end(), key);
  if (it != names.end()) return it - names.begin();
  const std::vector<std::string_view> known(names.begin(), names.end());
  fail<UserError>("{}: the tensor \"{}\" should be named by its place, \"000\", \"001\", ... or \"call1.000\" for a second call{}{}",
                  path.string(), whole, names.empty() ? "" : fmt::format(", or as the model names it: {}", fmt::join(names, ", ")),
                  did_you_mean(key, known));
}

}  // namespace

std::vector<std::string> output_names(const std::filesystem::path& model, const std::string& entry) {
  std::vector<std::string> out;
  if (package::Package::is_package(model.string())) {
    const auto opened = package::Package::open(model.string());
    for (auto& v : opened->entry(entry).outputs) out.push_back(v.name);
  } else {
    import::load_model(model, {}, nullptr, &out);
  }
  return out;
}

std::vector<std::string> input_names(const std::filesystem::path& model, const std::string& entry) {
  std::vector<std::string> out;
  if (package::Package::is_package(model.string())) {
    const auto opened = package::Package::open(model.string());
    const auto& entries = opened->manifest().entries;
    if (entries.size() == 1 || !entry.empty())
      for (auto& in : opened->entry(entry).inputs) out.push_back(in.name);
    return out;
  }
  return import::input_names(model);
}

CallTensors read_calls(const std::filesystem::path& path, const PlaceNames& names) {
  auto reader = import::SafetensorsReader::open(path);
  std::optional<std::vector<std::string>> known;
  CallTensors out;
  out.calls.resize(1);
  for (auto& record : reader.tensors()) {
    std::string_view key = record.name;
    int64_t call = 0, index = 0;
    if (size_t dot = key.find('.'); dot != std::string_view::npos && key.starts_with("call")) {
      int64_t number = 0;
      if (parse_number(key.substr(4, dot - 4), number) && number < kMaxCalls) {
        call = number;
        key.remove_prefix(dot + 1);
      }
    }
    if (!parse_number(key, index)) {
      if (!known) known = names ? names() : std::vector<std::string>();
      index = place_of(key, *known, path, record.name);
    }
    if (out.calls.size() <= static_cast<size_t>(call)) out.calls.resize(static_cast<size_t>(call) + 1);
    const bool fresh = out.calls[static_cast<size_t>(call)].emplace(index, copy_of(record)).second;
    TOROID_USER_CHECK(fresh, "{}: the tensor \"{}\" has the place {:03} of its call, which another one has too", path.string(), record.name,
                      index);
  }
  return out;
}

void write_outputs(const std::filesystem::path& path, const std::vector<Tensor>& outputs) {
  std::vector<import::SafetensorsItem> items;
  std::vector<Tensor> held;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    held.push_back(outputs[i].contiguous());
    const Tensor& t = held.back();
    size_t bytes = static_cast<size_t>(t.numel()) * size_of(t.dtype());
    items.push_back({fmt::format("{:03}", i), t.dtype(), t.sizes(), {t.raw_data(), bytes}});
  }
  import::write_safetensors(path, items);
}

}  // namespace toroid::cli

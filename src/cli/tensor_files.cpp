#include "cli/tensor_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "import/safetensors.h"

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

}  // namespace

CallTensors read_calls(const std::filesystem::path& path) {
  auto reader = import::SafetensorsReader::open(path);
  CallTensors out;
  out.calls.resize(1);
  for (auto& record : reader.tensors()) {
    std::string_view key = record.name;
    int64_t call = 0, index = 0;
    bool fits = true;
    if (size_t dot = key.find('.'); dot != std::string_view::npos) {
      fits = key.starts_with("call") && parse_number(key.substr(4, dot - 4), call);
      key.remove_prefix(dot + 1);
    }
    fits = fits && parse_number(key, index) && call < kMaxCalls;
    TOROID_USER_CHECK(fits, "{}: the tensor \"{}\" should be named by its place, \"000\", \"001\", ... or \"call1.000\" for a second call",
                      path.string(), record.name);
    if (out.calls.size() <= static_cast<size_t>(call)) out.calls.resize(static_cast<size_t>(call) + 1);
    out.calls[static_cast<size_t>(call)].emplace(index, copy_of(record));
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

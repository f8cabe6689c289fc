#include "package/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "exec/layout.h"
#include "exec/steps.h"
#include "graph/recipe.h"
#include "import/safetensors.h"
#include "package/zip_writer.h"

namespace toroid::package {
namespace {

constexpr char kZeros[kAlignment] = {};
constexpr size_t kLength = 8;  // of the number that the file begins with

// Names of the format; of a dtype that it lacks, the one of which two make an element.
std::pair<std::string_view, int64_t> format_dtype(DType t) {
  if (t == DType::C128) return {"F64", 2};
  constexpr std::pair<DType, std::string_view> kNames[] = {
      {DType::Bool, "BOOL"}, {DType::U8, "U8"},   {DType::I8, "I8"},   {DType::I16, "I16"}, {DType::I32, "I32"},
      {DType::I64, "I64"},   {DType::U16, "U16"}, {DType::U32, "U32"}, {DType::U64, "U64"}, {DType::F16, "F16"},
      {DType::BF16, "BF16"}, {DType::F32, "F32"}, {DType::F64, "F64"}, {DType::C64, "C64"},
  };
  for (auto& [dtype, name] : kNames)
    if (dtype == t) return {name, 1};
  fail<InternalError>("no name of {} in safetensors files", name_of(t));
}

size_t padding(size_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

}  // namespace

Layout layout_of(const Tensor& t) { return {t.dtype(), t.sizes(), t.strides()}; }

void WeightsWriter::add(const exec::Loadable& l) { add(l.plan, l.store); }

void WeightsWriter::add(const exec::Plan& plan, const exec::Store& store) {
  for (auto& in : plan.inputs)
    if (!in.constant.empty()) add(in.constant, in.name, store);
  for (auto& b : plan.buffers)
    if (!b.constant.empty()) add(b.constant, b.name, store);
  for (auto& step : plan.steps) {
    if (auto* c = std::get_if<exec::LibraryCall>(&step); c && !c->constant.empty()) add(c->constant, c->name, store);
    for (auto& block : exec::blocks_of(step)) add(*block.plan, store);
  }
}

void WeightsWriter::add(const std::string& constant, const std::string& name, const exec::Store& store) {
  if (!exec::ConstantStore::is_identity(constant)) add(constant, name, store.constants.at(constant));
}

void WeightsWriter::add(const std::string& constant, const std::string& name, const Tensor& tensor) {
  const Tensor t = moved(tensor, Device::cpu());
  if (const auto known = constants_.find(constant); known != constants_.end()) {
    const auto& bytes = items_.at(known->second.tensor).bytes;
    TOROID_USER_CHECK(!graph::recipe_of(t) || std::memcmp(bytes.data(), t.raw_data(), bytes.size()) == 0,
                      "two programs have weights of the same names with other elements, of which \"{}\" is made; a package whose weights "
                      "can be swapped has them once",
                      name);
    return;
  }
  std::string unique = name.empty() || name == "__metadata__" || name.starts_with("pad.") ? "constant" : name;
  for (int k = 2; items_.count(unique); ++k) unique = fmt::format("{}.{}", name.empty() ? "constant" : name, k);
  constants_[constant] = {unique, layout_of(t)};
  const auto bytes = static_cast<size_t>(exec::extent_of(t)) * size_of(t.dtype());
  items_[unique] = {unique, t, {reinterpret_cast<const char*>(t.raw_data()), bytes}};
}

// What fills whole lines comes first, so that few have to be padded.
std::vector<WeightsWriter::Item> WeightsWriter::in_order() const {
  std::vector<Item> out;
  for (auto& [name, item] : items_) out.push_back(item);
  std::stable_partition(out.begin(), out.end(), [](auto& i) { return padding(i.bytes.size()) == 0; });
  return out;
}

std::string WeightsWriter::head() const {
  std::string header = "{\"__metadata__\":{\"made_by\":\"toroid\"}";
  size_t at = 0, pads = 0;
  const auto append = [&](const std::string& name, std::string_view dtype, const std::vector<int64_t>& sizes, size_t bytes) {
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_string(name), dtype,
                          fmt::join(sizes, ","), at, at + bytes);
    at += bytes;
  };
  for (auto& item : in_order()) {
    const auto [dtype, parts] = format_dtype(item.tensor.dtype());
    const bool plain = parts == 1 && item.tensor.is_contiguous();
    append(item.name, dtype, plain ? item.tensor.sizes() : std::vector<int64_t>{exec::extent_of(item.tensor) * parts}, item.bytes.size());
    if (const size_t n = padding(item.bytes.size())) append(fmt::format("pad.{}", pads++), "U8", {static_cast<int64_t>(n)}, n);
  }
  header += '}';
  header.append(padding(kLength + header.size()), ' ');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), kLength) + header;
}

std::vector<std::string_view> WeightsWriter::contents() const {
  std::vector<std::string_view> out;
  for (auto& item : in_order()) out.push_back(item.bytes), out.emplace_back(kZeros, padding(item.bytes.size()));
  return out;
}

std::map<std::string, Tensor> read_weights(const Manifest& m, std::string_view weights, const std::shared_ptr<void>& owner,
                                           const std::string& source) {
  uint64_t length = 0;
  TOROID_USER_CHECK(weights.size() >= kLength, "{}: the weights end within their header", source);
  std::memcpy(&length, weights.data(), kLength);
  TOROID_USER_CHECK(length <= weights.size() - kLength, "{}: the weights end within their header of {} bytes", source, length);
  const std::string its = sha256(weights.substr(0, kLength + length));
  TOROID_USER_CHECK(its == m.weights_head, "{}: the header of {} has the SHA-256 {}, the manifest says {}; the file is damaged", source,
                    kWeights, its, m.weights_head);
  const auto bytes = std::as_bytes(std::span(weights.data(), weights.size()));
  const auto records = import::parse_safetensors(bytes, source);
  std::map<std::string_view, const import::TensorRecord*> by_name;
  for (auto& r : records) by_name[r.name] = &r;
  std::map<std::string, Tensor> out;
  for (auto& [name, c] : m.constants) {
    const auto at = by_name.find(c.tensor);
    TOROID_USER_CHECK(at != by_name.end(), "{}: the weights hold no tensor \"{}\"", source, c.tensor);
    const auto data = at->second->bytes();
    const auto refuse = [&](const char* what) {
      fail<UserError>("{}: {} of \"{}\" in the manifest do not fit the {} bytes of the tensor", source, what, c.tensor, data.size());
    };
    if (c.layout.sizes.size() != c.layout.strides.size()) refuse("the numbers of sizes and strides");
    int64_t last = 0;
    bool empty = false;
    for (size_t d = 0; d < c.layout.sizes.size(); ++d) {
      int64_t along = 0;
      if (c.layout.sizes[d] < 0 || c.layout.strides[d] < 0) refuse("negative sizes or strides");
      empty = empty || c.layout.sizes[d] == 0;
      if (c.layout.sizes[d] > 1 &&
          (__builtin_mul_overflow(c.layout.sizes[d] - 1, c.layout.strides[d], &along) || __builtin_add_overflow(last, along, &last)))
        refuse("sizes and strides");
    }
    const auto width = static_cast<int64_t>(size_of(c.layout.dtype)), held = static_cast<int64_t>(data.size());
    if (held % width != 0 || (empty ? 0 : last + 1) != held / width) refuse("dtype, sizes and strides");
    if (empty)
      out[name] = Tensor::empty(c.layout.sizes, c.layout.dtype);
    else  // nobody writes to it: programs have copies of what they write to
      out[name] = Tensor::from_blob(const_cast<std::byte*>(data.data()), c.layout.sizes, c.layout.dtype, c.layout.strides, owner);
  }
  return out;
}

}  // namespace toroid::package

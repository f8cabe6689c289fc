#include "package/weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/check.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "exec/steps.h"
#include "graph/recipe.h"
#include "import/safetensors.h"
#include "package/weight_files.h"
#include "package/zip_writer.h"
#include "tensor/layout.h"

namespace toroid::package {
namespace {

constexpr char kZeros[kAlignment] = {};
constexpr size_t kLength = 8;  // of the number that the file begins with
constexpr const char* kHeld = "tensor";
constexpr size_t kLeastBeside = size_t{64} << 10;  // bytes; smaller ones stay in the package, of which a copy costs little

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
                      "can be swapped has them once: give one of them another name (PackageOptions::weight_names of functions), or make a "
                      "package of each",
                      name);
    return;
  }
  std::string unique = name.empty() || name == "__metadata__" || name.starts_with("pad.") ? "constant" : name;
  for (int k = 2; items_.count(unique); ++k) unique = fmt::format("{}.{}", name.empty() ? "constant" : name, k);
  const auto bytes = static_cast<size_t>(toroid::extent_of(t)) * size_of(t.dtype());
  Item item{unique, t, {reinterpret_cast<const char*>(t.raw_data()), bytes}};
  if (beside_ && bytes >= kLeastBeside) item.file = add_file(item);
  constants_[constant] = {unique, layout_of(t), -1, item.file};
  items_[unique] = std::move(item);
}

// By contents alone: the name in it is the same for all.
int WeightsWriter::add_file(const Item& item) {
  const Item only{kHeld, item.tensor, item.bytes};
  WeightFile file;
  const std::string head = head_of({only});
  Sha256 hash;
  hash.add(head), file.bytes = head.size();
  for (auto& b : contents_of({only})) hash.add(b), file.bytes += b.size();
  file.sha256 = hash.finish(), file.head = sha256(head);
  const auto at = std::find_if(files_.begin(), files_.end(), [&](auto& f) { return f.sha256 == file.sha256; });
  const auto place = static_cast<int>(at - files_.begin());
  if (at == files_.end()) files_.push_back(std::move(file)), held_.push_back(only);
  return place;
}

void WeightsWriter::write_files(const std::filesystem::path& folder) const {
  if (files_.empty()) return;
  make_directories(folder);
  for (size_t i = 0; i < files_.size(); ++i) {
    const auto path = weight_path(folder, files_[i]);
    std::error_code none;
    if (std::filesystem::is_regular_file(path, none) && std::filesystem::file_size(path, none) == files_[i].bytes &&
        sha256(MappedFile(path).text()) == files_[i].sha256)
      continue;
    const std::string head = head_of({held_[i]});
    std::vector<std::string_view> bytes = contents_of({held_[i]});
    bytes.insert(bytes.begin(), head);
    write_file_atomic(path, bytes, false);
  }
}

// What fills whole lines comes first, so that few have to be padded.
std::vector<WeightsWriter::Item> WeightsWriter::in_order() const {
  std::vector<Item> out;
  for (auto& [name, item] : items_)
    if (item.file < 0) out.push_back(item);
  std::stable_partition(out.begin(), out.end(), [](auto& i) { return padding(i.bytes.size()) == 0; });
  return out;
}

std::string WeightsWriter::head() const { return head_of(in_order()); }
std::vector<std::string_view> WeightsWriter::contents() const { return contents_of(in_order()); }

std::string WeightsWriter::head_of(const std::vector<Item>& items) {
  std::string header = "{\"__metadata__\":{\"made_by\":\"toroid\"}";
  size_t at = 0, pads = 0;
  const auto append = [&](const std::string& name, std::string_view dtype, const std::vector<int64_t>& sizes, size_t bytes) {
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_string(name), dtype,
                          fmt::join(sizes, ","), at, at + bytes);
    at += bytes;
  };
  for (auto& item : items) {
    const auto [dtype, parts] = format_dtype(item.tensor.dtype());
    const bool plain = parts == 1 && item.tensor.is_contiguous();
    append(item.name, dtype, plain ? item.tensor.sizes() : std::vector<int64_t>{toroid::extent_of(item.tensor) * parts}, item.bytes.size());
    if (const size_t n = padding(item.bytes.size())) append(fmt::format("pad.{}", pads++), "U8", {static_cast<int64_t>(n)}, n);
  }
  header += '}';
  header.append(padding(kLength + header.size()), ' ');
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), kLength) + header;
}

std::vector<std::string_view> WeightsWriter::contents_of(const std::vector<Item>& items) {
  std::vector<std::string_view> out;
  for (auto& item : items) out.push_back(item.bytes), out.emplace_back(kZeros, padding(item.bytes.size()));
  return out;
}

namespace {

// The tensors in a file by name; head: the hash that its header must have.
class TensorFile {
 public:
  // what: of messages.
  TensorFile(std::string_view bytes, std::shared_ptr<void> owner, const std::string& head, const std::string& source, const char* what)
      : owner(std::move(owner)) {
    const std::string its = sha256(header_in(bytes, source));
    TOROID_USER_CHECK(its == head, "{}: the header of {} has the SHA-256 {}, the manifest says {}; the file is damaged", source, what, its,
                      head);
    records_ = import::parse_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), source);
    for (auto& r : records_) by_name_[r.name] = &r;
  }
  std::span<const std::byte> at(const std::string& name, const std::string& source) const {
    const auto found = by_name_.find(name);
    TOROID_USER_CHECK(found != by_name_.end(), "{}: the weights hold no tensor \"{}\"", source, name);
    return found->second->bytes();
  }
  const std::shared_ptr<void> owner;

 private:
  std::vector<import::TensorRecord> records_;
  std::map<std::string_view, const import::TensorRecord*> by_name_;
};

}  // namespace

std::string_view header_in(std::string_view bytes, const std::string& source) {
  uint64_t length = 0;
  TOROID_USER_CHECK(bytes.size() >= kLength, "{}: the weights end within their header", source);
  std::memcpy(&length, bytes.data(), kLength);
  TOROID_USER_CHECK(length <= bytes.size() - kLength, "{}: the weights end within their header of {} bytes", source, length);
  return bytes.substr(0, kLength + length);
}

std::map<std::string, Tensor> read_weights(const Manifest& m, std::string_view weights, const std::shared_ptr<void>& owner,
                                           const std::filesystem::path& folder, const std::string& source) {
  const TensorFile inside(weights, owner, m.weights_head, source, kWeights);
  std::deque<TensorFile> beside;
  for (auto& f : m.files) {
    const auto file = open_weight_file(folder, f, source, false);
    beside.emplace_back(file->text(), file, f.head, weight_path(folder, f).string(), "the weights");
  }
  std::map<std::string, Tensor> out;
  for (auto& [name, c] : m.constants) {
    const TensorFile& file = c.file < 0 ? inside : beside.at(static_cast<size_t>(c.file));
    const auto data = file.at(c.file < 0 ? c.tensor : kHeld, source);
    out[name] = import::laid_out(data, c.layout.dtype, c.layout.sizes, c.layout.strides, file.owner, c.tensor, source);
  }
  return out;
}

}  // namespace toroid::package

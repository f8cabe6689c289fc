#include "import/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "base/check.h"
#include "import/json.h"

namespace toroid::import {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;

struct DTypeRow {
  std::string_view name;
  DType dtype;
};
constexpr DTypeRow kDTypes[] = {{"F32", DType::F32}, {"F64", DType::F64}, {"F16", DType::F16},   {"BF16", DType::BF16}, {"I8", DType::I8},
                                {"I16", DType::I16}, {"I32", DType::I32}, {"I64", DType::I64},   {"U8", DType::U8},     {"U16", DType::U16},
                                {"U32", DType::U32}, {"U64", DType::U64}, {"BOOL", DType::Bool}, {"C64", DType::C64}};

DType read_dtype(const Json& value) {
  const std::string_view name = value.as_str();
  for (const DTypeRow& row : kDTypes)
    if (row.name == name) return row.dtype;
  value.refuse(fmt::format("dtype {} is not supported; expected one of F32 F64 F16 BF16 I8 I16 I32 I64 U8 U16 U32 U64 BOOL C64", name));
}

std::string_view safetensors_name(const SafetensorsItem& item) {
  for (const DTypeRow& row : kDTypes)
    if (row.dtype == item.dtype) return row.name;
  fail<UserError>("tensor \"{}\": safetensors files have no dtype {}", item.name, name_of(item.dtype));
}

// Bytes of a row-major tensor, nothing when it overflows.
std::optional<uint64_t> byte_size(std::span<const int64_t> sizes, DType dtype) {
  int64_t n = static_cast<int64_t>(size_of(dtype));
  bool zero = false;
  for (const int64_t s : sizes) {
    zero |= s == 0;
    if (s < 0 || (s > 0 && __builtin_mul_overflow(n, s, &n))) return std::nullopt;
  }
  return zero ? 0 : n;
}

TensorRecord read_record(std::string_view name, const Json& entry, std::span<const std::byte> data) {
  TensorRecord record;
  record.name = name;
  record.dtype = read_dtype(entry.at("dtype"));
  const Json shape = entry.at("shape");
  for (size_t d = 0; d < shape.size(); ++d) record.sizes.push_back(shape[d].as_int());
  const Json offsets = entry.at("data_offsets");
  if (offsets.size() != 2) offsets.refuse("expected [begin, end]");
  const int64_t begin = offsets[0].as_int(), end = offsets[1].as_int();
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > data.size())
    offsets.refuse(fmt::format("range {}..{} is outside the {} bytes of data; is the file complete?", begin, end, data.size()));
  const auto wanted = byte_size(record.sizes, record.dtype);
  if (!wanted || *wanted != static_cast<uint64_t>(end - begin))
    entry.refuse(
        fmt::format("{} bytes do not hold a {} tensor of sizes [{}]", end - begin, name_of(record.dtype), fmt::join(record.sizes, ", ")));
  record.strides = contiguous_strides(record.sizes);
  record.storage = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  return record;
}

// No hole, no overlap, nothing left over.
void check_tiling(const std::vector<TensorRecord>& records, std::span<const std::byte> data, std::string_view source) {
  const std::byte* at = data.data();
  for (const TensorRecord& r : records) {
    TOROID_USER_CHECK(r.storage.data() == at,
                      "{}: tensor \"{}\" begins at byte {} of the data, expected {}: tensors must follow each other "
                      "without holes or overlaps",
                      source, r.name, r.storage.data() - data.data(), at - data.data());
    at += r.storage.size();
  }
  TOROID_USER_CHECK(at == data.data() + data.size(), "{}: {} bytes after the last tensor belong to none", source,
                    data.data() + data.size() - at);
}

}  // namespace

std::vector<TensorRecord> parse_safetensors(std::span<const std::byte> file, std::string_view source, StringMap* metadata) {
  uint64_t header = 0;
  TOROID_USER_CHECK(file.size() >= 8, "{}: not a safetensors file: {} bytes are too few", source, file.size());
  std::memcpy(&header, file.data(), 8);
  // An archive, or before PyTorch 1.6 what Python's pickle writes.
  const bool is_saved = std::memcmp(file.data(), "PK\x03\x04", 4) == 0 || std::memcmp(file.data(), "\x80\x02\x8a\x0a", 4) == 0;
  TOROID_USER_CHECK(!is_saved,
                    "{}: a file as torch.save writes it, and not a safetensors file; write the weights in PyTorch by "
                    "safetensors.torch.save_file(net.state_dict(), path)",
                    source);
  TOROID_USER_CHECK(header <= kMaxHeader && header <= file.size() - 8,
                    "{}: not a safetensors file, or cut short: its header claims {} bytes, the file has {}", source, header, file.size());
  const auto doc = JsonDocument::parse({reinterpret_cast<const char*>(file.data()) + 8, header}, std::string(source));
  const Json root = doc.root();
  const auto data = file.subspan(8 + header);
  std::vector<TensorRecord> out;
  out.reserve(root.size());
  for (size_t i = 0; i < root.size(); ++i) {
    const Json entry = root.value(i);
    if (root.key(i) == "__metadata__") {
      for (size_t k = 0; metadata && k < entry.size(); ++k) metadata->emplace(entry.key(k), entry.value(k).as_str());
    } else {
      out.push_back(read_record(root.key(i), entry, data));
    }
  }
  std::sort(out.begin(), out.end(), [](const TensorRecord& a, const TensorRecord& b) {
    return std::pair(a.storage.data(), a.storage.size()) < std::pair(b.storage.data(), b.storage.size());
  });
  check_tiling(out, data, source);
  std::set<std::string_view> names;
  for (size_t i = 0; i < out.size(); ++i) {
    TOROID_USER_CHECK(names.insert(out[i].name).second, "{}: tensor \"{}\" is given twice", source, out[i].name);
    out[i].storage_id = i;
    check_record(out[i], source);
  }
  return out;
}

Tensor laid_out(std::span<const std::byte> bytes, DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                std::shared_ptr<const void> owner, const std::string& name, const std::string& source) {
  const auto refuse = [&](const char* what) {
    fail<UserError>("{}: {} of \"{}\" in the manifest do not fit the {} bytes of the tensor", source, what, name, bytes.size());
  };
  if (sizes.size() != strides.size()) refuse("the numbers of sizes and strides");
  int64_t last = 0;
  bool empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t along = 0;
    if (sizes[d] < 0 || strides[d] < 0) refuse("negative sizes or strides");
    empty = empty || sizes[d] == 0;
    if (sizes[d] > 1 && (__builtin_mul_overflow(sizes[d] - 1, strides[d], &along) || __builtin_add_overflow(last, along, &last)))
      refuse("sizes and strides");
  }
  const auto width = static_cast<int64_t>(size_of(dtype)), held = static_cast<int64_t>(bytes.size());
  if (held % width != 0 || (empty ? 0 : last + 1) != held / width) refuse("dtype, sizes and strides");
  if (empty) return Tensor::empty(sizes, dtype);
  // Nobody writes to it: programs have copies of what they write to.
  return Tensor::from_blob(const_cast<std::byte*>(bytes.data()), sizes, dtype, strides, std::const_pointer_cast<void>(std::move(owner)));
}

bool is_safetensors(const std::filesystem::path& path) {
  constexpr size_t kLength = 8;
  const std::string head = read_head(path, kLength + 1);
  if (head.size() <= kLength || head[kLength] != '{') return false;
  uint64_t header = 0;
  std::memcpy(&header, head.data(), kLength);
  return header <= std::filesystem::file_size(path) - kLength;
}

bool is_safetensors_index(const std::filesystem::path& path) {
  constexpr size_t kBlanks = 64;  // in front of it, at most
  const std::string head = read_head(path, kBlanks);
  const size_t first = head.find_first_not_of(" \n\r\t");
  return first != head.npos && head[first] == '{' && !is_safetensors(path);
}

SafetensorsReader SafetensorsReader::open(const std::filesystem::path& path) {
  SafetensorsReader reader;
  reader.source_ = path.string();
  if (std::filesystem::is_directory(path)) {
    const auto index = path / "model.safetensors.index.json", single = path / "model.safetensors";
    if (std::filesystem::exists(index)) {
      reader.add_shards(index);
    } else {
      TOROID_USER_CHECK(std::filesystem::exists(single), "{}: expected model.safetensors or model.safetensors.index.json in this folder",
                        path.string());
      reader.add_file(single);
    }
  } else if (path.extension() == ".json" || is_safetensors_index(path)) {
    reader.add_shards(path);
  } else {
    reader.add_file(path);
  }
  reader.build_index();
  return reader;
}

void SafetensorsReader::add_file(const std::filesystem::path& path) {
  files_.emplace_back(path);
  auto records = parse_safetensors(files_.back().span(), path.string(), files_.size() == 1 ? &metadata_ : nullptr);
  for (TensorRecord& record : records) {
    record.storage_id = tensors_.size();
    tensors_.push_back(std::move(record));
  }
}

void SafetensorsReader::add_shards(const std::filesystem::path& index) {
  const FileBytes file(index);
  const auto doc = JsonDocument::parse(file.text(), index.string());
  const Json map = doc.root().at("weight_map");
  std::set<std::string> shards;
  for (size_t i = 0; i < map.size(); ++i) {
    const std::string_view shard = map.value(i).as_str();
    if (shard.empty() || shard.find_first_of("/\\") != shard.npos || shard == "." || shard == "..")
      map.value(i).refuse(fmt::format("expected the name of a file in the same folder, found \"{}\"", shard));
    shards.emplace(shard);
  }
  for (const std::string& shard : shards) add_file(index.parent_path() / shard);
  build_index();
  for (size_t i = 0; i < map.size(); ++i)
    if (!find(map.key(i))) map.value(i).refuse(fmt::format("no shard holds tensor \"{}\"", map.key(i)));
}

void SafetensorsReader::build_index() {
  by_name_.clear();
  for (size_t i = 0; i < tensors_.size(); ++i)
    TOROID_USER_CHECK(by_name_.emplace(tensors_[i].name, i).second, "{}: tensor \"{}\" is given by two shards", source_, tensors_[i].name);
}

const TensorRecord* SafetensorsReader::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

const TensorRecord& SafetensorsReader::at(std::string_view name) const {
  const TensorRecord* record = find(name);
  TOROID_USER_CHECK(record, "{}: expected a tensor \"{}\", found none among {}", source_, name, tensors_.size());
  return *record;
}

namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  out += '"';
}

// What comes before the data, and the tensors in the order of their data.
struct Layout {
  std::string head;
  std::vector<const SafetensorsItem*> order;
};

Layout lay_out(std::span<const SafetensorsItem> items, const StringMap& metadata) {
  std::vector<const SafetensorsItem*> order;
  std::set<std::string_view> names;
  for (const SafetensorsItem& item : items) {
    TOROID_USER_CHECK(byte_size(item.sizes, item.dtype) == item.bytes.size(),
                      "tensor \"{}\": {} bytes do not hold a {} tensor of sizes [{}]", item.name, item.bytes.size(), name_of(item.dtype),
                      fmt::join(item.sizes, ", "));
    TOROID_USER_CHECK(item.name != "__metadata__" && names.insert(item.name).second, "cannot write two tensors named \"{}\"", item.name);
    order.push_back(&item);
  }
  std::sort(order.begin(), order.end(), [](const SafetensorsItem* a, const SafetensorsItem* b) {
    return std::pair(size_of(b->dtype), std::string_view(a->name)) < std::pair(size_of(a->dtype), std::string_view(b->name));
  });
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      append_quoted(header, key);
      header += ':';
      append_quoted(header, value);
      header += ',';
    }
    header.back() = '}';
    header += ',';
  }
  uint64_t at = 0;
  for (const SafetensorsItem* item : order) {
    append_quoted(header, item->name);
    header += fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},", safetensors_name(*item),
                          fmt::join(item->sizes, ","), at, at + item->bytes.size());
    at += item->bytes.size();
  }
  if (header.back() == ',') header.pop_back();
  header += '}';
  header.resize((header.size() + 7) & ~size_t{7}, ' ');
  TOROID_USER_CHECK(header.size() <= kMaxHeader, "a safetensors header of {} bytes is too long", header.size());
  const uint64_t length = header.size();
  return {std::string(reinterpret_cast<const char*>(&length), 8) + header, std::move(order)};
}

std::string_view text_of(const SafetensorsItem& item) { return {reinterpret_cast<const char*>(item.bytes.data()), item.bytes.size()}; }

}  // namespace

std::string format_safetensors(std::span<const SafetensorsItem> items, const StringMap& metadata) {
  auto [out, order] = lay_out(items, metadata);
  for (const SafetensorsItem* item : order) out += text_of(*item);
  return out;
}

void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsItem> items, const StringMap& metadata, bool sync) {
  const Layout layout = lay_out(items, metadata);
  std::vector<std::string_view> parts{layout.head};
  for (const SafetensorsItem* item : layout.order) parts.push_back(text_of(*item));
  write_file_atomic(path, parts, sync);
}

}  // namespace toroid::import

// safetensors files: reading in place (single files, sharded folders) and writing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/files.h"
#include "import/tensor_record.h"
#include "toroid/tensor.h"

namespace toroid::import {

using StringMap = std::map<std::string, std::string>;

// Reads one file image. The records, in the order of their data, are views into `file`. Throws UserError for a header that is not
// exact: offsets out of range, holes, overlaps, sizes that do not fit the dtype, a name given twice, a dtype Toroid does not have.
std::vector<TensorRecord> parse_safetensors(std::span<const std::byte> file, std::string_view source, StringMap* metadata = nullptr);

// The tensor of elements that lie so in `bytes`, which they fill from the first to the last one, and which `owner` keeps. name, source: for
// the UserError where they do not fit.
Tensor laid_out(std::span<const std::byte> bytes, DType dtype, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                std::shared_ptr<const void> owner, const std::string& name, const std::string& source);

// Whether a file begins as such files do, and as an index of shards does, whatever its name. UserError or EnvironmentError as read_head.
bool is_safetensors(const std::filesystem::path& path);
bool is_safetensors_index(const std::filesystem::path& path);

// All tensors of a checkpoint, in memory of its own; valid while this object lives.
class SafetensorsReader {
 public:
  // `path` is a safetensors file, an index (model.safetensors.index.json) with its shards beside it, both of any name, or a folder that
  // holds model.safetensors.index.json or model.safetensors.
  static SafetensorsReader open(const std::filesystem::path& path);

  std::span<const TensorRecord> tensors() const { return tensors_; }
  // nullptr when absent.
  const TensorRecord* find(std::string_view name) const;
  // UserError when absent.
  const TensorRecord& at(std::string_view name) const;
  // "__metadata__" of the file (of the first shard).
  const StringMap& metadata() const { return metadata_; }

 private:
  void add_file(const std::filesystem::path& path);
  void add_shards(const std::filesystem::path& index);
  void build_index();

  std::string source_;
  std::vector<FileBytes> files_;
  std::vector<TensorRecord> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // views of the records' names
  StringMap metadata_;
};

// A tensor to be written: row-major bytes.
struct SafetensorsItem {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;
  std::span<const std::byte> bytes;
};

// The file image: tensors in the order of the reference writer (falling element size, then name), padded header.
// UserError when bytes and sizes disagree, a name comes twice, or the format has no such dtype (c128).
std::string format_safetensors(std::span<const SafetensorsItem> items, const StringMap& metadata = {});

// Writes that image in one step, without making it. sync: it is on the disk before the file is replaced.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsItem> items, const StringMap& metadata = {},
                       bool sync = false);

}  // namespace toroid::import

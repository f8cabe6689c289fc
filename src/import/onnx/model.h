// What an ONNX file holds: plain structs that mirror its messages. Names and numbers are copies, contents of tensors views of the file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/files.h"
#include "import/onnx/wire.h"

namespace toroid::import::onnx {

// The format's numbers for element types, those that are named here or there.
enum ElementType : int32_t { kFloat = 1, kString = 8, kBool = 9, kUInt4 = 21, kInt4 = 22 };

// A tensor's bytes in another file, in the folder of the model.
struct ExternalData {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

struct TensorProto {
  std::string name;
  int32_t data_type = 0;
  std::vector<int64_t> dims;
  std::optional<std::span<const std::byte>> raw;  // little-endian, row-major
  // Or one of these.
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<int64_t> integers;  // int32_data, int64_data and uint64_data: bits of smaller types too
  size_t strings = 0;             // how many there are
  std::optional<ExternalData> external;
};

struct GraphProto;
struct Dim {
  std::optional<int64_t> value;
  std::string name;  // of a size that may change; empty: unknown
};
enum class TypeKind : uint8_t { None, Tensor, SparseTensor, Sequence, Map, Optional };  // Sequence: of tensors; Optional: of those two
struct ValueInfo {
  std::string name;
  TypeKind kind = TypeKind::None;
  int32_t element = 0;                   // of a tensor, or those within
  std::optional<std::vector<Dim>> dims;  // nullopt: not even the rank is known
};

struct Attribute {
  std::string name, ref;  // ref: the attribute of the function's call that stands here
  std::optional<float> f;
  std::optional<int64_t> i;
  std::optional<std::string> s;
  std::shared_ptr<const TensorProto> t;
  std::shared_ptr<const GraphProto> g;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  bool sparse = false, type = false;  // holds what Toroid has no use for
};

struct NodeProto {
  std::string op_type, domain, name, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;

  const Attribute* find(std::string_view attribute) const;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfo> inputs, outputs;
  size_t sparse_initializers = 0;
};

// Version of each domain's operators; the default domain is "".
using OpsetImports = std::map<std::string, int64_t>;

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;
  std::vector<NodeProto> nodes;
  OpsetImports opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string producer;
  OpsetImports opsets;
  GraphProto graph;
  std::vector<FunctionProto> functions;
};

// An opened model; valid while this object lives.
class ModelFile {
 public:
  // UserError for what is no ONNX model, damaged, or nested deeper than any real model.
  static std::shared_ptr<const ModelFile> open(const std::filesystem::path& path);

  const ModelProto& model() const { return model_; }
  const std::string& source() const { return source_; }
  std::span<const std::byte> image() const { return file_.span(); }
  // The bytes of another file beside the model. UserError unless it is a regular file within the model's folder that has them.
  std::span<const std::byte> external(const ExternalData& data, const std::string& tensor) const;
  // Those that were asked for up to now, each with its stamp from before it was read.
  std::vector<std::pair<std::filesystem::path, FileStamp>> external_files() const;

 private:
  std::string source_;
  std::filesystem::path folder_;
  FileBytes file_;
  ModelProto model_;
  struct Other {
    FileStamp stamp;  // made first: from before the bytes were read
    FileBytes bytes;
  };
  mutable std::map<std::string, Other> others_;
};

// One tensor, as the files input_0.pb of ONNX's test cases hold it.
TensorProto parse_tensor(WireReader in);

// "FLOAT", "INT4", ... of the format's number.
std::string element_name(int32_t data_type);

// True of the beginning of a file that may be an ONNX model: a message that starts with the format's version.
bool looks_like_onnx(std::string_view head);

}  // namespace toroid::import::onnx

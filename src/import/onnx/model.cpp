#include "import/onnx/model.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace toroid::import::onnx {
namespace {

constexpr int kMaxDepth = 64;  // sub-graphs in sub-graphs

std::string canonical_domain(std::string domain) { return domain == "ai.onnx" ? "" : domain; }

// Reads the messages that may hold each other. `depth` counts the graphs around.
class Parser {
 public:
  explicit Parser(const std::string& source) : source_(source) {}

  ModelProto model(WireReader in) {
    ModelProto out;
    while (in.next()) switch (in.field()) {
        case 1:
          out.ir_version = in.integer();
          break;
        case 2:
          out.producer = in.string();
          break;
        case 7:
          out.graph = graph(in.message(), 0);
          break;
        case 8:
          opset(in.message(), out.opsets);
          break;
        case 25:
          out.functions.push_back(function(in.message()));
          break;
      }
    return out;
  }

 private:
  void opset(WireReader in, OpsetImports& out) {
    std::string domain;
    int64_t version = 0;
    while (in.next()) {
      if (in.field() == 1) domain = canonical_domain(in.string());
      if (in.field() == 2) version = in.integer();
    }
    out[domain] = version;
  }

  FunctionProto function(WireReader in) {
    FunctionProto out;
    while (in.next()) switch (in.field()) {
        case 1:
          out.name = in.string();
          break;
        case 4:
          out.inputs.push_back(in.string());
          break;
        case 5:
          out.outputs.push_back(in.string());
          break;
        case 7:
          out.nodes.push_back(node(in.message(), 0));
          break;
        case 9:
          opset(in.message(), out.opsets);
          break;
        case 10:
          out.domain = canonical_domain(in.string());
          break;
        case 11:
          out.defaults.push_back(attribute(in.message(), 0));
          break;
        case 13:
          out.overload = in.string();
          break;
      }
    return out;
  }

  GraphProto graph(WireReader in, int depth) {
    TOROID_USER_CHECK(depth < kMaxDepth, "{}: graphs are nested more than {} deep", source_, kMaxDepth);
    GraphProto out;
    while (in.next()) switch (in.field()) {
        case 1:
          out.nodes.push_back(node(in.message(), depth));
          break;
        case 2:
          out.name = in.string();
          break;
        case 5:
          out.initializers.push_back(parse_tensor(in.message()));
          break;
        case 11:
          out.inputs.push_back(value_info(in.message()));
          break;
        case 12:
          out.outputs.push_back(value_info(in.message()));
          break;
        case 15:
          ++out.sparse_initializers;
          break;
      }
    return out;
  }

  NodeProto node(WireReader in, int depth) {
    NodeProto out;
    while (in.next()) switch (in.field()) {
        case 1:
          out.inputs.push_back(in.string());
          break;
        case 2:
          out.outputs.push_back(in.string());
          break;
        case 3:
          out.name = in.string();
          break;
        case 4:
          out.op_type = in.string();
          break;
        case 5:
          out.attributes.push_back(attribute(in.message(), depth));
          break;
        case 7:
          out.domain = canonical_domain(in.string());
          break;
        case 8:
          out.overload = in.string();
          break;
      }
    return out;
  }

  Attribute attribute(WireReader in, int depth) {
    Attribute out;
    while (in.next()) switch (in.field()) {
        case 1:
          out.name = in.string();
          break;
        case 2:
          out.f = in.real();
          break;
        case 3:
          out.i = in.integer();
          break;
        case 4:
          out.s = in.string();
          break;
        case 5:
          out.t = std::make_shared<TensorProto>(parse_tensor(in.message()));
          break;
        case 6:
          out.g = std::make_shared<GraphProto>(graph(in.message(), depth + 1));
          break;
        case 7:
          in.each_float([&](float v) { out.floats.push_back(v); });
          break;
        case 8:
          in.each_integer([&](int64_t v) { out.ints.push_back(v); });
          break;
        case 9:
          out.strings.push_back(in.string());
          break;
        case 21:
          out.ref = in.string();
          break;
        case 14:
        case 15:
          out.type = true;
          break;
        case 22:
        case 23:
          out.sparse = true;
          break;
      }
    return out;
  }

  ValueInfo value_info(WireReader in) {
    ValueInfo out;
    while (in.next()) {
      if (in.field() == 1) out.name = in.string();
      if (in.field() == 2) type(in.message(), out, 0);
    }
    return out;
  }

  void type(WireReader in, ValueInfo& out, int depth) {
    TOROID_USER_CHECK(depth < kMaxDepth, "{}: the type of \"{}\" is nested more than {} deep", source_, out.name, kMaxDepth);
    while (in.next()) switch (in.field()) {
        case 1:
          out.kind = TypeKind::Tensor;
          tensor_type(in.message(), out);
          break;
        case 4:
        case 9: {
          bool sequence = in.field() == 4;
          WireReader inner = in.message();
          while (inner.next())
            if (inner.field() == 1) type(inner.message(), out, depth + 1);
          if (out.kind == TypeKind::Tensor || (out.kind == TypeKind::Sequence && !sequence))
            out.kind = sequence ? TypeKind::Sequence : TypeKind::Optional;
          else
            out.kind = TypeKind::None;
          break;
        }
        case 5:
          out.kind = TypeKind::Map;
          break;
        case 8:
          out.kind = TypeKind::SparseTensor;
          break;
      }
  }

  void tensor_type(WireReader in, ValueInfo& out) {
    while (in.next()) {
      if (in.field() == 1) out.element = in.small_integer();
      if (in.field() != 2) continue;
      out.dims.emplace();
      WireReader shape = in.message();
      while (shape.next())
        if (shape.field() == 1) out.dims->push_back(dim(shape.message()));
    }
  }

  Dim dim(WireReader in) {
    Dim out;
    while (in.next()) {
      if (in.field() == 1) out = {in.integer(), ""};
      if (in.field() == 2) out = {std::nullopt, in.string()};
    }
    return out;
  }

  const std::string& source_;
};

// Decimal digits; nothing for anything else or what does not fit.
std::optional<uint64_t> decimal(std::string_view text) {
  if (text.empty() || text.size() > 19) return std::nullopt;
  uint64_t out = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    out = out * 10 + static_cast<uint64_t>(c - '0');
  }
  return out;
}

void external_entry(WireReader in, ExternalData& out) {
  std::string key, value;
  while (in.next()) {
    if (in.field() == 1) key = in.string();
    if (in.field() == 2) value = in.string();
  }
  if (key == "location") out.location = value;
  if (key != "offset" && key != "length") return;
  auto number = decimal(value);
  TOROID_USER_CHECK(number, "the {} of external data is \"{}\"; a decimal number is expected", key, value);
  if (key == "offset")
    out.offset = *number;
  else
    out.length = number;
}

}  // namespace

TensorProto parse_tensor(WireReader in) {
  TensorProto out;
  ExternalData external;
  bool is_external = false;
  while (in.next()) switch (in.field()) {
      case 1:
        in.each_integer([&](int64_t v) { out.dims.push_back(v); });
        break;
      case 2:
        out.data_type = in.small_integer();
        break;
      case 4:
        in.each_float([&](float v) { out.floats.push_back(v); });
        break;
      case 5:
      case 7:
      case 11:
        in.each_integer([&](int64_t v) { out.integers.push_back(v); });
        break;
      case 6:
        ++out.strings;
        break;
      case 8:
        out.name = in.string();
        break;
      case 9:
        out.raw = in.bytes();
        break;
      case 10:
        in.each_double([&](double v) { out.doubles.push_back(v); });
        break;
      case 13:
        external_entry(in.message(), external);
        break;
      case 14:
        is_external = in.integer() == 1;
        break;
    }
  if (is_external) out.external = std::move(external);
  return out;
}

const Attribute* NodeProto::find(std::string_view attribute) const {
  for (auto& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

std::string element_name(int32_t data_type) {
  static constexpr std::array<std::string_view, 27> kNames = {
      "UNDEFINED",      "FLOAT",      "UINT8",          "INT8",   "UINT16", "INT16",      "INT32",      "INT64",    "STRING",
      "BOOL",           "FLOAT16",    "DOUBLE",         "UINT32", "UINT64", "COMPLEX64",  "COMPLEX128", "BFLOAT16", "FLOAT8E4M3FN",
      "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",  "INT4",   "FLOAT4E2M1", "FLOAT8E8M0", "UINT2",    "INT2"};
  if (data_type < 0 || static_cast<size_t>(data_type) >= kNames.size()) return fmt::format("type {}", data_type);
  return std::string(kNames[static_cast<size_t>(data_type)]);
}

bool looks_like_onnx(std::string_view head) {
  // Field 1, a number: the version of the format, which all writers put first.
  return head.size() >= 2 && head[0] == '\x08' && head[1] > 0 && head[1] < 64;
}

std::shared_ptr<const ModelFile> ModelFile::open(const std::filesystem::path& path) {
  auto out = std::make_shared<ModelFile>();
  out->source_ = path.string();
  out->folder_ = path.parent_path().empty() ? "." : path.parent_path();
  out->file_ = FileBytes(path);
  out->model_ = Parser(out->source_).model({out->image(), out->image(), out->source_});
  TOROID_USER_CHECK(out->model_.ir_version > 0 && !out->model_.graph.outputs.empty(),
                    "{}: this is no ONNX model: it has no format version or no outputs", out->source_);
  return out;
}

std::vector<std::pair<std::filesystem::path, FileStamp>> ModelFile::external_files() const {
  std::vector<std::pair<std::filesystem::path, FileStamp>> out;
  for (auto& [location, other] : others_) out.emplace_back(std::filesystem::absolute(folder_ / location), other.stamp);
  return out;
}

std::span<const std::byte> ModelFile::external(const ExternalData& data, const std::string& tensor) const {
  namespace fs = std::filesystem;
  auto where = [&] { return fmt::format("{}: the external data \"{}\" of tensor \"{}\"", source_, data.location, tensor); };
  fs::path relative(data.location);
  bool plain = !data.location.empty() && relative.is_relative() &&
               std::none_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
  TOROID_USER_CHECK(plain, "{} must be named by a relative path within the model's folder", where());
  auto it = others_.find(data.location);
  if (it == others_.end()) {
    std::error_code error;
    fs::path folder = fs::canonical(folder_, error), file = fs::canonical(folder_ / relative, error);
    TOROID_USER_CHECK(!error && fs::is_regular_file(file), "{} is no file in {}", where(), folder_.string());
    // A link may lead out of the folder.
    TOROID_USER_CHECK(std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first == folder.end(),
                      "{} leads out of the model's folder, to {}", where(), file.string());
    it = others_.emplace(data.location, Other{stamp_of(file), FileBytes(file)}).first;
  }
  auto bytes = it->second.bytes.span();
  uint64_t length = data.length.value_or(data.offset <= bytes.size() ? bytes.size() - data.offset : 0);
  TOROID_USER_CHECK(data.offset <= bytes.size() && length <= bytes.size() - data.offset,
                    "{} should be {} bytes from byte {} on; the file has {}", where(), length, data.offset, bytes.size());
  return bytes.subspan(data.offset, length);
}

}  // namespace toroid::import::onnx

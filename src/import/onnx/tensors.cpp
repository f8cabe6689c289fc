#include "import/onnx/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "tensor/tensor_impl.h"

namespace toroid::import::onnx {
namespace {

constexpr size_t kAlignment = 16;

size_t byte_count(const TensorProto& proto, DType dtype, const std::string& what) {
  size_t count = size_of(dtype);
  bool empty = false;  // strides count as if no size were 0
  for (int64_t d : proto.dims) {
    TOROID_USER_CHECK(d >= 0, "{} has a negative size", what);
    empty = empty || d == 0;
    auto size = static_cast<size_t>(std::max<int64_t>(d, 1));
    TOROID_USER_CHECK(count <= (size_t{1} << 60) / size, "{} has more elements than any memory", what);
    count *= size;
  }
  return empty ? 0 : count;
}

template <class To, class From>
void convert(const std::vector<From>& from, std::byte* to) {
  for (const From& v : from) {
    To x = static_cast<To>(v);
    std::memcpy(to, &x, sizeof x);
    to += sizeof x;
  }
}

// Typed fields: floats, doubles, and whole numbers that also carry the bits of smaller types.
void fill(const TensorProto& proto, Tensor& out, const std::string& what) {
  DType t = out.dtype();
  auto need = [&](size_t count) {
    size_t parts = is_complex(t) ? 2 : 1;
    TOROID_USER_CHECK(count == static_cast<size_t>(out.numel()) * parts, "{} holds {} numbers, its sizes say {}", what, count,
                      static_cast<size_t>(out.numel()) * parts);
  };
  std::byte* to = out.raw_data();
  if (t == DType::F32 || t == DType::C64) return need(proto.floats.size()), convert<float>(proto.floats, to);
  if (t == DType::F64 || t == DType::C128) return need(proto.doubles.size()), convert<double>(proto.doubles, to);
  need(proto.integers.size());
  switch (size_of(t)) {
    case 1:
      return convert<uint8_t>(proto.integers, to);
    case 2:
      return convert<uint16_t>(proto.integers, to);
    case 4:
      return convert<uint32_t>(proto.integers, to);
    default:
      return convert<uint64_t>(proto.integers, to);
  }
}

// Two numbers in a byte, the first in the low half; a list of whole numbers has such a byte in each.
Tensor unpack_4bit(const TensorProto& proto, std::optional<std::span<const std::byte>> raw, const std::string& what) {
  bool is_signed = proto.data_type == kInt4;
  DType dtype = is_signed ? DType::I8 : DType::U8;
  size_t count = byte_count(proto, dtype, what), held = raw ? raw->size() : proto.integers.size();
  TOROID_USER_CHECK(held == (count + 1) / 2, "{} has {} bytes, its sizes say {}", what, held, (count + 1) / 2);
  Tensor out = Tensor::empty(proto.dims, dtype);
  for (size_t i = 0; i < count; ++i) {
    auto byte = raw ? static_cast<int>((*raw)[i / 2]) : static_cast<int>(proto.integers[i / 2] & 255);
    int v = (byte >> (i % 2 ? 4 : 0)) & 15;
    out.raw_data()[i] = static_cast<std::byte>(is_signed && v > 7 ? v - 16 : v);
  }
  return out;
}

Tensor load(const TensorProto& proto, std::optional<std::span<const std::byte>> raw, const std::string& what,
            std::shared_ptr<const void> owner) {
  if (is_4bit(proto.data_type)) return unpack_4bit(proto, raw, what);
  DType dtype = need_dtype(proto.data_type, what);
  size_t bytes = byte_count(proto, dtype, what);
  if (raw) {
    TOROID_USER_CHECK(raw->size() == bytes, "{} has {} bytes, its sizes and type say {}", what, raw->size(), bytes);
    bool in_place = owner && bytes > 0 && reinterpret_cast<uintptr_t>(raw->data()) % kAlignment == 0;
    // Never written: what a program overwrites is no initializer.
    if (in_place)
      return Tensor::from_blob(const_cast<std::byte*>(raw->data()), proto.dims, dtype, {}, std::const_pointer_cast<void>(owner));
    Tensor out = Tensor::empty(proto.dims, dtype);
    if (bytes) std::memcpy(out.raw_data(), raw->data(), bytes);
    return out;
  }
  // Typed fields are in memory already, so that a false size cannot ask for more than the file's.
  size_t held = proto.floats.size() + proto.doubles.size() + proto.integers.size();
  TOROID_USER_CHECK(bytes / size_of(dtype) <= held, "{} holds {} numbers, its sizes say {}", what, held, bytes / size_of(dtype));
  Tensor out = Tensor::empty(proto.dims, dtype);
  fill(proto, out, what);
  return out;
}

}  // namespace

const Tensor& tensor_of(const Item& item, std::string_view name) {
  auto* t = std::get_if<Tensor>(&item);
  TOROID_USER_CHECK(t && t->defined(), "\"{}\" is {}; a tensor is expected", name, t ? "an absent optional value" : "a sequence");
  return *t;
}

std::optional<DType> dtype_of(int32_t data_type) {
  using enum DType;
  static constexpr std::array<std::optional<DType>, 17> kTypes = {std::nullopt, F32, U8,  I8,  U16, I16, I32,  I64, std::nullopt,
                                                                  Bool,         F16, F64, U32, U64, C64, C128, BF16};
  if (data_type < 0 || static_cast<size_t>(data_type) >= kTypes.size()) return std::nullopt;
  return kTypes[static_cast<size_t>(data_type)];
}

DType need_dtype(int32_t data_type, std::string_view what) {
  auto t = dtype_of(data_type);
  TOROID_USER_CHECK(t,
                    "{} is of type {}, which Toroid does not have; it has FLOAT, DOUBLE, FLOAT16, BFLOAT16, BOOL, COMPLEX and whole "
                    "numbers of 8 to 64 bits",
                    what, element_name(data_type));
  return *t;
}

Tensor load_tensor(const TensorProto& proto, const std::shared_ptr<const ModelFile>& file) {
  std::string what = fmt::format("{}: the tensor \"{}\"", file->source(), proto.name);
  if (proto.external) return load(proto, file->external(*proto.external, proto.name), what, file);
  return load(proto, proto.raw, what, file);
}

Tensor copy_tensor(const TensorProto& proto, const std::string& source) {
  TOROID_USER_CHECK(!proto.external, "{}: a tensor outside of a model cannot have external data", source);
  return load(proto, proto.raw, fmt::format("{}: the tensor \"{}\"", source, proto.name), nullptr);
}

namespace {

constexpr uint32_t kTensors = 3, kOthers = 4, kLastOther = 7;  // fields of the messages for sequences and optional values

std::vector<Tensor> copy_sequence(WireReader in, const std::string& source) {
  std::vector<Tensor> out;
  while (in.next()) {
    if (in.field() == kTensors) out.push_back(copy_tensor(parse_tensor(in.message()), source));
    TOROID_USER_CHECK(in.field() < kOthers || in.field() > kLastOther, "{}: a sequence of something else than tensors", source);
  }
  return out;
}

}  // namespace

Item read_item_file(const std::filesystem::path& path, TypeKind kind) {
  FileBytes file(path);
  std::string source = path.string();
  WireReader in(file.span(), file.span(), source);
  if (kind == TypeKind::Sequence) return copy_sequence(in, source);
  if (kind != TypeKind::Optional) return copy_tensor(parse_tensor(in), source);
  constexpr uint32_t kSequence = 5;
  Item out;
  while (in.next()) {
    if (in.field() == kTensors) out = copy_tensor(parse_tensor(in.message()), source);
    if (in.field() == kSequence) out = copy_sequence(in.message(), source);
  }
  return out;
}

}  // namespace toroid::import::onnx

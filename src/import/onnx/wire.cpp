#include "import/onnx/wire.h"

#include <bit>
#include <cstring>

namespace toroid::import::onnx {

void WireReader::refuse(std::string_view what) const {
  fail<UserError>("{}: not a whole ONNX file: {} at byte {}", *source_, what, at_ - file_);
}

uint64_t WireReader::varint() {
  uint64_t out = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == end_) refuse("a number is cut off");
    auto byte = static_cast<uint64_t>(*at_++);
    out |= (byte & 0x7f) << shift;
    if (!(byte & 0x80)) return out;
  }
  refuse("a number has more than 64 bits");
}

void WireReader::take(void* to, size_t count) {
  if (static_cast<size_t>(end_ - at_) < count) refuse("a number is cut off");
  std::memcpy(to, at_, count);
  at_ += count;
}

bool WireReader::next() {
  if (at_ == end_) return false;
  uint64_t key = varint();
  field_ = static_cast<uint32_t>(key >> 3);
  if (field_ == 0 || key >> 3 > 0x1fffffff) refuse("a field has no number");
  type_ = static_cast<Type>(key & 7);
  bytes_ = {};
  switch (type_) {
    case Type::Varint:
      number_ = varint();
      return true;
    case Type::Fixed64:
      number_ = fixed<uint64_t>();
      return true;
    case Type::Fixed32:
      number_ = fixed<uint32_t>();
      return true;
    case Type::Bytes: {
      uint64_t count = varint();
      if (count > static_cast<uint64_t>(end_ - at_)) refuse("a field is longer than what holds it");
      bytes_ = {at_, static_cast<size_t>(count)};
      at_ += count;
      return true;
    }
  }
  refuse("a field is of a kind that protobuf does not have");
}

int64_t WireReader::integer() const {
  if (type_ != Type::Varint) refuse("a whole number is expected");
  return static_cast<int64_t>(number_);
}

float WireReader::real() const {
  if (type_ != Type::Fixed32) refuse("a number of 32 bits is expected");
  return std::bit_cast<float>(static_cast<uint32_t>(number_));
}

double WireReader::double_value() const {
  if (type_ != Type::Fixed64) refuse("a number of 64 bits is expected");
  return std::bit_cast<double>(number_);
}

std::span<const std::byte> WireReader::bytes() const {
  if (type_ != Type::Bytes) refuse("a text or a message is expected");
  return bytes_;
}

std::string_view WireReader::text() const {
  auto b = bytes();
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

}  // namespace toroid::import::onnx

// The protobuf wire format, read in place: fields of one message after another, without a schema and without copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"

namespace toroid::import::onnx {

// Reads one message. Everything that is malformed (a field longer than its message, a number of more than 64 bits, a wire type that
// the format no longer has) is a UserError that names the file and the byte.
class WireReader {
 public:
  // `file` is the image of the whole file, of which `message` is a part.
  WireReader(std::span<const std::byte> message, std::span<const std::byte> file, const std::string& source)
      : at_(message.data()), end_(message.data() + message.size()), file_(file.data()), whole_(file), source_(&source) {}

  // The next field, if there is one.
  bool next();
  uint32_t field() const { return field_; }

  // The field's value. UserError when it was written as something else.
  int64_t integer() const;
  int32_t small_integer() const { return static_cast<int32_t>(integer()); }
  float real() const;
  std::span<const std::byte> bytes() const;
  std::string_view text() const;
  std::string string() const { return std::string(text()); }
  WireReader message() const { return {bytes(), whole_, *source_}; }

  // Repeated numbers, packed in one field or one to a field: calls f for each that this field holds.
  template <class F>
  void each_integer(F&& f) {
    if (type_ != Type::Bytes) return f(integer());
    WireReader in = message();
    while (in.at_ != in.end_) f(static_cast<int64_t>(in.varint()));
  }
  template <class F>
  void each_float(F&& f) {
    if (type_ != Type::Bytes) return f(real());
    WireReader in = message();
    while (in.at_ != in.end_) f(in.fixed<float>());
  }
  template <class F>
  void each_double(F&& f) {
    WireReader in = type_ == Type::Bytes ? message() : *this;
    if (type_ != Type::Bytes) return f(double_value());
    while (in.at_ != in.end_) f(in.fixed<double>());
  }

 private:
  enum class Type : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

  [[noreturn]] void refuse(std::string_view what) const;
  uint64_t varint();
  template <class T>
  T fixed() {
    T out;
    take(&out, sizeof out);
    return out;
  }
  void take(void* to, size_t count);
  double double_value() const;

  const std::byte *at_, *end_, *file_;
  std::span<const std::byte> whole_;
  const std::string* source_;
  uint32_t field_ = 0;
  Type type_ = Type::Varint;
  uint64_t number_ = 0;  // of the field, unless it is bytes
  std::span<const std::byte> bytes_;
};

}  // namespace toroid::import::onnx

// Changes to files in the protobuf wire format that leave most of them well formed: fields are altered, left out, doubled and exchanged,
// and the lengths of the messages around them follow.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::fuzz {

class OnnxMutator {
 public:
  explicit OnnxMutator(uint32_t seed) : random_(seed) {}

  // One to four changes; of what is no message: any bytes.
  std::string operator()(std::string_view bytes) {
    Field root{2, 0, std::string(bytes), {}};
    split(root, 0);
    for (uint32_t k = 0; k <= random_() % 4; ++k) {
      std::vector<Field*> all;
      collect(root, all);
      if (!all.empty()) change(root, *all[random_() % all.size()], *all[random_() % all.size()]);
    }
    return text_of(root);
  }

 private:
  struct Field {
    uint64_t key = 0, number = 0;  // the key's lowest three bits: 0 a number, 2 bytes, 1 and 5 eight and four bytes
    std::string bytes;
    std::vector<Field> parts;  // of bytes that are a message
  };
  static constexpr int kDepth = 24;
  static constexpr size_t kMostFields = 4000;

  static bool varint(std::string_view& in, uint64_t& out) {
    out = 0;
    for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
      auto byte = static_cast<unsigned char>(in[0]);
      in.remove_prefix(1);
      out |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 128) return true;
    }
    return false;
  }

  static void append(std::string& out, uint64_t v) {
    for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
    out += static_cast<char>(v);
  }

  // Finds the parts if the bytes are a message.
  static void split(Field& f, int depth) {
    std::string_view in = f.bytes;
    std::vector<Field> parts;
    while (!in.empty()) {
      Field part;
      if (!varint(in, part.key) || part.key < 8 || part.key >> 3 > 30) return;
      size_t length = part.key % 8 == 1 ? 8 : part.key % 8 == 5 ? 4 : 0;
      if (part.key % 8 == 0 && !varint(in, part.number)) return;
      if (part.key % 8 == 2) {
        uint64_t n;
        if (!varint(in, n) || n > in.size()) return;
        length = n;
      } else if (part.key % 8 != 0 && length == 0) {
        return;
      }
      if (length > in.size()) return;
      part.bytes = in.substr(0, length);
      in.remove_prefix(length);
      if (part.key % 8 == 2 && depth < kDepth) split(part, depth + 1);
      parts.push_back(std::move(part));
    }
    if (parts.empty()) return;
    f.parts = std::move(parts);
    f.bytes.clear();
  }

  static std::string text_of(const Field& f) {
    if (f.parts.empty()) return f.bytes;
    std::string out;
    for (auto& part : f.parts) {
      append(out, part.key);
      if (part.key % 8 == 0) append(out, part.number);
      std::string inner = text_of(part);
      if (part.key % 8 == 2) append(out, inner.size());
      out += inner;
    }
    return out;
  }

  static void collect(Field& f, std::vector<Field*>& out) {
    for (auto& part : f.parts) {
      if (out.size() >= kMostFields) return;
      out.push_back(&part);
      collect(part, out);
    }
  }

  static Field* around(Field& f, const Field& part) {
    for (auto& p : f.parts) {
      if (&p == &part) return &f;
      if (Field* found = around(p, part)) return found;
    }
    return nullptr;
  }

  void change(Field& root, Field& at, Field& other) {
    constexpr int64_t kNumbers[] = {0, 1, -1, 2, 7, 9, 127, 128, 4096, 65536, INT32_MAX, INT32_MIN, int64_t{1} << 40, INT64_MAX, INT64_MIN};
    auto draw = [&](size_t n) { return static_cast<size_t>(random_() % n); };
    Field& owner = *around(root, at);
    const auto place = owner.parts.begin() + (&at - owner.parts.data());
    switch (draw(8)) {
      case 0:
        owner.parts.erase(place);
        return;
      case 1: {
        const Field copy = other;
        owner.parts.insert(place, copy);
        return;
      }
      case 2: {  // the contents of another field: names that are elsewhere, graphs in graphs
        const Field copy = other;
        if (copy.key % 8 == at.key % 8) at.number = copy.number, at.bytes = copy.bytes, at.parts = copy.parts;
        return;
      }
      case 3:
        std::swap(*place, owner.parts[draw(owner.parts.size())]);
        return;
      default:
        if (at.key % 8 == 0)
          at.number = draw(3) ? static_cast<uint64_t>(kNumbers[draw(std::size(kNumbers))]) : at.number + draw(5) - 2;
        else if (at.parts.empty() && !at.bytes.empty())
          at.bytes[draw(at.bytes.size())] = static_cast<char>(random_() >> 8);
        else if (!at.parts.empty())
          std::swap(at.parts[draw(at.parts.size())], at.parts[draw(at.parts.size())]);
    }
  }

  std::minstd_rand random_;
};

}  // namespace toroid::fuzz

// Writes ONNX models for tests: messages of the protobuf format, field by field.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "errors.h"

namespace toroid::import::onnx {

struct Message {
  std::string bytes;

  Message& number(int field, int64_t value) {
    varint(static_cast<uint64_t>(field) << 3);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& text(int field, const std::string& value) {
    varint(static_cast<uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes); }

 private:
  void varint(uint64_t v) {
    for (; v >= 128; v >>= 7) bytes += static_cast<char>(v | 128);
    bytes += static_cast<char>(v);
  }
};

// Sizes: numbers, or names of sizes that may change.
inline Message value_info(const std::string& name, const std::vector<std::string>& sizes, int element = 1) {
  Message shape, tensor;
  for (auto& s : sizes) {
    bool is_number = s[0] >= '0' && s[0] <= '9';
    shape.message(1, is_number ? Message().number(1, std::stoll(s)) : Message().text(2, s));
  }
  tensor.number(1, element).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

// Of any sizes.
inline Message value_of_any_sizes(const std::string& name, int element) {
  return Message().text(1, name).message(2, Message().message(1, Message().number(1, element)));
}

inline Message int_attribute(const std::string& name, int64_t value) { return Message().text(1, name).number(3, value).number(20, 2); }
inline Message ints_attribute(const std::string& name, const std::vector<int64_t>& values) {
  Message m = Message().text(1, name).number(20, 7);
  for (int64_t v : values) m.number(8, v);
  return m;
}
inline Message float_attribute(const std::string& name, float value) {
  Message m = Message().text(1, name).number(20, 1);
  m.bytes += '\x15';  // field 2, 32 bits
  m.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return m;
}
inline Message graph_attribute(const std::string& name, const Message& graph) {
  return Message().text(1, name).message(6, graph).number(20, 5);
}

inline Message node(const std::string& op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                    const std::vector<Message>& attributes = {}, const std::string& domain = "") {
  Message n;
  for (auto& i : inputs) n.text(1, i);
  for (auto& o : outputs) n.text(2, o);
  n.text(3, "the " + op).text(4, op);
  for (auto& a : attributes) n.message(5, a);
  return n.text(7, domain);
}

inline Message int64_tensor(const std::string& name, const std::vector<int64_t>& sizes, const std::vector<int64_t>& values) {
  Message t;
  for (int64_t s : sizes) t.number(1, s);
  t.number(2, 7);
  for (int64_t v : values) t.number(7, v);
  return t.text(8, name);
}

struct GraphParts {
  std::vector<Message> nodes, inputs, outputs, initializers;

  Message message() const {
    Message g;
    for (auto& n : nodes) g.message(1, n);
    g.text(2, "graph");
    for (auto& t : initializers) g.message(5, t);
    for (auto& i : inputs) g.message(11, i);
    for (auto& o : outputs) g.message(12, o);
    return g;
  }
  Message model(int64_t version, const std::vector<Message>& functions = {}) const {
    Message m;
    m.number(1, 8).message(7, message()).message(8, Message().text(1, "").number(2, version));
    for (const char* domain : {"local", "com.microsoft"}) m.message(8, Message().text(1, domain).number(2, 1));
    for (auto& f : functions) m.message(25, f);
    return m;
  }
};

// A folder with the file model.onnx that disappears with this object.
class ModelFolder {
 public:
  explicit ModelFolder(const Message& model) : ModelFolder(model.bytes) {}
  explicit ModelFolder(const std::string& bytes) : path_(make_temp_dir()) { write("model.onnx", bytes); }
  ~ModelFolder() { std::filesystem::remove_all(path_); }
  ModelFolder(const ModelFolder&) = delete;

  void write(const std::string& name, const std::string& bytes) const { write_file_atomic(path_ / name, bytes); }
  std::filesystem::path model() const { return path_ / "model.onnx"; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Whether f() throws a UserError whose text holds all of the parts.
template <class F, class... Parts>
testing::AssertionResult refuses(F&& f, const Parts&... parts) {
  std::string text = test::user_error(f);
  for (const std::string& part : {std::string(parts)...})
    if (!test::contains(text, part)) return testing::AssertionFailure() << "got: " << text << "\nexpected in it: " << part;
  return testing::AssertionSuccess();
}

}  // namespace toroid::import::onnx

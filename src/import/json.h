// A small, fast JSON reader: text to an immutable tree, with typed access whose errors name the path of the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace toroid::import {

enum class JsonKind : uint8_t { Null, Bool, Int, Double, String, Array, Object };

struct JsonMember;
struct JsonTree;

// One node of the tree. Only Json looks inside.
struct JsonNode {
  JsonKind kind = JsonKind::Null;
  uint32_t count = 0;  // length of a string, number of items or members
  union {
    bool boolean;
    int64_t integer;
    double real;
    const char* text;
    const JsonNode* items;
    const JsonMember* members;
  };
};

struct JsonMember {
  std::string_view key;
  JsonNode value;
};

// A handle to one value of a JsonDocument: two pointers, copied freely, valid while the document (and its text) lives.
// Every typed access throws UserError with source, path, expected and found kind when the value is of another kind.
class Json {
 public:
  Json(const JsonTree* tree, const JsonNode* node) : tree_(tree), node_(node) {}

  JsonKind kind() const { return node_->kind; }
  bool is_null() const { return kind() == JsonKind::Null; }
  bool is_string() const { return kind() == JsonKind::String; }
  bool is_object() const { return kind() == JsonKind::Object; }

  bool as_bool() const;
  // A number written without fraction and exponent that fits int64.
  int64_t as_int() const;
  // Any number, or one of the strings "Infinity", "-Infinity", "NaN" (PyTorch writes non-finite floats so).
  double as_double() const;
  std::string_view as_str() const;

  // Items of an array or members of an object.
  size_t size() const;
  // Item i of an array.
  Json operator[](size_t i) const;
  // Member i of an object, in the order of the text.
  std::string_view key(size_t i) const;
  Json value(size_t i) const;
  // Member of an object by key (the first such), an empty pointer-like handle when absent.
  class Found;
  Found find(std::string_view key) const;
  // The same, UserError when absent.
  Json at(std::string_view key) const;

  // Where this value stands: "$.graph.nodes[3].target". Slow: it searches the tree; meant for messages.
  std::string path() const;
  // Name of the text given to parse().
  const std::string& source() const;
  // Throws UserError "<source>: <path>: <what>".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  void expect(JsonKind kind) const;

  const JsonTree* tree_;
  const JsonNode* node_;
};

// The result of Json::find.
class Json::Found {
 public:
  Found() : value_(nullptr, nullptr), present_(false) {}
  explicit Found(Json value) : value_(value), present_(true) {}
  explicit operator bool() const { return present_; }
  const Json& operator*() const { return value_; }
  const Json* operator->() const { return &value_; }

 private:
  Json value_;
  bool present_;
};

// Owner of a parsed tree.
class JsonDocument {
 public:
  // Parses the whole text. Also takes the bare tokens Infinity, -Infinity and NaN. `source` names the text in messages.
  // Strings without escapes are views into `text`, which must outlive the document. Refuses with line and column:
  // bad syntax, more than 256 levels, text of 1 GiB or more.
  static JsonDocument parse(std::string_view text, std::string source);

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  Json root() const;

 private:
  explicit JsonDocument(std::unique_ptr<JsonTree> tree);
  std::unique_ptr<JsonTree> tree_;
};

}  // namespace toroid::import

// The pickle subset that torch.save writes, read into a tree of values. Nothing named in the file is ever looked up or executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toroid::import {

enum class PickleKind : uint8_t { None, Bool, Int, Float, String, Tuple, List, Dict, Global, Call, Persistent };

// One object. Objects are shared and may form cycles (a list that holds itself): whoever walks them must bound the depth.
struct PickleValue {
  using Pair = std::pair<const PickleValue*, const PickleValue*>;

  PickleKind kind = PickleKind::None;
  int64_t integer = 0;                    // Bool, Int
  double real = 0;                        // Float
  std::string_view text;                  // String; module of a Global
  std::string_view name;                  // name inside the module of a Global
  std::vector<const PickleValue*> items;  // Tuple, List; Call: {callee, arguments}, then what was appended; Persistent: {id}
  std::vector<Pair> pairs;                // Dict; what was set on a Call (an OrderedDict is a Call)

  bool is_global(std::string_view module, std::string_view global) const {
    return kind == PickleKind::Global && text == module && name == global;
  }
  // A Call of this global.
  bool is_call_of(std::string_view module, std::string_view global) const {
    return kind == PickleKind::Call && items[0]->is_global(module, global);
  }
};

// Owner of the objects; strings are views into the text given to parse().
class Pickle {
 public:
  // Throws UserError for an opcode outside the subset, a damaged stream, or one that makes more than 2^22 objects.
  static Pickle parse(std::span<const std::byte> bytes, std::string source);

  const PickleValue& root() const { return *root_; }
  const std::string& source() const { return source_; }

 private:
  friend class PickleMachine;
  std::string source_;
  std::deque<PickleValue> values_;  // addresses stay
  const PickleValue* root_ = nullptr;
};

}  // namespace toroid::import

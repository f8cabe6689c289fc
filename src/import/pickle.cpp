#include "import/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/check.h"

namespace toroid::import {

// The stack machine of the format, with calls recorded instead of made.
class PickleMachine {
 public:
  PickleMachine(Pickle& out, std::span<const std::byte> bytes) : out_(out), bytes_(bytes) {}

  void run() {
    while (step()) {
    }
    out_.root_ = pop();
  }

 private:
  static constexpr size_t kMaxObjects = size_t{1} << 22;

  [[noreturn]] void refuse(std::string_view what) const { fail<UserError>("{}: pickle, byte {}: {}", out_.source_, at_, what); }

  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) refuse("the stream ends too early");
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return out;
  }

  template <class T>
  T number() {
    T out;
    std::memcpy(&out, take(sizeof(T)).data(), sizeof(T));
    return out;
  }

  std::string_view line() {
    const auto* begin = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const auto* end = static_cast<const char*>(bytes_.size() == at_ ? nullptr : std::memchr(begin, '\n', bytes_.size() - at_));
    if (!end) refuse("the stream ends inside a name");
    const std::string_view out = take(static_cast<size_t>(end - begin));
    take(1);
    return out;
  }

  PickleValue& push(PickleKind kind) {
    if (out_.values_.size() >= kMaxObjects) refuse("more than 2^22 objects");
    PickleValue& v = out_.values_.emplace_back();
    v.kind = kind;
    stack_.push_back(&v);
    return v;
  }

  void push_int(int64_t i, PickleKind kind = PickleKind::Int) { push(kind).integer = i; }

  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleValue* pop() {
    if (stack_.size() <= floor()) refuse("a value is taken from an empty stack");
    PickleValue* v = stack_.back();
    stack_.pop_back();
    return v;
  }

  PickleValue* top() {
    if (stack_.size() <= floor()) refuse("a value is read from an empty stack");
    return stack_.back();
  }

  // Values above the last mark, which is removed.
  std::vector<const PickleValue*> pop_mark() {
    if (marks_.empty()) refuse("no mark on the stack");
    std::vector<const PickleValue*> out(stack_.begin() + static_cast<ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }

  void push_tuple(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push(PickleKind::Tuple).items = std::move(items);
  }

  void append(const std::vector<const PickleValue*>& items) {
    PickleValue* list = top();
    if (list->kind != PickleKind::List && list->kind != PickleKind::Call) refuse("items are appended to something that is no list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<const PickleValue*>& flat) {
    PickleValue* dict = top();
    if (dict->kind != PickleKind::Dict && dict->kind != PickleKind::Call) refuse("items are set on something that is no dict");
    if (flat.size() % 2 != 0) refuse("a key without value");
    for (size_t i = 0; i < flat.size(); i += 2) dict->pairs.emplace_back(flat[i], flat[i + 1]);
  }

  void reduce() {
    const PickleValue* arguments = pop();
    const PickleValue* callee = pop();
    if (arguments->kind != PickleKind::Tuple) refuse("a call whose arguments are no tuple");
    push(PickleKind::Call).items = {callee, arguments};
  }

  void long1() {
    const std::string_view digits = take(number<uint8_t>());
    if (digits.size() > 8) refuse("an integer of more than 64 bits");
    uint64_t value = 0;
    for (size_t i = digits.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(digits[i]);
    const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
    if (negative && digits.size() < 8) value |= ~uint64_t{0} << (8 * digits.size());
    push_int(static_cast<int64_t>(value));
  }

  void real() {
    uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
    push(PickleKind::Float).real = std::bit_cast<double>(bits);
  }

  void get(uint32_t slot) {
    const auto at = memo_.find(slot);
    if (at == memo_.end()) refuse(fmt::format("memo slot {} is empty", slot));
    stack_.push_back(at->second);
  }

  // False at the end of the program.
  bool step() {
    const auto op = static_cast<uint8_t>(take(1)[0]);
    switch (op) {
      case 0x80:
        protocol();
        break;
      case '}':
        push(PickleKind::Dict);
        break;
      case ']':
        push(PickleKind::List);
        break;
      case ')':
        push(PickleKind::Tuple);
        break;
      case 'N':
        push(PickleKind::None);
        break;
      case '(':
        marks_.push_back(stack_.size());
        break;
      case 'q':
        memo_[number<uint8_t>()] = top();
        break;
      case 'r':
        memo_[number<uint32_t>()] = top();
        break;
      case 'h':
        get(number<uint8_t>());
        break;
      case 'j':
        get(number<uint32_t>());
        break;
      case 'X': {
        const std::string_view text = take(number<uint32_t>());
        push(PickleKind::String).text = text;
        break;
      }
      case 'c': {
        const std::string_view module = line(), name = line();
        PickleValue& global = push(PickleKind::Global);
        global.text = module;
        global.name = name;
        break;
      }
      case 'J':
        push_int(number<int32_t>());
        break;
      case 'K':
        push_int(number<uint8_t>());
        break;
      case 'M':
        push_int(number<uint16_t>());
        break;
      case 0x8a:
        long1();
        break;
      case 'G':
        real();
        break;
      case 0x88:
        push_int(1, PickleKind::Bool);
        break;
      case 0x89:
        push_int(0, PickleKind::Bool);
        break;
      case 't': {
        auto items = pop_mark();
        push(PickleKind::Tuple).items = std::move(items);
        break;
      }
      case 0x85:
        push_tuple(1);
        break;
      case 0x86:
        push_tuple(2);
        break;
      case 0x87:
        push_tuple(3);
        break;
      case 'a': {
        const PickleValue* item = pop();
        append({item});
        break;
      }
      case 'e':
        append(pop_mark());
        break;
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        set_items({key, value});
        break;
      }
      case 'u':
        set_items(pop_mark());
        break;
      case 'Q': {
        const PickleValue* id = pop();
        push(PickleKind::Persistent).items = {id};
        break;
      }
      case 'R':
        reduce();
        break;
      case 'b':  // state set on an object (such as an OrderedDict's _metadata) holds no tensor data
        pop();
        if (top()->kind != PickleKind::Call) refuse("state is set on something that was not built by a call");
        break;
      case '.':
        return false;
      default:
        refuse(fmt::format("opcode 0x{:02x} is not among those that torch.save writes for tensors", op));
    }
    return true;
  }

  void protocol() {
    const int version = number<uint8_t>();
    if (version < 2 || version > 5) refuse(fmt::format("pickle protocol {} is not supported; expected 2", version));
  }

  Pickle& out_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
};

Pickle Pickle::parse(std::span<const std::byte> bytes, std::string source) {
  Pickle out;
  out.source_ = std::move(source);
  PickleMachine(out, bytes).run();
  return out;
}

}  // namespace toroid::import

#include "import/json.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.h"

namespace toroid::import {

// Nodes, members and unescaped strings live in blocks that are freed together.
struct JsonTree {
  std::string source;
  JsonNode root;
  std::vector<std::unique_ptr<std::byte[]>> blocks;
  std::byte* next = nullptr;
  size_t left = 0;

  void* allocate(size_t bytes) {
    constexpr size_t kBlock = size_t{64} << 10;
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > left) {
      const size_t size = bytes > kBlock / 4 ? bytes : kBlock;
      blocks.push_back(std::unique_ptr<std::byte[]>(new std::byte[size]));
      if (size != kBlock) return blocks.back().get();
      next = blocks.back().get();
      left = size;
    }
    void* out = next;
    next += bytes;
    left -= bytes;
    return out;
  }

  template <class T>
  const T* keep(const T* first, size_t count) {
    if (count == 0) return nullptr;
    void* out = allocate(count * sizeof(T));
    std::memcpy(out, static_cast<const void*>(first), count * sizeof(T));
    return static_cast<const T*>(out);
  }
};

namespace {

constexpr int kMaxDepth = 256;
constexpr size_t kMaxText = size_t{1} << 30;

constexpr std::string_view kKindNames[] = {"null", "a boolean", "an integer", "a real number", "a string", "an array", "an object"};

std::string_view name_of(JsonKind kind) { return kKindNames[static_cast<int>(kind)]; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Parser {
 public:
  Parser(JsonTree& tree, std::string_view text) : tree_(tree), begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  void run() {
    skip_space();
    tree_.root = value(0);
    skip_space();
    if (at_ != end_) refuse("the end of the text");
  }

 private:
  [[noreturn]] void refuse(std::string_view expected) {
    size_t line = 1;
    const char* start = begin_;
    for (const char* p = begin_; p < at_; ++p) {
      if (*p != '\n') continue;
      ++line;
      start = p + 1;
    }
    std::string found = "the end of the text";
    if (at_ < end_) {
      const auto c = static_cast<unsigned char>(*at_);
      found = c >= 0x20 && c < 0x7f ? fmt::format("'{}'", *at_) : fmt::format("byte 0x{:02x}", c);
    }
    fail<UserError>("{}: invalid JSON at line {}, column {}: expected {}, found {}", tree_.source, line, at_ - start + 1, expected, found);
  }

  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }

  bool take(char c) {
    if (at_ >= end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    if (static_cast<size_t>(end_ - at_) < word.size() || std::string_view(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  JsonNode value(int depth) {
    if (depth > kMaxDepth) refuse("at most 256 levels of nesting");
    JsonNode node;
    switch (at_ < end_ ? *at_ : '\0') {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        const std::string_view text = string();
        node.kind = JsonKind::String;
        node.count = static_cast<uint32_t>(text.size());
        node.text = text.data();
        return node;
      }
      case 't':
        if (take_word("true")) return boolean(true);
        break;
      case 'f':
        if (take_word("false")) return boolean(false);
        break;
      case 'n':
        if (take_word("null")) {
          node.integer = 0;
          return node;
        }
        break;
      case 'I':
        if (take_word("Infinity")) return real(std::numeric_limits<double>::infinity());
        break;
      case 'N':
        if (take_word("NaN")) return real(std::numeric_limits<double>::quiet_NaN());
        break;
      default:
        if (at_ < end_ && (*at_ == '-' || is_digit(*at_))) return number();
    }
    refuse("a value");
  }

  static JsonNode boolean(bool b) {
    JsonNode node;
    node.kind = JsonKind::Bool;
    node.boolean = b;
    return node;
  }

  static JsonNode real(double d) {
    JsonNode node;
    node.kind = JsonKind::Double;
    node.real = d;
    return node;
  }

  // Children are gathered on a stack shared by all levels and copied to their final place when the container closes.
  JsonNode array(int depth) {
    ++at_;
    const size_t base = items_.size();
    skip_space();
    if (!take(']')) {
      do {
        skip_space();
        const JsonNode item = value(depth + 1);
        items_.push_back(item);
        skip_space();
      } while (take(','));
      if (!take(']')) refuse("',' or ']'");
    }
    JsonNode node;
    node.kind = JsonKind::Array;
    node.count = static_cast<uint32_t>(items_.size() - base);
    node.items = tree_.keep(items_.data() + base, node.count);
    items_.resize(base);
    return node;
  }

  JsonNode object(int depth) {
    ++at_;
    const size_t base = members_.size();
    skip_space();
    if (!take('}')) {
      do {
        skip_space();
        if (at_ >= end_ || *at_ != '"') refuse("a member name in quotes");
        const std::string_view key = string();
        skip_space();
        if (!take(':')) refuse("':'");
        skip_space();
        const JsonNode child = value(depth + 1);
        members_.push_back({key, child});
        skip_space();
      } while (take(','));
      if (!take('}')) refuse("',' or '}'");
    }
    JsonNode node;
    node.kind = JsonKind::Object;
    node.count = static_cast<uint32_t>(members_.size() - base);
    node.members = tree_.keep(members_.data() + base, node.count);
    members_.resize(base);
    return node;
  }

  JsonNode number() {
    const char* start = at_;
    take('-');
    if (take_word("Infinity")) return real(-std::numeric_limits<double>::infinity());
    bool whole = true;
    if (at_ >= end_ || !is_digit(*at_)) refuse("a digit");
    if (!take('0')) digits();
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      digits();
    }
    if (whole) {
      JsonNode node;
      node.kind = JsonKind::Int;
      if (std::from_chars(start, at_, node.integer).ec == std::errc()) return node;
    }
    double d = 0;
    if (std::from_chars(start, at_, d).ec != std::errc()) {
      at_ = start;
      refuse("a number in the range of float64");
    }
    return real(d);
  }

  void digits() {
    if (at_ >= end_ || !is_digit(*at_)) refuse("a digit");
    while (at_ < end_ && is_digit(*at_)) ++at_;
  }

  std::string_view string() {
    const char* start = ++at_;
    scan_plain();
    if (*at_ == '"') return {start, static_cast<size_t>(at_++ - start)};
    scratch_.clear();
    for (;;) {
      scratch_.append(start, at_);
      if (*at_ == '"') break;
      ++at_;
      escape();
      start = at_;
      scan_plain();
    }
    ++at_;
    return {tree_.keep(scratch_.data(), scratch_.size()), scratch_.size()};
  }

  // Stops at a quote or a backslash.
  void scan_plain() {
    while (at_ < end_ && *at_ != '"' && *at_ != '\\') {
      if (static_cast<unsigned char>(*at_) < 0x20) refuse("no control character inside a string");
      ++at_;
    }
    if (at_ >= end_) refuse("'\"' at the end of the string");
  }

  void escape() {
    const char c = at_ < end_ ? *at_ : '\0';
    switch (c) {
      case '"':
      case '\\':
      case '/':
        scratch_ += c;
        break;
      case 'b':
        scratch_ += '\b';
        break;
      case 'f':
        scratch_ += '\f';
        break;
      case 'n':
        scratch_ += '\n';
        break;
      case 'r':
        scratch_ += '\r';
        break;
      case 't':
        scratch_ += '\t';
        break;
      case 'u':
        ++at_;
        return unicode();
      default:
        refuse("one of \"\\/bfnrtu after a backslash");
    }
    ++at_;
  }

  uint32_t hex4() {
    uint32_t code = 0;
    if (end_ - at_ < 4) refuse("four hexadecimal digits");
    const auto r = std::from_chars(at_, at_ + 4, code, 16);
    if (r.ptr != at_ + 4 || *at_ == '-') refuse("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  // A lone surrogate cannot be written as UTF-8: it becomes U+FFFD, as most readers do.
  void unicode() {
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u') {
      const char* back = at_;
      at_ += 2;
      const uint32_t low = hex4();
      if (low >= 0xDC00 && low < 0xE000)
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      else
        at_ = back;
    }
    if (code >= 0xD800 && code < 0xE000) code = 0xFFFD;
    const auto put = [&](uint32_t byte) { scratch_ += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6);
      put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12);
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
      put(0x80 | (code >> 6 & 0x3F));
      put(0x80 | (code & 0x3F));
    }
  }

  JsonTree& tree_;
  const char* begin_;
  const char* at_;
  const char* end_;
  std::vector<JsonNode> items_;
  std::vector<JsonMember> members_;
  std::string scratch_;
};

bool find_path(const JsonNode& at, const JsonNode* wanted, std::string& path) {
  if (&at == wanted) return true;
  const size_t length = path.size();
  for (size_t i = 0; i < at.count && (at.kind == JsonKind::Array || at.kind == JsonKind::Object); ++i) {
    const bool in_array = at.kind == JsonKind::Array;
    path += in_array ? fmt::format("[{}]", i) : fmt::format(".{}", at.members[i].key.substr(0, 200));
    if (find_path(in_array ? at.items[i] : at.members[i].value, wanted, path)) return true;
    path.resize(length);
  }
  return false;
}

}  // namespace

std::string Json::path() const {
  std::string out = "$";
  find_path(tree_->root, node_, out);
  return out;
}

const std::string& Json::source() const { return tree_->source; }

void Json::refuse(std::string_view what) const { fail<UserError>("{}: {}: {}", source(), path(), what); }

void Json::expect(JsonKind wanted) const {
  if (kind() != wanted) refuse(fmt::format("expected {}, found {}", name_of(wanted), name_of(kind())));
}

bool Json::as_bool() const {
  expect(JsonKind::Bool);
  return node_->boolean;
}

int64_t Json::as_int() const {
  expect(JsonKind::Int);
  return node_->integer;
}

double Json::as_double() const {
  if (kind() == JsonKind::Int) return static_cast<double>(node_->integer);
  if (kind() == JsonKind::String) {
    const std::string_view text = as_str();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  }
  expect(JsonKind::Double);
  return node_->real;
}

std::string_view Json::as_str() const {
  expect(JsonKind::String);
  return {node_->text, node_->count};
}

size_t Json::size() const {
  if (!is_object()) expect(JsonKind::Array);
  return node_->count;
}

Json Json::operator[](size_t i) const {
  expect(JsonKind::Array);
  if (i >= node_->count) refuse(fmt::format("expected more than {} items, found {}", i, node_->count));
  return {tree_, &node_->items[i]};
}

std::string_view Json::key(size_t i) const {
  expect(JsonKind::Object);
  if (i >= node_->count) refuse(fmt::format("expected more than {} members, found {}", i, node_->count));
  return node_->members[i].key;
}

Json Json::value(size_t i) const {
  key(i);
  return {tree_, &node_->members[i].value};
}

Json::Found Json::find(std::string_view key) const {
  expect(JsonKind::Object);
  for (size_t i = 0; i < node_->count; ++i)
    if (node_->members[i].key == key) return Found(Json(tree_, &node_->members[i].value));
  return Found();
}

Json Json::at(std::string_view key) const {
  const Found found = find(key);
  if (!found) refuse(fmt::format("expected a member \"{}\", found none", key));
  return *found;
}

JsonDocument::JsonDocument(std::unique_ptr<JsonTree> tree) : tree_(std::move(tree)) {}
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

JsonDocument JsonDocument::parse(std::string_view text, std::string source) {
  TOROID_USER_CHECK(text.size() < kMaxText, "{}: JSON text of {} bytes; at most {} are accepted", source, text.size(), kMaxText);
  auto tree = std::make_unique<JsonTree>();
  tree->source = std::move(source);
  Parser(*tree, text).run();
  return JsonDocument(std::move(tree));
}

Json JsonDocument::root() const { return {tree_.get(), &tree_->root}; }

}  // namespace toroid::import

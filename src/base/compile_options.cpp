#include "base/compile_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/option_table.h"

namespace toroid {
namespace {

// What stands without quotes.
bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_-.,:/+*").find(c) != std::string_view::npos;
}

std::string quoted(std::string_view value) {
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain)) return std::string(value);
  std::string out = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + '"';
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Reads `name=value name="value"`.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // The next name; empty at the end.
  std::string_view name() {
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '=' && !is_blank(text_[at_])) ++at_;
    if (at_ == text_.size() && begin == at_) return {};
    if (at_ == text_.size() || text_[at_] != '=' || at_ == begin) refuse("expected name=value");
    return text_.substr(begin, at_++ - begin);
  }

  std::string value() {
    std::string out;
    if (at_ < text_.size() && text_[at_] == '"') {
      read_quoted(out);
    } else {
      while (at_ < text_.size() && is_plain(text_[at_])) out += text_[at_++];
      if (out.empty()) refuse("expected a value, in quotes where it is empty");
    }
    if (at_ < text_.size() && !is_blank(text_[at_])) refuse("expected a blank or the end");
    return out;
  }

 private:
  void read_quoted(std::string& out) {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < text_.size();
      if (escaped) ++at_;
      out += escaped && text_[at_] == 'n' ? '\n' : text_[at_];
    }
    if (at_ == text_.size()) refuse("expected a closing quote");
    ++at_;
  }

  [[noreturn]] void refuse(std::string_view expected) const {
    fail<UserError>("compile options \"{}\": {} at character {}", text_, expected, at_);
  }

  std::string_view text_;
  size_t at_ = 0;
};

const OptionRow& option_of_compiles(std::string_view name) {
  const OptionRow& row = find_option(name);
  TOROID_USER_CHECK(
      row.scope != OptionScope::Process,
      "option {} belongs to the process, and one compile cannot have a value of its own: set it by set_option(\"{}\", ...) or "
      "the environment variable {}",
      name, name, environment_name(row));
  return row;
}

template <size_t n>
size_t position(const std::string_view (&names)[n], std::string_view name) {
  return static_cast<size_t>(std::find(names, names + n, name) - names);
}

std::string shown(const OptionRow& row, const std::string& value) {
  return row.type == OptionType::Bool ? (value == "1" ? "true" : "false") : row.type == OptionType::Int ? value : quoted(value);
}

}  // namespace

std::string_view CompileOptions::value(OptionId id) const {
  const OptionRow& row = row_of(id);
  auto it = values_.find(row.name);
  return it == values_.end() ? row.default_value : std::string_view(it->second);
}

bool CompileOptions::get(Option<bool, false> key) const { return value(key.id) == "1"; }
int64_t CompileOptions::get(Option<int64_t, false> key) const { return number_of(value(key.id)); }
std::string CompileOptions::get(Option<std::string, false> key) const { return std::string(value(key.id)); }
Mode CompileOptions::mode() const { return static_cast<Mode>(position(kModeNames, value(OptionId::Mode))); }
Fusion CompileOptions::fusion() const { return static_cast<Fusion>(position(kFusionNames, value(OptionId::Fusion))); }

void CompileOptions::set(std::string_view name, std::string_view value) {
  const OptionRow& row = option_of_compiles(name);
  std::string form = canonical(row, value, fmt::format("option {}", name));
  if (form == row.default_value)
    values_.erase(row.name);
  else
    values_[row.name] = std::move(form);
}

void CompileOptions::set(Mode mode) { set("mode", name_of(mode)); }
void CompileOptions::set(Fusion fusion) { set("fusion", name_of(fusion)); }

std::string CompileOptions::text() const {
  std::string out;
  for (auto& [name, value] : values_) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, quoted(value));
  return out;
}

bool CompileOptions::decides(std::string_view name) const {
  const OptionScope scope = find_option(name).scope;
  if (scope == OptionScope::Tuning) return tunes(mode());
  if (scope == OptionScope::Recording) return records_calls(mode());
  return scope != OptionScope::Watching;
}

std::string CompileOptions::key() const {
  CompileOptions deciding = *this;
  std::erase_if(deciding.values_, [&](auto& v) { return !decides(v.first); });
  return deciding.text();
}

CompileOptions CompileOptions::parse(std::string_view text) {
  CompileOptions out;
  std::map<std::string_view, bool> seen;
  Reader reader(text);
  for (std::string_view name = reader.name(); !name.empty(); name = reader.name()) {
    TOROID_USER_CHECK(seen.emplace(name, true).second, "compile options \"{}\": {} is there twice", text, name);
    out.set(name, reader.value());
  }
  return out;
}

std::string difference(const CompileOptions& was, const CompileOptions& now) {
  for (const OptionRow& row : option_rows()) {
    if (row.scope == OptionScope::Process || (!was.decides(row.name) && !now.decides(row.name))) continue;
    const std::string before(was.value(row.id)), after(now.value(row.id));
    if (before != after) return fmt::format("the option {} was {}, is {}", row.name, shown(row, before), shown(row, after));
  }
  return {};
}

uint64_t number_of_key(const CompileOptions& options) {
  static std::mutex mutex;
  static auto& numbers = *new std::map<std::string, uint64_t>;  // never destroyed: threads may outlive main
  std::string key = options.key();
  std::lock_guard lock(mutex);
  return numbers.try_emplace(std::move(key), numbers.size()).first->second;
}

void check_code_option(std::string_view name, std::string_view value) {
  const OptionRow& row = option_of_compiles(name);
  canonical(row, value, fmt::format("option {}", name));
  const bool of_all_kernels = row.id == OptionId::Isa || row.id == OptionId::KernelDir;
  TOROID_USER_CHECK(
      row.scope == OptionScope::Code && !of_all_kernels,
      "option {} is of a whole compile, and an implementation within it cannot have a value of its own: give it in the options "
      "of compile() or Model::load",
      name);
}

}  // namespace toroid

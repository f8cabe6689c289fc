#include "sym/text_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace toroid::sym {

constexpr size_t kMaxExpression = 10000;  // characters of one expression

void TextReader::error_at(size_t at, const std::string& what) const {
  size_t line = 1, start = 0;
  for (size_t i = 0; i < at && i < text_.size(); ++i)
    if (text_[i] == '\n') ++line, start = i + 1;
  fail<UserError>("{}, line {}, column {}: {}", what_, line, at - start + 1, what);
}

size_t TextReader::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  return at_;
}

char TextReader::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextReader::take(std::string_view token) {
  skip_space();
  if (text_.compare(at_, token.size(), token) != 0) return false;
  if (is_word(token.back()) && at_ + token.size() < text_.size() && is_word(text_[at_ + token.size()])) return false;
  at_ += token.size();
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!take(token)) error(fmt::format("expected \"{}\"", token));
}

std::string TextReader::word(const char* what, std::string_view also) {
  const size_t start = skip_space();
  while (at_ < text_.size() && (is_word(text_[at_]) || also.find(text_[at_]) != std::string_view::npos)) ++at_;
  if (at_ == start) error(fmt::format("expected {}", what));
  return text_.substr(start, at_ - start);
}

std::string TextReader::quoted() {
  expect("\"");
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"') {
    char c = text_[at_++];
    if (c == '\n') error_at(at_ - 1, "a string ends in the same line");
    if (c == '\\') {
      const char e = at_ < text_.size() ? text_[at_++] : '\0';
      if (e == 'n')
        c = '\n';
      else if (e == 'x')
        c = static_cast<char>(hex_digit() * 16 + hex_digit());
      else if (e == '"' || e == '\\')
        c = e;
      else
        error("expected \\n, \\xHH, \\\" or \\\\");
    }
    out += c;
  }
  if (at_ == text_.size()) error("expected \"");
  ++at_;
  return out;
}

int TextReader::hex_digit() {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  error("expected a hexadecimal digit");
}

int64_t TextReader::integer() {
  skip_space();
  int64_t v = 0;
  const auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
  if (r.ec != std::errc()) error("expected an integer");
  at_ = static_cast<size_t>(r.ptr - text_.data());
  return v;
}

double TextReader::real() {
  const size_t start = skip_space();
  while (at_ < text_.size() && (is_word(text_[at_]) || std::string_view("+-.").find(text_[at_]) != std::string_view::npos)) ++at_;
  const std::string_view text(text_.data() + start, at_ - start);
  if (const auto v = as_float(text)) return *v;
  double v = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) error_at(start, "expected a number");
  return v;
}

std::string TextReader::symbol_name() {
  const size_t start = skip_space();
  if (peek() == '\'') {
    at_ = behind_quotes();
    return located(start, [&] { return unquoted(std::string_view(text_).substr(start, at_ - start)); });
  }
  std::string name = word("the name of a symbol");
  if (!is_identifier(name)) error_at(start, "a symbol's name starts with a letter, or stands in quotes: '" + name + "'");
  return name;
}

size_t TextReader::behind_quotes() {
  const auto end = end_of_quoted(text_, at_);
  if (!end) error("expected another '");
  return *end;
}

std::string TextReader::raw(const char* stops, const char* what) {
  const size_t start = skip_space();
  int depth = 0;
  for (; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
    const char c = text_[at_];
    if (c == '\'') {
      at_ = behind_quotes() - 1;
      continue;
    }
    if (depth == 0 && std::string_view(stops).find(c) != std::string_view::npos) break;
    const bool is_sum = c == '(' && (at_ == start || !is_word(text_[at_ - 1]));
    if (is_sum && !takes_sums_) error("parentheses belong only to functions; write sums multiplied out");
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (at_ - start > kMaxExpression) error("the expression is too long");
  }
  size_t end = at_;
  while (end > start && text_[end - 1] == ' ') --end;
  if (end == start) error(fmt::format("expected {}", what));
  return text_.substr(start, end - start);
}

Expr TextReader::expression(const char* stops) {
  const size_t at = skip_space();
  return to_expr(raw(stops, "a size"), at);
}

Expr TextReader::to_expr(const std::string& text, size_t at) {
  return located(at, [&] { return parse(text, [&](const std::string& name, bool quoted) { return resolve(name, quoted); }); });
}

Relation TextReader::relation(const char* stops) {
  Expr a = expression("=!<>,)");
  constexpr std::pair<const char*, Rel> kRels[] = {{"==", Rel::Eq}, {"!=", Rel::Ne}, {"<=", Rel::Le},
                                                   {">=", Rel::Ge}, {"<", Rel::Lt},  {">", Rel::Gt}};
  for (auto& [text, rel] : kRels)
    if (take(text)) return {rel, a, expression(stops)};
  error("expected a comparison");
}

void TextReader::skip_to(char close) {
  int depth = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '\'') {
      at_ = behind_quotes() - 1;
      continue;
    }
    if (depth == 0 && c == close) {
      ++at_;
      return;
    }
    if (c == '(') ++depth;
    if (c == ')') --depth;
  }
  error(fmt::format("expected \"{}\"", close));
}

std::optional<double> as_float(std::string_view s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (s == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (s == "inf" || s == "-inf") return s[0] == '-' ? -kInfinity : kInfinity;
  if (s.find_first_of(".e") == std::string_view::npos) return std::nullopt;
  double v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  return r.ec == std::errc() && r.ptr == s.data() + s.size() ? std::optional(v) : std::nullopt;
}

std::string in_quotes(std::string_view s) {
  const auto is_plain = [](char c) { return c >= 32 && c != 127 && c != '"' && c != '\\'; };
  std::string out = "\"";
  if (std::all_of(s.begin(), s.end(), is_plain)) return (out += s) += '"';
  for (char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (byte < 32 || byte == 127)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace toroid::sym

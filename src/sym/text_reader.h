// What the readers of all text forms share: tokens, strings, expressions, and errors that say where.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {

class TextReader {
 public:
  virtual ~TextReader() = default;

 protected:
  // what: begins each complaint ("graph text"). Reading begins at character number `at`; the text must outlive the reader.
  TextReader(const std::string& text, const char* what, size_t at = 0) : text_(text), at_(at), what_(what) {}

  // The symbol of this name; `quoted`: it stood in quotes. A UserError becomes one that says where.
  virtual Expr resolve(const std::string& name, bool quoted) = 0;

  // UserError with line and column, of the place that is reached or of character number `at`.
  [[noreturn]] void error(const std::string& what) const { error_at(at_, what); }
  [[noreturn]] void error_at(size_t at, const std::string& what) const;
  // Runs f and puts a position in front of its complaints.
  template <class F>
  auto located(size_t at, F&& f) {
    try {
      return f();
    } catch (const UserError& e) {
      error_at(at, e.what());
    }
  }

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  // Passes over blanks and line ends; where the next token begins.
  size_t skip_space();
  // The next character that is no blank, '\0' at the end.
  char peek();
  // Takes a token, if it comes next: letters and digits only as a whole word.
  bool take(std::string_view token);
  void expect(std::string_view token);
  // Calls item() for each of a comma-separated list up to `close`.
  template <class F>
  void items(std::string_view close, F&& item) {
    if (take(close)) return;
    do item();
    while (take(","));
    expect(close);
  }

  // Letters, digits, '_' and those among `also`. what: expected, for the complaint.
  std::string word(const char* what, std::string_view also = "");
  // "a\n\x01\"", without its quotes and escapes.
  std::string quoted();
  int64_t integer();
  // A number such as 1, 0.5, -1e-05, nan or -inf.
  double real();
  // A symbol's name, perhaps in single quotes.
  std::string symbol_name();
  // An expression up to one of `stops` outside of parentheses, which is left in place.
  Expr expression(const char* stops);
  Expr to_expr(const std::string& text, size_t at);
  Relation relation(const char* stops);
  // The text of an expression or a word. what: expected, for the complaint.
  std::string raw(const char* stops, const char* what);
  // Passes over everything up to and with `close`, outside of parentheses.
  void skip_to(char close);

  const std::string& text_;
  size_t at_;
  // Sums may stand in parentheses. Not in texts that come from outside: products of sums can be longer than memory.
  bool takes_sums_ = false;

 private:
  int hex_digit();
  // Where the quoted name of a symbol that begins here ends.
  size_t behind_quotes();

  const char* what_;
};

// A floating-point number: nan, inf, -inf, or digits with a point or an exponent; nullopt for others.
std::optional<double> as_float(std::string_view text);

// The string as quoted() reads it back.
std::string in_quotes(std::string_view s);

}  // namespace toroid::sym

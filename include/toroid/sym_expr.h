// Symbolic integers: sizes of tensors and indices of loops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace toroid::sym {

enum class Kind : uint8_t { Const, Symbol, Poly, FloorDiv, Mod, Min, Max };

struct Node;

// An immutable integer expression. Sums and products are kept as one canonical polynomial over atoms (symbols, floor
// divisions, remainders, minima, maxima), so that equal polynomials are structurally equal. Constants hold no memory.
class Expr {
 public:
  Expr(int64_t value = 0) : value_(value) {}  // NOLINT: a size is written as a number
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}

  bool is_const() const { return !node_; }
  // Value of a constant. InternalError for anything else.
  int64_t constant() const;
  std::optional<int64_t> maybe_constant() const { return node_ ? std::nullopt : std::optional<int64_t>(value_); }
  Kind kind() const;
  const Node* node() const { return node_.get(); }
  uint64_t hash() const;

  // Structural equality: equal means equal for every value of the symbols; unequal does not mean different.
  friend bool operator==(const Expr& a, const Expr& b);
  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a);
  Expr& operator+=(const Expr& b) { return *this = *this + b; }
  Expr& operator*=(const Expr& b) { return *this = *this * b; }

 private:
  int64_t value_ = 0;
  std::shared_ptr<const Node> node_;
};

// Rounds towards minus infinity. b must not be the constant 0 (UserError).
Expr floor_div(const Expr& a, const Expr& b);
Expr ceil_div(const Expr& a, const Expr& b);
// The remainder that goes with floor_div: has the sign of b.
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);

// A named unknown with inclusive bounds. `extent`, when given, bounds a loop variable: 0 <= symbol < extent.
Expr symbol(std::string name, int64_t lo, int64_t hi);
Expr loop_symbol(std::string name, const Expr& extent);

inline constexpr int64_t kInf = int64_t{1} << 62;

struct Term {
  int64_t coef;
  std::vector<Expr> factors;  // sorted atoms; empty for the constant term
};

struct Node {
  Kind kind;
  uint64_t hash;
  int64_t lo, hi;    // inclusive bounds of the value, +-kInf when unknown
  std::string name;  // Symbol
  Expr extent;       // Symbol made by loop_symbol
  bool has_extent = false;
  std::vector<Term> terms;  // Poly
  std::vector<Expr> args;   // FloorDiv, Mod, Min, Max: two
};

struct Bounds {
  int64_t lo, hi;
};
Bounds bounds(const Expr& e);

// True only when the relation holds for all values of the symbols within their bounds.
bool known_ge(const Expr& a, const Expr& b);
inline bool known_lt(const Expr& a, const Expr& b) { return known_ge(b, a + 1); }
// a is a multiple of b for all values.
bool known_multiple(const Expr& a, const Expr& b);

using Lookup = std::function<int64_t(const Node& symbol)>;
// Value of e, given the value of each symbol. UserError on overflow-free but undefined cases (division by zero).
int64_t evaluate(const Expr& e, const Lookup& lookup);

using Substitution = std::function<std::optional<Expr>(const Node& symbol)>;
// Rebuilds (and so simplifies) e with symbols replaced.
Expr substitute(const Expr& e, const Substitution& replace);

// Calls visit for every symbol node in e (with repeats).
void for_each_symbol(const Expr& e, const std::function<void(const Expr& symbol)>& visit);
bool depends_on(const Expr& e, const Expr& symbol);

// The coefficient c such that e = c * symbol + rest with rest free of symbol; nullopt when e is not linear in it.
std::optional<Expr> linear_coefficient(const Expr& e, const Expr& symbol);

std::string to_string(const Expr& e);
// Parses what to_string prints. `resolve` maps a symbol name to its expression. UserError on malformed text.
Expr parse(const std::string& text, const std::function<Expr(const std::string& name)>& resolve);

// A comparison of two expressions: what guards are made of.
enum class Rel : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };
struct Relation {
  Rel rel;
  Expr a, b;
};
// Truth of the relation where it is the same for all values of the symbols.
std::optional<bool> known(const Relation& r);
bool holds(const Relation& r, const Lookup& lookup);
std::string to_string(const Relation& r);

}  // namespace toroid::sym

namespace toroid {
using sym::Expr;
}

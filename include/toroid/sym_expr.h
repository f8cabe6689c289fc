// Symbolic integers: sizes of tensors and indices of loops.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toroid::sym {

enum class Kind : uint8_t { Const, Symbol, Poly, FloorDiv, Mod, Min, Max };

// What a symbol stands for. Symbols of different kinds are never equal, whatever they are called.
//   LoopVar  A variable of a loop: equal to itself alone (an id that no other has). Its name is for people who read the text.
//   Size     A size that a graph leaves open: its name, which may be any string (files bring their own), is its identity, since a graph
//            declares each name once, and the same name in a subgraph, a guard or an argument means the same size.
//   Value    What step number `id` of a loop body computes.
// The order of symbols is by kind, then by id or name. The ids of loop variables differ from process to process, their order does not: ids
// grow, and what makes the variables of one loop makes them one after another. So expressions over a loop's variables have one form, and
// their text is the same, wherever and whenever the loop is made.
enum class SymbolKind : uint8_t { LoopVar, Size, Value };

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

inline constexpr int64_t kInf = int64_t{1} << 62;

// A size with inclusive bounds.
Expr symbol(std::string name, int64_t lo, int64_t hi);
// A new loop variable, 0 <= variable < extent, different from all others, also from those of the same name.
Expr loop_symbol(std::string name, const Expr& extent);
// A new loop variable, 0 <= variable, that runs to nobody knows where.
Expr loop_symbol(std::string name);
// The value of step number `step` of a loop body, within inclusive bounds; called "v<step>".
Expr value_symbol(int step, int64_t lo, int64_t hi);

// The factors of a term: as a vector, but one or two take no memory of their own.
class Factors {
 public:
  Factors() = default;
  Factors(std::initializer_list<Expr> factors) {
    for (auto& f : factors) push_back(f);
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Expr* begin() { return size_ > kFew ? many_.data() : few_; }
  Expr* end() { return begin() + size_; }
  const Expr* begin() const { return size_ > kFew ? many_.data() : few_; }
  const Expr* end() const { return begin() + size_; }
  const Expr& operator[](size_t i) const { return begin()[i]; }
  void push_back(Expr e) {
    if (size_ == kFew) many_.assign(few_, few_ + kFew);
    if (size_ < kFew)
      few_[size_] = std::move(e);
    else
      many_.push_back(std::move(e));
    ++size_;
  }
  void erase(size_t at) {
    std::vector<Expr> rest(begin(), end());
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    *this = {};
    for (auto& e : rest) push_back(std::move(e));
  }

 private:
  static constexpr size_t kFew = 2;
  size_t size_ = 0;
  Expr few_[kFew];
  std::vector<Expr> many_;  // all of them, where there are more
};

struct Term {
  int64_t coef;
  Factors factors;  // sorted atoms; empty for the constant term
};

struct Node {
  Kind kind;
  uint64_t hash;
  int64_t lo, hi;                        // inclusive bounds of the value, +-kInf when unknown
  SymbolKind symbol = SymbolKind::Size;  // Symbol
  bool has_extent = false;               // LoopVar: whether `extent` is known
  int64_t id = 0;                        // LoopVar, Value
  std::string name;                      // Symbol; identifies a Size alone
  Expr extent;                           // LoopVar
  std::vector<Term> terms;               // Poly
  std::vector<Expr> args;                // FloorDiv, Mod, Min, Max: two
};

inline bool is_loop_var(const Node& n) { return n.kind == Kind::Symbol && n.symbol == SymbolKind::LoopVar; }
inline bool is_size(const Node& n) { return n.kind == Kind::Symbol && n.symbol == SymbolKind::Size; }
// Whether two symbols are the same one.
bool same_symbol(const Node& a, const Node& b);

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

// Symbols are printed by their names. A size whose name is no identifier ([A-Za-z_][A-Za-z0-9_]*) is quoted: 'batch size', with \' and
// \\ for quotes and backslashes, and \xNN for bytes below 32, and 127.
std::string to_string(const Expr& e);
// The same with symbols printed as `name` says: for texts in which symbols of several kinds meet.
std::string to_string(const Expr& e, const std::function<std::string(const Node& symbol)>& name);
bool is_identifier(std::string_view name);
std::string quoted(std::string_view name);
// The end of the quoted name that begins at text[begin], behind its last quote; nullopt where it has none.
std::optional<size_t> end_of_quoted(std::string_view text, size_t begin);
// The name that such a piece of text, quotes included, stands for. UserError on malformed escapes.
std::string unquoted(std::string_view text);

// Parses what to_string prints. `resolve` maps a symbol's name to its expression; `quoted`: the name stood in quotes. UserError on
// malformed text.
Expr parse(const std::string& text, const std::function<Expr(const std::string& name, bool quoted)>& resolve);

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

// Random expressions over symbols of all kinds that share their names: simplified, substituted, printed and read, they keep their values.
#include <gtest/gtest.h>

#include <random>

#include "base/check.h"
#include "samples.h"
#include "toroid/sym_expr.h"

namespace toroid::sym {
namespace {

// An expression as it is written, beside what the simplifier makes of it.
struct Written {
  Expr simplified;
  int64_t value;
};

class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {
    for (const char* name : {"i0", "v0", "v1", "r2", "'", "max"}) {
      add(symbol(name, 0, 12));
      add(loop_symbol(name, 13));
    }
    add(symbol("n", 1, 12));
    add(loop_symbol("i0", symbols_.back()));  // two that are called i0, one of them within a size
    for (int step : {0, 1, 2}) add(value_symbol(step, -12, 12));
    draw();
  }

  void run() {
    const Written w = expression(4);
    const std::string text = to_string(w.simplified, [&](const Node& n) { return own_name(n); });
    ASSERT_EQ(evaluate(w.simplified, lookup()), w.value) << text;
    const Bounds range = bounds(w.simplified);
    ASSERT_TRUE(range.lo <= w.value && w.value <= range.hi) << text << " = " << w.value << " not in " << range.lo << ".." << range.hi;
    ASSERT_EQ(parse(text, [&](const std::string& name, bool) { return symbols_[std::stoul(name.substr(1))]; }), w.simplified) << text;
    ASSERT_EQ(substitute(w.simplified, [](const Node&) { return std::nullopt; }), w.simplified) << text;
    // Other symbols of the same bounds in the places of these.
    const size_t shift = 1 + random_() % (kAlike - 1);
    const auto other = [&](const Node& n) {
      const size_t k = place(n);
      return symbols_[k < kAlike ? (k + shift) % kAlike : k];
    };
    const Expr moved = substitute(w.simplified, [&](const Node& n) { return std::optional<Expr>(other(n)); });
    ASSERT_EQ(evaluate(moved, lookup()), evaluate(w.simplified, [&](const Node& n) { return lookup()(*other(n).node()); })) << text;
    for (const int64_t least : {0, 3}) {
      if (known_ge(w.simplified, least)) {
        ASSERT_GE(w.value, least) << text;
      }
    }
    if (known_multiple(w.simplified, 3)) {
      ASSERT_EQ(w.value % 3, 0) << text;
    }
  }

 private:
  void add(const Expr& e) { symbols_.push_back(e); }
  void draw() {
    values_.resize(symbols_.size());
    for (size_t k = 0; k < symbols_.size(); ++k) {
      const Bounds b = bounds(symbols_[k]);
      values_[k] = b.lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(b.hi - b.lo + 1));
    }
    for (size_t k = 0; k < symbols_.size(); ++k)  // within its extent, which is a size here
      if (is_loop_var(*symbols_[k].node()) && !symbols_[k].node()->extent.is_const())
        values_[k] %= values_[place(*symbols_[k].node()->extent.node())];
  }
  size_t place(const Node& n) const {
    size_t k = 0;
    while (!same_symbol(*symbols_.at(k).node(), n)) ++k;
    return k;
  }
  std::string own_name(const Node& n) const { return "s" + std::to_string(place(n)); }
  Lookup lookup() const {
    return [this](const Node& n) { return values_[place(n)]; };
  }

  Written expression(int depth) {
    if (depth == 0 || random_() % 6 == 0) {
      const size_t k = random_() % symbols_.size();
      const auto c = static_cast<int64_t>(random_() % 9) - 2;
      return random_() % 3 == 0 ? Written{c, c} : Written{symbols_[k], values_[k]};
    }
    const Written a = expression(depth - 1), b = expression(depth - 1);
    const auto by = static_cast<int64_t>(1 + random_() % 6);
    switch (random_() % 8) {
      case 0:
        return {a.simplified * b.simplified, a.value * b.value};
      case 1:
        return {a.simplified - b.simplified, a.value - b.value};
      case 2: {  // by numbers of either sign
        const int64_t d = random_() % 3 ? by : -by;
        return random_() % 2 ? Written{floor_div(a.simplified, d), floor(a.value, d)}
                             : Written{ceil_div(a.simplified, d), ceil(a.value, d)};
      }
      case 3:
        return {mod(a.simplified, by), a.value - by * floor(a.value, by)};
      case 4: {  // by what is at least 1, or at most -1
        const Expr divisor = max(b.simplified, 1);
        const int64_t d = std::max<int64_t>(b.value, 1);
        if (random_() % 4 == 0) return {ceil_div(a.simplified, -divisor), ceil(a.value, -d)};
        return random_() % 2 ? Written{floor_div(a.simplified, divisor), floor(a.value, d)}
                             : Written{mod(a.simplified, divisor), a.value - d * floor(a.value, d)};
      }
      case 5:
        return {min(a.simplified, b.simplified), std::min(a.value, b.value)};
      case 6:
        return {max(a.simplified, b.simplified), std::max(a.value, b.value)};
      default:
        return {a.simplified + b.simplified, a.value + b.value};
    }
  }
  static constexpr size_t kAlike = 12;  // the first symbols: from 0 to 12
  static int64_t floor(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
  static int64_t ceil(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }

  std::mt19937_64 random_;
  std::vector<Expr> symbols_;
  std::vector<int64_t> values_;
};

TEST(SymFuzz, ValuesStayWhatTheyAre) {
  for (uint64_t seed = 0; seed < test::samples<uint64_t>(4000) && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Fuzzer(seed).run();
  }
}

}  // namespace
}  // namespace toroid::sym

#include "tune/region/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace toroid::tune {
namespace {

// In front of what was seen stay the sizes that are there already.
void add_hints(const program::Program& p, exec::Symbols& sizes, std::string& refusal) {
  for (auto& s : p.symbols) {
    const std::string& name = s.expr.node()->name;
    if (std::any_of(sizes.begin(), sizes.end(), [&](auto& known) { return known.first == name; })) continue;
    if (s.hint)
      sizes.emplace_back(name, *s.hint);
    else if (refusal.empty())
      refusal = s.unbacked ? fmt::format("the size {} is known only when the program runs", name)
                           : fmt::format("{}{} usually is", kUnseenSize, name);
  }
}

// The first bound or guard that the sizes are outside of; empty where there is none.
std::string excluded_by(const program::Program& p, const exec::Symbols& sizes) {
  for (auto& s : p.symbols) {
    const sym::Node& n = *s.expr.node();
    const int64_t value = exec::value_of(sizes, n.name);
    if (value < n.lo || value > n.hi) return fmt::format("{} in {}..{}", n.name, n.lo, n.hi);
  }
  for (auto& g : p.guards)
    if (!sym::holds(g, [&](const sym::Node& s) { return exec::value_of(sizes, s.name); })) return sym::to_string(g);
  return "";
}

// Sizes beside `size`, odd ones first, those that are multiples of what it may have to be a multiple of last.
std::vector<int64_t> others(int64_t size) {
  const int64_t odd_below = (size / 2) | 1, odd_above = size + 1 + size % 2;
  std::vector<int64_t> out = {odd_below, odd_above, size - 1, size + 1, size / 2, 2 * size};
  for (int64_t step : {8, 16, 64, 128})
    for (int64_t other : {size - step, size + step}) out.push_back(other);
  return out;
}

constexpr int64_t kFarthest = int64_t{1} << 40;

// Of all buffers whose size may follow from the sizes.
double elements(const program::Program& p, const exec::Symbols& sizes) {
  double out = 0;
  for (auto& b : p.buffers)
    if (b.kind != loop::BufferKind::Constant) out += static_cast<double>(exec::evaluate(b.numel, sizes));
  return out;
}

// The first and the last value of size number `at` that the program may have while the others are usual; by powers of two and the symbol's
// bounds, so that guards which ask for multiples are met.
std::pair<int64_t, int64_t> range_of(const program::Program& p, const exec::Symbols& usual, size_t at) {
  const auto s = std::find_if(p.symbols.begin(), p.symbols.end(), [&](auto& x) { return x.expr.node()->name == usual[at].first; });
  std::vector<int64_t> tried = {usual[at].second};
  for (int64_t v = 2; v <= kFarthest; v *= 2) tried.push_back(v);
  if (s != p.symbols.end())
    tried.push_back(std::clamp(s->expr.node()->lo, int64_t{2}, kFarthest)), tried.push_back(std::min(s->expr.node()->hi, kFarthest));
  for (auto& g : p.guards)
    for (auto& [e, other] : {std::pair(g.a, g.b), std::pair(g.b, g.a)})
      if (s != p.symbols.end() && e == s->expr && other.is_const())
        for (int64_t d : {-1, 0, 1}) tried.push_back(other.constant() + d);
  std::pair<int64_t, int64_t> out(usual[at].second, usual[at].second);
  for (int64_t v : tried) {
    exec::Symbols one = usual;
    one[at].second = v;
    if (v < 1 || !excluded_by(p, one).empty()) continue;
    out.first = std::min(out.first, v), out.second = std::max(out.second, v);
  }
  return out;
}

// An allowed value near `wanted`, rounded to a power of two or a multiple of one where it may be.
void move_near(const program::Program& p, exec::Symbols& sizes, size_t at, int64_t wanted) {
  const int64_t before = sizes[at].second;
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(wanted) + static_cast<uint64_t>(wanted) / 2));
  for (int64_t v : {power, wanted / 128 * 128, wanted / 64 * 64, wanted / 16 * 16, wanted / 8 * 8, wanted}) {
    sizes[at].second = v;
    if (v > 0 && excluded_by(p, sizes).empty()) return;
  }
  sizes[at].second = before;
}

}  // namespace

std::vector<exec::Symbols> sizes_across(const program::Program& p, const exec::Symbols& usual, bool to_usual) {
  constexpr int kSteps = 3;
  constexpr double kLarger = 16, kMany = 1 << 22, kTooMany = 1 << 26;
  std::vector<std::pair<int64_t, int64_t>> ranges;
  bool has_end = false;
  for (size_t i = 0; i < usual.size(); ++i) {
    ranges.push_back(range_of(p, usual, i));
    const bool is_open = ranges[i].second == kFarthest;
    if (is_open) ranges[i].second = usual[i].second;
    if (is_open && !to_usual) ranges[i].first = usual[i].second;
    has_end = has_end || ranges[i].first < ranges[i].second;
  }
  std::vector<exec::Symbols> out;
  if (!has_end) return out;
  const double now = elements(p, usual), most = std::max(now, std::min(std::max(kLarger * now, kMany), kTooMany));
  for (int k = 0; k <= kSteps; ++k) {
    exec::Symbols sizes = usual;
    for (size_t i = 0; i < usual.size(); ++i) {
      const auto [first, last] = ranges[i];
      const double step = std::pow(static_cast<double>(last) / static_cast<double>(first), static_cast<double>(k) / kSteps);
      const bool is_end = k == 0 || k == kSteps;
      if (first < last && is_end) sizes[i].second = k == 0 ? first : last;
      if (first < last && !is_end) move_near(p, sizes, i, std::llround(static_cast<double>(first) * step));
    }
    const bool is_new = sizes != usual && std::find(out.begin(), out.end(), sizes) == out.end();
    if (is_new && excluded_by(p, sizes).empty() && elements(p, sizes) <= most) out.push_back(std::move(sizes));
  }
  return out;
}

void usual_sizes(const program::Program& p, exec::Symbols& sizes, std::string& refusal) {
  add_hints(p, sizes, refusal);
  if (!refusal.empty()) return;
  if (const std::string why = excluded_by(p, sizes); !why.empty())
    refusal = fmt::format("the sizes {} are outside of what it is compiled for: {} does not hold", exec::to_string(sizes), why);
}

void sizes_where(const program::Program& p, const Expr& size, int64_t wanted, exec::Symbols& sizes, std::string& refusal) {
  constexpr int64_t kMost = int64_t{1} << 40, kTried = 128;
  const sym::Node* symbol = nullptr;
  sym::for_each_symbol(size, [&](const Expr& s) { symbol = symbol ? symbol : s.node(); });
  TOROID_CHECK(symbol, "the size {} is known", sym::to_string(size));
  sizes = {{symbol->name, 0}};
  add_hints(p, sizes, refusal);
  if (!refusal.empty()) return;
  int64_t& value = sizes.front().second;
  int64_t low = std::max<int64_t>(symbol->lo, 1), high = std::min(symbol->hi, kMost);
  while (low < high) {  // the largest with size <= wanted, as sizes grow with their symbols
    value = low + (high - low + 1) / 2;
    if (exec::evaluate(size, sizes) <= wanted)
      low = value;
    else
      high = value - 1;
  }
  for (int64_t start = low; start > 0; start /= 2)
    for (int64_t step = 0; step <= kTried; ++step)
      for (int64_t near : {start - step, start + step}) {
        value = near;
        if (near > 0 && excluded_by(p, sizes).empty()) return;
      }
  refusal = fmt::format("no size near {} or below is one of the program's", wanted);
}

exec::Symbols other_sizes(const program::Program& p, const exec::Symbols& usual) {
  const size_t ways = others(1).size();
  const auto allowed = [&](const exec::Symbols& sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](auto& s) { return s.second > 1; }) && excluded_by(p, sizes).empty();
  };
  for (size_t way = 0; way < ways; ++way) {
    exec::Symbols all = usual;
    for (size_t i = 0; i < all.size(); ++i) all[i].second = others(usual[i].second)[way];
    const bool differ = std::equal(all.begin(), all.end(), usual.begin(), [](auto& a, auto& b) { return a.second != b.second; });
    if (!all.empty() && differ && allowed(all)) return all;
  }
  for (size_t i = 0; i < usual.size(); ++i)
    for (int64_t other : others(usual[i].second)) {
      exec::Symbols one = usual;
      one[i].second = other;
      if (one != usual && allowed(one)) return one;
    }
  return {};
}

}  // namespace toroid::tune

#include "tune/sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace toroid::tune {
namespace {

bool has(const exec::Symbols& sizes, const std::string& name) {
  return std::any_of(sizes.begin(), sizes.end(), [&](auto& s) { return s.first == name; });
}

// The first bound or guard that the sizes are outside of; empty where there is none.
std::string excluded_by(const choice::Program& p, const exec::Symbols& sizes) {
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

}  // namespace

void usual_sizes(const choice::Program& p, exec::Symbols& sizes, std::string& refusal) {
  for (auto& s : p.symbols) {
    const std::string& name = s.expr.node()->name;
    if (has(sizes, name)) continue;
    if (s.hint)
      sizes.emplace_back(name, *s.hint);
    else if (refusal.empty())
      refusal = s.unbacked ? fmt::format("the size {} is known only when the program runs", name)
                           : fmt::format("nothing says what the size {} usually is", name);
  }
  if (!refusal.empty()) return;
  if (const std::string why = excluded_by(p, sizes); !why.empty())
    refusal = fmt::format("the sizes {} are outside of what it is compiled for: {} does not hold", exec::to_string(sizes), why);
}

exec::Symbols other_sizes(const choice::Program& p, const exec::Symbols& usual) {
  const size_t ways = others(1).size();
  const auto allowed = [&](const exec::Symbols& sizes) {
    return std::all_of(sizes.begin(), sizes.end(), [](auto& s) { return s.second > 0; }) && excluded_by(p, sizes).empty();
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

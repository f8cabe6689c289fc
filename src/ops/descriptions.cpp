#include "ops/descriptions.h"

#include <algorithm>
#include <array>
#include <utility>

namespace toroid::ops {
namespace {

using Row = std::pair<std::string_view, std::string_view>;

constexpr Row kRows[] = {
#include "ops/descriptions.inc"
};
static_assert(std::is_sorted(std::begin(kRows), std::end(kRows)), "descriptions.inc is in the order of names (LC_ALL=C sort)");

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kRows)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kRows[i].first;
  return names;
}();

}  // namespace

std::string_view description(std::string_view name) {
  const auto of = [](std::string_view n) -> std::string_view {
    const auto* row = std::lower_bound(std::begin(kRows), std::end(kRows), Row(n, ""));
    return row != std::end(kRows) && row->first == n ? row->second : std::string_view();
  };
  if (name.empty() || name.front() == '_') return "";
  if (const auto text = of(name); !text.empty()) return text;
  return name.back() == '_' ? of(name.substr(0, name.size() - 1)) : std::string_view();
}

std::span<const std::string_view> described() { return kNames; }

}  // namespace toroid::ops

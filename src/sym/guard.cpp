#include "sym/guard.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace toroid::sym {

std::string refusal(const Guard& g, const Lookup& value) {
  std::vector<std::string> its;
  for (auto* side : {&g.a, &g.b})
    for_each_symbol(*side, [&](const Expr& s) {
      std::string text = fmt::format("{}={}", to_string(s), value(*s.node()));
      if (std::find(its.begin(), its.end(), text) == its.end()) its.push_back(std::move(text));
    });
  std::string sizes;
  for (auto& text : its) sizes += (sizes.empty() ? " with " : ", ") + text;
  const size_t place = std::min(g.error.rfind(" (called at "), g.error.size());
  return fmt::format("{}; {} does not hold{}{}", g.error.substr(0, place), to_string(g), sizes, g.error.substr(place));
}

}  // namespace toroid::sym

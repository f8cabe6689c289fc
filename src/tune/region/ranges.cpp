#include "tune/region/ranges.h"

#include <fmt/format.h>

#include "base/check.h"
#include "choice/inline.h"
#include "choice/region.h"
#include "choice/ways.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

std::string text_of(const choice::Range& r) {
  return r.last >= sym::kInf - 1 ? fmt::format("from {}", r.first) : fmt::format("{} to {}", r.first, r.last);
}

// alone: the call as a program.
Region region_of(const choice::Program& alone, const std::string& label, size_t node, const choice::Open& open,
                 const choice::Range& range) {
  Region r;
  r.program = alone;
  r.program.guards.push_back({sym::Rel::Ge, open.size, range.first});
  if (range.last < sym::kInf - 1) r.program.guards.push_back({sym::Rel::Le, open.size, range.last});
  r.numbers = {static_cast<int>(node)};
  r.choice_nodes = {0};
  r.label = fmt::format("{}, {} {}", label, sym::to_string(open.size), text_of(range));
  r.labels = {label};
  r.sizes_seen = false;
  sizes_where(r.program, open.size, range.timed_at, r.sizes, r.refusal);
  r.key = key_of(r.program, r.sizes);
  return r;
}

}  // namespace

std::vector<RangedCall> find_ranged_calls(const choice::Program& lowered) {
  std::vector<RangedCall> out;
  for (size_t i = 0; i < lowered.nodes.size(); ++i) {
    const auto* open = std::get_if<choice::Open>(&lowered.nodes[i].problem);
    if (!open || open->split_points.empty()) continue;
    RangedCall& call = out.emplace_back();
    call.node = i;
    const choice::Program alone = choice::region(lowered, std::span(&i, 1));
    const sym::Bounds bounds = sym::bounds(open->size);
    for (auto& range : choice::ranges_of(*open)) {
      call.regions.emplace_back();
      if (bounds.lo <= range.last && bounds.hi >= range.first)
        call.regions.back() = region_of(alone, choice::label(lowered.nodes[i]), i, *open, range);
    }
  }
  return out;
}

Choice choice_by_size(const choice::Open& open, const std::vector<std::optional<size_t>>& winners) {
  const auto ranges = choice::ranges_of(open);
  Choice out;
  const choice::Alternative* last = nullptr;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!winners.at(i)) continue;
    const choice::Alternative& own = open.alternatives.at(*winners[i]);
    if (last && last->key == own.key) continue;
    if (last) {
      out.ways.back().second.fields.emplace_back("to", ranges[i].first - 1);
    }
    out.ways.emplace_back(0, choice::alternative_way(own.name));
    if (last) out.ways.back().second.fields.emplace_back("from", ranges[i].first);
    last = &own;
  }
  TOROID_CHECK(last, "{} has a winner for no range", open.name);
  return out;
}

size_t alternative_of(const choice::Open& open, const Choice& d) {
  for (auto& [node, way] : d.ways)
    for (size_t i = 0; i < open.alternatives.size(); ++i)
      if (choice::alternative_of(way) == open.alternatives[i].name) return i;
  return 0;
}

}  // namespace toroid::tune

#include "tune/region/ranges.h"

#include <fmt/format.h>

#include "base/check.h"
#include "program/inline.h"
#include "program/region.h"
#include "program/ways.h"
#include "tune/region/sizes.h"

namespace toroid::tune {
namespace {

std::string text_of(const program::Range& r) {
  return r.last >= sym::kInf - 1 ? fmt::format("from {}", r.first) : fmt::format("{} to {}", r.first, r.last);
}

// alone: the call as a program.
Region region_of(const program::Program& alone, const std::string& label, size_t node, const program::Open& open,
                 const program::Range& range) {
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

std::vector<RangedCall> find_ranged_calls(const program::Program& lowered) {
  std::vector<RangedCall> out;
  for (size_t i = 0; i < lowered.nodes.size(); ++i) {
    const auto* open = std::get_if<program::Open>(&lowered.nodes[i].problem);
    if (!open || open->split_points.empty()) continue;
    RangedCall& call = out.emplace_back();
    call.node = i;
    const program::Program alone = program::region(lowered, std::span(&i, 1));
    const sym::Bounds bounds = sym::bounds(open->size);
    for (auto& range : program::ranges_of(*open)) {
      call.regions.emplace_back();
      if (bounds.lo <= range.last && bounds.hi >= range.first)
        call.regions.back() = region_of(alone, program::label(lowered.nodes[i]), i, *open, range);
    }
  }
  return out;
}

Choice choice_by_size(const program::Open& open, const std::vector<std::optional<size_t>>& winners) {
  const auto ranges = program::ranges_of(open);
  Choice out;
  const program::Alternative* last = nullptr;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (!winners.at(i)) continue;
    const program::Alternative& own = open.alternatives.at(*winners[i]);
    if (last && last->key == own.key) continue;
    if (last) {
      out.ways.back().second.fields.emplace_back("to", ranges[i].first - 1);
    }
    out.ways.emplace_back(0, program::alternative_way(own.name));
    if (last) out.ways.back().second.fields.emplace_back("from", ranges[i].first);
    last = &own;
  }
  TOROID_CHECK(last, "{} has a winner for no range", open.name);
  return out;
}

size_t alternative_of(const program::Open& open, const Choice& d) {
  for (auto& [node, way] : d.ways)
    for (size_t i = 0; i < open.alternatives.size(); ++i)
      if (program::alternative_of(way) == open.alternatives[i].name) return i;
  return 0;
}

}  // namespace toroid::tune

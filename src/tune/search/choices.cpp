#include "tune/search/choices.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "base/pattern.h"
#include "program/region.h"
#include "program/ways.h"
#include "tune/check/check.h"

namespace toroid::tune {
namespace {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;

// Makes the choices of one region.
class Choices {
  static constexpr size_t kPackedBytes = size_t{8} << 30;  // each choice may have weights in a layout of its own, and all are there at once

 public:
  Choices(const Region& region, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, RegionReport& report)
      : region_(region),
        program_(std::make_shared<program::Program>(region.program)),
        pipeline_(std::move(pipeline)),
        options_(options),
        report_(report),
        most_(std::clamp<size_t>(kPackedBytes / std::max<size_t>(1, bytes_of_constants(region.program)), 4, options.most_choices)) {}

  Callers make() {
    add("default", CallerKind::Default, {});
    report_.originals = 1;
    if (const Choice& other = region_.rewriting; !(other == Choice{})) {
      report_.originals += add(program::to_string(other.ways.front().second), CallerKind::Subgraph, other);
      return std::move(callers_);
    }
    for (size_t c : region_.choice_nodes) region_.program.nodes[c].is_open() ? add_alternatives(c) : add_ways(c);
    add_pairs();
    return std::move(callers_);
  }

 private:
  // False when it is one of those that are there already, or cannot be scheduled.
  bool add(std::string name, CallerKind kind, Choice d, const std::vector<size_t>& fused = {}) {
    if (kind != CallerKind::Default && !is_wanted(options_, name, d)) {
      ++report_.unwanted;
      return false;
    }
    if (callers_.size() >= most_) {
      ++report_.untried;
      return false;
    }
    try {
      const program::Program scheduled = pipeline_->schedule(apply(*program_, d, own_numbers(*program_)));
      if (!fused.empty() && !has_fused(scheduled, fused)) return false;
      if (!seen_.insert(program::region_key(scheduled)).second) return false;
    } catch (const UserError& e) {
      log(Artifact::Choices, fmt::format("{}: {} is no choice: {}", region_.label, name, e.what()));
      return false;
    }
    const double most_ms = kind == CallerKind::Default ? 0 : options_.compile_ms;  // nothing could be compared with another
    callers_.push_back(std::make_shared<ChoiceCaller>(std::move(name), kind, std::move(d), program_, pipeline_, most_ms));
    return true;
  }

  // Whether some launch does the work of so many nodes of the region. Where ranks meet in it, of these: the work of a collective is in no
  // launch, and loops that read it may share one.
  bool has_fused(const program::Program& scheduled, const std::vector<size_t>& set) const {
    const bool meets = std::any_of(program_->nodes.begin(), program_->nodes.end(), [](auto& n) { return program::meets(n); });
    return std::any_of(scheduled.nodes.begin(), scheduled.nodes.end(), [&](auto& n) {
      const std::set<int> parts(n.parts.begin(), n.parts.end());
      return parts.size() >= set.size() &&
             (!meets || std::all_of(set.begin(), set.end(), [&](size_t i) { return parts.count(static_cast<int>(i)) > 0; }));
    });
  }

  // Templates and libraries, each with what is fused by default; and the default way with less.
  void add_ways(size_t c) {
    const program::Program scheduled = pipeline_->schedule(apply(*program_, {}, own_numbers(*program_)));
    const size_t at = place_of(scheduled, c);
    TOROID_CHECK(at < scheduled.nodes.size(), "nothing computes {}", region_.label);
    for (auto& way : pipeline_->target->proposals(scheduled, at)) {
      report_.originals += add(program::to_string(way), kind_of(way), {{{static_cast<int>(c), way}}, {}});
      if (is_layout(way)) add_tiles(c, way);
    }
    for (auto& set : fusion_sets(*program_, c, options_.fusion_depth, options_.fusion))
      report_.fused += add(name_of_set("default", set, c), CallerKind::Fused, {{}, apart(set, c)});
  }

  // The template's next configurations where operands lie in another way, and a library.
  void add_tiles(size_t c, const program::Config& layout) {
    constexpr size_t kMostTiles = 2, kMostLibraries = 1;
    const int node = static_cast<int>(c);
    const program::Program scheduled = pipeline_->schedule(apply(*program_, {{{node, layout}}, {}}, own_numbers(*program_)));
    size_t tiles = 0, libraries = 0;
    for (auto& way : pipeline_->target->proposals(scheduled, place_of(scheduled, c))) {
      const CallerKind kind = kind_of(way);
      if (kind == CallerKind::Template ? tiles++ >= kMostTiles : kind != CallerKind::Library || libraries++ >= kMostLibraries) continue;
      report_.originals += add(fmt::format("{}, {}", program::to_string(layout), program::to_string(way)), CallerKind::Subgraph,
                               {{{node, layout}, {node, way}}, {}});
    }
  }

  void add_alternatives(size_t c) {
    const auto sets = fusion_sets(*program_, c, options_.fusion_depth, options_.fusion);
    const auto& open = std::get<program::Open>(program_->nodes[c].problem);
    const auto way_of = [](const program::Alternative& a) { return program::alternative_way(a.name); };
    // Where no set is all that the call can be fused with, each alternative is tried with all of it, as the default is.
    const auto& kinds = options_.fusion;
    const bool unlimited = options_.fusion_depth > 1 && kinds.epilogue && kinds.prologue && kinds.cross_subgraph;
    if (unlimited && std::none_of(sets.begin(), sets.end(), [&](auto& set) { return set.size() == program_->nodes.size(); }))
      for (auto& a : open.alternatives)
        report_.fused += add(a.name + " + all that fuses", CallerKind::Fused, {{{static_cast<int>(c), way_of(a)}}, {}});
    for (auto& set : sets)
      for (auto& a : open.alternatives) {
        const program::Config way = way_of(a);
        const bool alone = set.size() == 1;
        const bool fresh = add(name_of_set(a.name, set, c), alone ? CallerKind::Subgraph : CallerKind::Fused,
                               {{{static_cast<int>(c), way}}, apart(set, c)}, alone ? std::vector<size_t>{} : set);
        (alone ? report_.originals : report_.fused) += fresh;
      }
  }

  // Two nodes at once, the most hopeful other ways of each with all that can be fused: what is best for one may depend on the other's way.
  void add_pairs() {
    const auto& nodes = region_.choice_nodes;
    size_t pairs = 0;
    for (size_t i = 0; i < nodes.size(); ++i)
      for (size_t j = i + 1; j < nodes.size() && pairs < kMostPairs; ++j, ++pairs)
        for (auto& [first, its] : hopeful(nodes[i]))
          for (auto& [second, others] : hopeful(nodes[j])) {
            Choice d{{{static_cast<int>(nodes[i]), its}, {static_cast<int>(nodes[j]), others}}, {}};
            if (!options_.fusion.cross_subgraph) d.apart.emplace_back(nodes[i], nodes[j]);
            report_.fused += add(first + " & " + second, CallerKind::Fused, std::move(d));
          }
  }

  // The first ways but for the default, with their names.
  std::vector<std::pair<std::string, program::Config>> hopeful(size_t c) const {
    constexpr size_t kMost = 3;
    std::vector<std::pair<std::string, program::Config>> out;
    if (auto* open = std::get_if<program::Open>(&program_->nodes[c].problem)) {
      for (size_t a = 1; a < open->alternatives.size() && out.size() < kMost; ++a)
        out.emplace_back(open->alternatives[a].name, program::alternative_way(open->alternatives[a].name));
      return out;
    }
    const program::Program scheduled = pipeline_->schedule(apply(*program_, {}, own_numbers(*program_)));
    for (auto& way : pipeline_->target->proposals(scheduled, place_of(scheduled, c)))
      if (out.size() < kMost) out.emplace_back(program::to_string(way), way);
    return out;
  }

  // Pairs of c and those that are not fused with it.
  std::vector<std::pair<int, int>> apart(const std::vector<size_t>& set, size_t c) const {
    std::vector<std::pair<int, int>> out;
    for (size_t i = 0; i < program_->nodes.size(); ++i)
      if (std::find(set.begin(), set.end(), i) == set.end()) out.emplace_back(static_cast<int>(c), static_cast<int>(i));
    return out;
  }

  std::string name_of_set(std::string name, const std::vector<size_t>& set, size_t c) const {
    for (size_t i : set)
      if (i != c) name += " + " + region_.labels[i];
    return set.size() == 1 && program_->nodes.size() > 1 ? name + " alone" : name;
  }

  static constexpr size_t kMostPairs = 4;  // of nodes
  const Region& region_;
  const std::shared_ptr<const program::Program> program_;
  const std::shared_ptr<const Pipeline> pipeline_;
  const SearchOptions& options_;
  RegionReport& report_;
  const size_t most_;  // choices
  Callers callers_;
  std::set<Hash128> seen_;
};

}  // namespace

bool is_wanted(const SearchOptions& options, const std::string& name, const Choice& choice) {
  for (auto& [node, way] : choice.ways) {
    const CallerKind kind = kind_of(way);
    if (program::alternative_of(way)) continue;
    const std::string_view by = kind == CallerKind::Library ? way.form : name_of(kind);
    if (std::find(options.backends.begin(), options.backends.end(), by) == options.backends.end()) return false;
  }
  return options.names.empty() || std::regex_search(name, to_pattern(options.names));
}

Callers choices_of(const Region& region, std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, RegionReport& report) {
  return Choices(region, std::move(pipeline), options, report).make();
}

}  // namespace toroid::tune

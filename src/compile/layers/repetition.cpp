#include "compile/layers/repetition.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"

namespace toroid::compiler {
namespace {

// Layers at either end of a run that may name other things than the rule says.
constexpr int64_t kEnds = 2;
// Layers of a run by which a rule can be told from what the ends do: two, and one at either end.
constexpr size_t kLeast = 4;
// Layers that a run may have less than the longest.
constexpr int64_t kFewer = 1;

struct Stretch {
  size_t first = 0, period = 0;
  int64_t layers = 0;
  size_t covers() const { return period * static_cast<size_t>(layers); }
};

// Items of one content, with what stands behind them, that follow each other at one distance, at least `least` of them: a layer may be as
// long as that. behind: how many items that is; an item that a layer has more than once may be told apart by what follows.
void find_candidates(const Sequence& s, int64_t least, size_t behind, std::vector<Stretch>& out) {
  std::unordered_map<uint64_t, std::vector<size_t>> where;
  for (size_t i = 0; i + behind < s.items.size(); ++i) {
    uint64_t key = 0;
    for (size_t k = i; k <= i + behind; ++k) key = (key ^ static_cast<uint64_t>(s.items[k].content)) * 0x9e3779b97f4a7c15U + (key >> 29);
    where[key].push_back(i);
  }
  for (auto& [key, at] : where) {
    size_t begin = 0;
    for (size_t i = 1; i < at.size(); ++i) {
      const size_t distance = at[i] - at[i - 1];
      if (i + 1 < at.size() && at[i + 1] - at[i] == distance) continue;
      const auto layers = static_cast<int64_t>(i - begin + 1);
      if (layers >= least) out.push_back({at[begin], distance, layers});
      begin = i;
    }
  }
}

// As far as the sequence goes on with that period to both sides of the stretch.
Stretch widest(const Sequence& s, const Stretch& from) {
  const size_t p = from.period, n = s.items.size();
  const auto equal = [&](size_t i) { return i + p < n && s.items[i].content == s.items[i + p].content; };
  size_t first = from.first, last = from.first;
  while (first > 0 && equal(first - 1)) --first;
  while (equal(last)) ++last;
  return {first, p, static_cast<int64_t>((last - first) / p) + 1};
}

}  // namespace

std::optional<Repetition> Repetition::find(Sequence sequence, int64_t least, std::string& why) {
  Repetition out;
  out.sequence_ = std::move(sequence);
  out.find_runs(least);
  if (out.runs_.empty()) return why = "nothing repeats often enough", std::nullopt;
  return std::move(out).with_rules(why);
}

std::optional<Repetition> Repetition::find(Sequence sequence, const Sequence& fewer, std::string& why) {
  Repetition out;
  out.sequence_ = std::move(sequence);
  if (!out.find_growth(fewer)) return why = "one layer more makes other programs in other places than between equal layers", std::nullopt;
  return std::move(out).with_rules(why);
}

std::optional<Repetition> Repetition::with_rules(std::string& why) && {
  find_places();
  if (!find_rules(why)) return std::nullopt;
  return std::move(*this);
}

// Where the shorter sequence ends a run, the longer one has another layer: like the one before it, and behind it the two are equal again.
bool Repetition::find_growth(const Sequence& fewer) {
  const auto &a = sequence_.items, &b = fewer.items;
  if (a.size() <= b.size()) return false;
  const auto equal = [&](size_t i, size_t j) { return i < a.size() && j < b.size() && a[i].content == b[j].content; };
  size_t i = 0, j = 0, free = 0;
  while (true) {
    while (equal(i, j)) ++i, ++j;
    if (i == a.size()) break;
    size_t period = 0, matches = 0;
    for (size_t p = 1; p <= a.size() - b.size() - (i - j) && p <= i - free; ++p) {
      if (!std::equal(a.begin() + static_cast<int64_t>(i - p), a.begin() + static_cast<int64_t>(i), a.begin() + static_cast<int64_t>(i),
                      [](auto& x, auto& y) { return x.content == y.content; }))
        continue;
      size_t more = 0;
      while (equal(i + p + more, j + more)) ++more;
      if (period == 0 || more > matches) period = p, matches = more;
    }
    if (period == 0) return false;
    const size_t end = i + period;
    size_t first = i - period;
    while (first > free && a[first - 1].content == a[first - 1 + period].content) --first;
    const size_t layers = (end - first) / period;
    if (layers < kLeast) return false;
    runs_.push_back({end - layers * period, period, static_cast<int64_t>(layers)});
    layers_ = std::max(layers_, static_cast<int64_t>(layers));
    i = free = end;
  }
  return j == b.size() && !runs_.empty();
}

void Repetition::find_runs(int64_t least) {
  std::vector<Stretch> found;
  for (const size_t behind : {0, 1, 3, 7}) find_candidates(sequence_, least - kFewer, behind, found);
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return std::pair(b.covers(), a.first) < std::pair(a.covers(), b.first); });
  std::vector<Stretch> taken;
  const auto is_free = [&](const Stretch& s) {
    return std::none_of(taken.begin(), taken.end(),
                        [&](auto& t) { return s.first < t.first + t.covers() && t.first < s.first + s.covers(); });
  };
  for (auto& candidate : found)
    if (is_free(candidate))
      if (const Stretch s = widest(sequence_, candidate); s.layers >= least - kFewer && is_free(s)) taken.push_back(s);
  // A run of `layers` layers out of a stretch: items that a layer has several times in a row are as many repetitions of one.
  const auto run_of = [](const Stretch& s, int64_t layers) -> std::optional<Run> {
    const int64_t times = std::max<int64_t>((s.layers + layers / 2) / layers, 1);
    const Run run{s.first, s.period * static_cast<size_t>(times), s.layers / times};
    return run.layers >= layers - kFewer && run.layers <= layers ? std::optional(run) : std::nullopt;
  };
  // The number of layers that explains most of the sequence.
  size_t best = 0;
  for (auto& with : taken) {
    if (with.layers < least) continue;
    size_t covers = 0;
    for (auto& s : taken) covers += run_of(s, with.layers) ? s.covers() : 0;
    if (covers > best || (covers == best && with.layers > layers_)) best = covers, layers_ = with.layers;
  }
  if (layers_ == 0) return;
  for (auto& s : taken)
    if (auto run = run_of(s, layers_)) runs_.push_back(*run);
  std::sort(runs_.begin(), runs_.end(), [](auto& a, auto& b) { return a.first < b.first; });
}

void Repetition::find_places() {
  places_.assign(sequence_.kinds.size(), Place{});
  for (size_t t = 0; t < places_.size(); ++t) places_[t].slot = static_cast<int>(t);
  std::vector<bool> seen(places_.size(), false);
  size_t run = 0;
  int64_t layer = -1;
  int slot = 0;
  for (size_t i = 0; i < sequence_.items.size(); ++i) {
    while (run < runs_.size() && i >= runs_[run].end()) ++run;
    const bool inside = run < runs_.size() && i >= runs_[run].first;
    if (inside && (i - runs_[run].first) % runs_[run].period == 0) {
      layer = static_cast<int64_t>((i - runs_[run].first) / runs_[run].period);
      slot = 0;
    }
    for (const int t : sequence_.items[i].things) {
      const Place here{static_cast<int>(run), layer, slot++};
      if (seen[static_cast<size_t>(t)]) continue;
      seen[static_cast<size_t>(t)] = true;
      if (!inside) continue;
      places_[static_cast<size_t>(t)] = here;
      things_[here] = t;
    }
  }
}

std::optional<int> Repetition::thing_at(const Place& p) const {
  if (p.run < 0) return p.slot;
  const auto at = things_.find(p);
  return at == things_.end() ? std::nullopt : std::optional(at->second);
}

// The rule that two layers in the middle suggest, and where the others depart from it; nothing where one departs that may not. The first of
// the two may itself be one that does.
std::optional<Repetition::Rule> Repetition::rule_of(const Run& run, size_t offset, size_t thing) const {
  const int64_t middle = run.layers / 2;
  auto rule = rule_of(run, offset, thing, middle - 1);
  return rule || middle + 1 >= run.layers ? rule : rule_of(run, offset, thing, middle);
}

std::optional<Repetition::Rule> Repetition::rule_of(const Run& run, size_t offset, size_t thing, int64_t first) const {
  const auto named = [&](int64_t layer) -> const Place& {
    return place_of(sequence_.items[run.first + run.period * static_cast<size_t>(layer) + offset].things[thing]);
  };
  const Place &before = named(first), &here = named(first + 1);
  Rule rule;
  rule.at = here;
  if (before != here) {
    const int64_t step = here.layer - before.layer;
    if (here.run < 0 || before.run != here.run || before.slot != here.slot || (step != 1 && step != -1)) return std::nullopt;
    rule.kind = step == 1 ? Rule::Kind::Along : Rule::Kind::Against;
    rule.at.layer = step == 1 ? here.layer - (first + 1) : here.layer + (first + 1);
  }
  if (rule.kind == Rule::Kind::Fixed && !is_near_end(rule.at)) return std::nullopt;
  for (int64_t layer = 0; layer < run.layers; ++layer) {
    Place expected = rule.at;
    if (rule.kind == Rule::Kind::Along) expected.layer = layer + rule.at.layer;
    if (rule.kind == Rule::Kind::Against) expected.layer = rule.at.layer - layer;
    if (named(layer) == expected) continue;
    if ((layer >= kEnds && layer < run.layers - kEnds) || !is_near_end(named(layer))) return std::nullopt;
    rule.otherwise[layer] = named(layer);
  }
  return rule;
}

bool Repetition::is_near_end(const Place& p) const { return p.run < 0 || p.layer < kEnds || p.layer >= layers_of(p.run) - kEnds; }

bool Repetition::find_rules(std::string& why) {
  for (size_t i = 0, run = 0; i < sequence_.items.size(); ++i) {
    while (run < runs_.size() && i == runs_[run].first) i = runs_[run++].end();
    if (i >= sequence_.items.size()) break;
    for (const int t : sequence_.items[i].things)
      if (!is_near_end(place_of(t))) {
        why = "something behind the layers reads what one in the middle makes";
        return false;
      }
  }
  for (const Run& run : runs_) {
    first_rule_.push_back(rules_.size());
    for (size_t j = 0; j < run.period; ++j) {
      const auto& things = sequence_.items[run.first + j].things;
      for (int64_t layer = 1; layer < run.layers; ++layer)
        if (sequence_.items[run.first + run.period * static_cast<size_t>(layer) + j].things.size() != things.size()) {
          why = "equal items name different numbers of things";
          return false;
        }
      auto& rules = rules_.emplace_back();
      for (size_t t = 0; t < things.size(); ++t) {
        auto rule = rule_of(run, j, t);
        if (!rule) {
          why = "item " + std::to_string(run.first + j) + " of a layer of " + std::to_string(run.period) + " names as number " +
                std::to_string(t) + " what lies elsewhere from layer to layer";
          return false;
        }
        rules.push_back(std::move(*rule));
      }
    }
  }
  return true;
}

int Repetition::like(const Place& p, int64_t more) const {
  if (p.run < 0) return p.slot;
  const int64_t split = split_of(p.run, more);
  Place from = p;
  if (p.layer >= split) from.layer = more > 0 && p.layer < split + more ? split : p.layer - more;
  const auto thing = thing_at(from);
  TOROID_CHECK(thing, "no thing is like that of run {}, layer {}, slot {}", p.run, p.layer, p.slot);
  return *thing;
}

std::vector<Repetition::Item> Repetition::resized(int64_t more) const {
  std::vector<Item> out;
  const auto as_it_is = [&](size_t i) {
    Item& item = out.emplace_back(Item{i, {}});
    for (const int t : sequence_.items[i].things) item.things.push_back(moved(place_of(t), more));
  };
  size_t next = 0;
  for (size_t r = 0; r < runs_.size(); ++r) {
    const Run& run = runs_[r];
    for (; next < run.first; ++next) as_it_is(next);
    const int64_t split = split_of(static_cast<int>(r), more), layers = run.layers + more;
    TOROID_CHECK(layers > 0, "a run of {} layers gets {} more", run.layers, more);
    for (int64_t layer = 0; layer < layers; ++layer) {
      const bool is_new = more > 0 && layer >= split && layer < split + more;
      const int64_t from = layer < split ? layer : is_new ? split : layer - more;
      for (size_t j = 0; j < run.period; ++j) {
        Item& item = out.emplace_back(Item{run.first + run.period * static_cast<size_t>(from) + j, {}});
        for (const Rule& rule : rules_[first_rule_[r] + j]) {
          Place at = rule.at;
          const auto other = rule.otherwise.find(from);
          if (other != rule.otherwise.end() && !is_new) {
            at = moved(other->second, more);
          } else if (rule.kind == Rule::Kind::Along) {
            at.layer += layer;
          } else if (rule.kind == Rule::Kind::Against) {
            at.layer += more - layer;
          } else {
            at = moved(at, more);
          }
          item.things.push_back(at);
        }
      }
    }
    next = run.end();
  }
  for (; next < sequence_.items.size(); ++next) as_it_is(next);
  return out;
}

}  // namespace toroid::compiler

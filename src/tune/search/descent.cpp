#include "tune/search/descent.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::tune {
namespace {

// Values next to `value` in the list, below and above.
std::vector<int64_t> next_to(int64_t value, const std::vector<int64_t>& list) {
  std::vector<int64_t> out;
  const auto at = std::lower_bound(list.begin(), list.end(), value);
  if (at != list.begin()) out.push_back(*std::prev(at));
  const auto above = at != list.end() && *at == value ? std::next(at) : at;
  if (above != list.end()) out.push_back(*above);
  return out;
}

// c with the field of that entry of the space moved one step, each way.
std::vector<program::Config> moved(const program::Config& c, const std::pair<std::string, std::vector<int64_t>>& entry) {
  std::vector<program::Config> out;
  for (size_t f = 0; f < c.fields.size(); ++f) {
    if (c.fields[f].first != entry.first) continue;
    for (int64_t v : next_to(c.fields[f].second, entry.second)) {
      out.push_back(c);
      out.back().fields[f].second = v;
    }
  }
  return out;
}

}  // namespace

std::vector<program::Config> one_step(const program::Config& c, const ConfigSpace& space) {
  std::vector<program::Config> out;
  for (auto& entry : space)
    for (auto& n : moved(c, entry)) out.push_back(std::move(n));
  return out;
}

std::vector<program::Config> two_steps(const program::Config& c, const ConfigSpace& space) {
  std::vector<program::Config> out;
  for (size_t i = 0; i < space.size(); ++i)
    for (auto& n : moved(c, space[i]))
      for (size_t j = i + 1; j < space.size(); ++j)
        for (auto& m : moved(n, space[j])) out.push_back(std::move(m));
  return out;
}

Descent descend(const program::Config& start, const Neighbours& neighbours, const MeasureConfigs& measure, const DescentOptions& options,
                const Clock& clock) {
  const double began = clock();
  const auto left_ms = [&] { return options.measure.budget_ms - (clock() - began); };
  Descent d;
  d.best = start;
  const auto is_new = [&](const program::Config& c) {
    return c != start && std::none_of(d.tried.begin(), d.tried.end(), [&](const Descent::Tried& t) { return t.config == c; });
  };
  MeasureOptions step = options.measure;
  // Whether one of those around the best is faster.
  const auto look_around = [&](const Neighbours& around) {
    std::vector<program::Config> configs{d.best};
    for (program::Config& c : around(d.best))
      if (is_new(c) && std::find(configs.begin(), configs.end(), c) == configs.end()) configs.push_back(std::move(c));
    step.budget_ms = left_ms() * 3 / 4;  // the rest is for what follows: the last comparison with the start, if nothing else
    if (configs.size() == 1 || step.budget_ms <= 0) return false;
    const Verdict v = measure(configs, step);
    TOROID_CHECK(v.candidates.size() == configs.size() && v.winner < configs.size());
    for (size_t i = 1; i < configs.size(); ++i) d.tried.push_back({configs[i], v.candidates[i].ratio, v.candidates[i].status, d.steps});
    d.out_of_budget = d.out_of_budget || v.out_of_budget;
    if (v.winner == 0 || !v.problem.empty()) return false;
    d.best = configs[v.winner];
    return true;
  };
  while (d.steps < options.most_steps && left_ms() > 0 && (look_around(neighbours) || (options.further && look_around(options.further))))
    ++d.steps;
  if (left_ms() <= 0) d.out_of_budget = true;
  if (d.best == start) return d;
  step.budget_ms = std::max(left_ms(), 0.0);
  const std::vector<program::Config> both{start, d.best};
  const Verdict v = measure(both, step);
  if (v.winner == 1 && v.problem.empty()) {
    d.ratio = v.candidates[1].ratio;
  } else {
    d.best = start;
  }
  return d;
}

}  // namespace toroid::tune

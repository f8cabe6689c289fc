#include "tune/search/refine.h"

#include <algorithm>

#include "base/check.h"
#include "tune/check/check.h"
#include "tune/region/precompile.h"
#include "tune/search/choices.h"
#include "tune/search/descent.h"

namespace toroid::tune {
namespace {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;

// A choice with one of its nodes left to be varied.
struct Varied {
  size_t node;
  program::Config start;  // empty: the rule's
  Choice rest;

  Choice with(const program::Config& c) const {
    Choice d = rest;
    if (c.empty()) return d;
    const auto after = std::find_if(d.ways.begin(), d.ways.end(), [&](auto& w) { return w.first > static_cast<int>(node); });
    d.ways.emplace(after, static_cast<int>(node), c);
    return d;
  }
};

Varied varied(const Choice& choice, size_t node) {
  Varied v{node, {}, choice};
  std::erase_if(v.rest.ways, [&](auto& way) {
    const bool is_own = way.first == static_cast<int>(node) && !is_layout(way.second);
    if (is_own) v.start = way.second;
    return is_own;
  });
  return v;
}

class Refining {
 public:
  Refining(Refinement from, RegionReport& report)
      : from_(std::move(from)), program_(std::make_shared<program::Program>(from_.region.program)), best_(from_.start), report_(report) {}

  std::shared_ptr<ChoiceCaller> run(double& ratio) {
    const Clock clock = steady_clock();
    const double end = clock() + from_.how.budget_ms;
    for (size_t c : from_.region.choice_nodes) {
      const Varied v = varied(best_->choice(), c);
      if (from_.region.program.nodes[c].is_open() || (!v.start.empty() && kind_of(v.start) != CallerKind::Template)) continue;
      const program::Program scheduled = from_.pipeline->schedule(apply(from_.region.program, v.rest, own_numbers(from_.region.program)));
      const size_t at = place_of(scheduled, c);
      TOROID_CHECK(at < scheduled.nodes.size(), "nothing computes {}", from_.region.label);
      DescentOptions d;
      d.measure = from_.how;
      d.measure.budget_ms = end - clock();
      if (d.measure.budget_ms <= 0) break;
      take(v,
           descend(
               v.start, [&](const program::Config& x) { return wanted_neighbours(v, scheduled, at, x); },
               [&](auto configs, auto& options) { return measured(v, configs, options); }, d),
           ratio);
    }
    return best_ == from_.start ? nullptr : best_;
  }

 private:
  std::vector<program::Config> wanted_neighbours(const Varied& v, const program::Program& scheduled, size_t at,
                                                 const program::Config& x) const {
    std::vector<program::Config> out = from_.pipeline->target->neighbours(scheduled, at, x);
    std::erase_if(out, [&](auto& c) {
      const Choice with = v.with(c);
      return !is_wanted(from_.options, program::to_string(c), with) || from_.refused.count(to_string(with)) > 0;
    });
    return out;
  }

  Verdict measured(const Varied& v, std::span<const program::Config> configs, const MeasureOptions& how) {
    Callers callers = {from_.original};
    for (auto& c : configs) callers.push_back(caller(v, c));
    const Clock clock = steady_clock();
    const double began = clock();
    precompile(callers, from_.options.workers);
    const auto left = [&] { return how.budget_ms - (clock() - began); };
    const std::vector<Measured> seen = from_.vet ? (*from_.vet)(callers, from_.region, left) : std::vector<Measured>(callers.size());
    MeasureOptions rest = how;
    rest.name = [&](size_t i) { return program::to_string(configs[i]); };
    rest.budget_ms = left();
    const Sample sample = from_.options.clock ? from_.options.clock(callers)
                                              : time_checked(callers, from_.region, from_.pipeline->device(), from_.options.equivalence);
    const Sample vetted = [&](size_t i) {
      if (!seen[i + 1].status.empty()) fail<UserError>("{}", seen[i + 1].status);
      return sample(i + 1);
    };
    return measure(configs.size(), vetted, rest);
  }

  std::shared_ptr<ChoiceCaller> caller(const Varied& v, const program::Config& c) const {
    const double most_ms = c == v.start ? 0 : from_.options.compile_ms;
    return std::make_shared<ChoiceCaller>(program::to_string(c), CallerKind::Template, v.with(c), program_, from_.pipeline, most_ms);
  }

  void take(const Varied& v, const Descent& d, double& ratio) {
    for (auto& t : d.tried) {
      const auto c = caller(v, t.config);
      ChoiceRow row{c->name(), c->kind(), to_string(c->choice()), {}};
      row.measured.status = !t.status.empty() ? t.status : fmt::format("step {}: {:.3f} of the best one's time", t.step + 1, t.ratio);
      report_.rows.push_back(std::move(row));
    }
    if (d.best == v.start) return;
    best_ = caller(v, d.best);
    best_->precompile();
    ratio *= d.ratio;
  }

  const Refinement from_;
  const std::shared_ptr<const program::Program> program_;
  std::shared_ptr<ChoiceCaller> best_;
  RegionReport& report_;
};

}  // namespace

std::shared_ptr<ChoiceCaller> refine(Refinement from, RegionReport& report, double& ratio) {
  return Refining(std::move(from), report).run(ratio);
}

}  // namespace toroid::tune

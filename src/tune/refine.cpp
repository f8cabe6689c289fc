#include "tune/refine.h"

#include <algorithm>

#include "base/check.h"
#include "tune/check.h"
#include "tune/choices.h"
#include "tune/descent.h"
#include "tune/precompile.h"

namespace toroid::tune {
namespace {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;

// A choice with one of its nodes left to be varied.
struct Varied {
  size_t node;
  choice::Config start;  // empty: the rule's
  Choice rest;

  Choice with(const choice::Config& c) const {
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
  Refining(const Region& region, std::shared_ptr<ChoiceCaller> original, std::shared_ptr<ChoiceCaller> start,
           std::shared_ptr<const Pipeline> pipeline, const SearchOptions& options, MeasureOptions how, Vet* vet, RegionReport& report)
      : region_(region),
        program_(std::make_shared<choice::Program>(region.program)),
        original_(std::move(original)),
        best_(std::move(start)),
        pipeline_(std::move(pipeline)),
        options_(options),
        how_(std::move(how)),
        vet_(vet),
        report_(report) {}

  std::shared_ptr<ChoiceCaller> run(double& ratio) {
    const auto start = best_;
    const Clock clock = steady_clock();
    const double end = clock() + how_.budget_ms;
    for (size_t c : region_.choice_nodes) {
      const Varied v = varied(best_->choice(), c);
      if (region_.program.nodes[c].is_open() || (!v.start.empty() && kind_of(v.start) != CallerKind::Template)) continue;
      const choice::Program scheduled = pipeline_->schedule(apply(region_.program, v.rest, own_numbers(region_.program)));
      const size_t at = place_of(scheduled, c);
      TOROID_CHECK(at < scheduled.nodes.size(), "nothing computes {}", region_.label);
      DescentOptions d;
      d.measure = how_;
      d.measure.budget_ms = end - clock();
      if (d.measure.budget_ms <= 0) break;
      take(v,
           descend(
               v.start, [&](const choice::Config& x) { return wanted_neighbours(v, scheduled, at, x); },
               [&](auto configs, auto& options) { return measured(v, configs, options); }, d),
           ratio);
    }
    return best_ == start ? nullptr : best_;
  }

 private:
  std::vector<choice::Config> wanted_neighbours(const Varied& v, const choice::Program& scheduled, size_t at,
                                                const choice::Config& x) const {
    std::vector<choice::Config> out = pipeline_->target->neighbours(scheduled, at, x);
    std::erase_if(out, [&](auto& c) { return !is_wanted(options_, choice::to_string(c), v.with(c)); });
    return out;
  }

  Verdict measured(const Varied& v, std::span<const choice::Config> configs, const MeasureOptions& how) {
    Callers callers = {original_};
    for (auto& c : configs) callers.push_back(caller(v, c));
    const Clock clock = steady_clock();
    const double began = clock();
    precompile(callers, options_.workers);
    const auto left = [&] { return how.budget_ms - (clock() - began); };
    const std::vector<Measured> seen = vet_ ? (*vet_)(callers, region_, left) : std::vector<Measured>(callers.size());
    MeasureOptions rest = how;
    rest.name = [&](size_t i) { return choice::to_string(configs[i]); };
    rest.budget_ms = left();
    const Sample sample =
        options_.clock ? options_.clock(callers) : time_checked(callers, region_, pipeline_->device(), options_.equivalence);
    const Sample vetted = [&](size_t i) {
      if (!seen[i + 1].status.empty()) fail<UserError>("{}", seen[i + 1].status);
      return sample(i + 1);
    };
    return measure(configs.size(), vetted, rest);
  }

  std::shared_ptr<ChoiceCaller> caller(const Varied& v, const choice::Config& c) const {
    const double most_ms = c == v.start ? 0 : options_.compile_ms;
    return std::make_shared<ChoiceCaller>(choice::to_string(c), CallerKind::Template, v.with(c), program_, pipeline_, most_ms);
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

  const Region& region_;
  const std::shared_ptr<const choice::Program> program_;
  const std::shared_ptr<ChoiceCaller> original_;
  std::shared_ptr<ChoiceCaller> best_;
  const std::shared_ptr<const Pipeline> pipeline_;
  const SearchOptions& options_;
  const MeasureOptions how_;
  Vet* const vet_;
  RegionReport& report_;
};

}  // namespace

std::shared_ptr<ChoiceCaller> refine(const Region& region, const std::shared_ptr<ChoiceCaller>& original,
                                     const std::shared_ptr<ChoiceCaller>& start, std::shared_ptr<const Pipeline> pipeline,
                                     const SearchOptions& options, MeasureOptions how, Vet* vet, RegionReport& report, double& ratio) {
  return Refining(region, original, start, std::move(pipeline), options, std::move(how), vet, report).run(ratio);
}

}  // namespace toroid::tune

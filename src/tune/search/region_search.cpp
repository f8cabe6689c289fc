#include "tune/search/region_search.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "ops/custom.h"
#include "tune/check/check.h"
#include "tune/check/together.h"
#include "tune/measure/recheck.h"
#include "tune/region/sizes.h"
#include "tune/search/refine.h"

namespace toroid::tune {
namespace {

using State = Candidate::State;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// How many times as fast as the default a choice must be: what the custom operations of the region ask for.
double least_speedup(const Region& r) {
  double out = 1;
  for (size_t c : r.choice_nodes)
    if (auto* open = std::get_if<program::Open>(&r.program.nodes[c].problem); open && open->op && ops::is_tuned(*open->op))
      out = std::max(out, ops::tuning_of(*open->op).min_speedup_threshold);
  return out;
}

}  // namespace

RegionSearch::RegionSearch(const Region& region, SharedSearch& shared)
    : region_(region),
      shared_(shared),
      options_(shared.options),
      terms_{least_speedup(region), shared.options.fusion_speedup},
      equal_{&region},
      refusal_(region.refusal) {
  group_ = meeting_group(region.program, refusal_);
  problem_ = region.key.hex() + (group_ ? "-" + group_->engine() : "");
  report_.label = region.label, report_.key = region.key;
}

RegionReport RegionSearch::take_report() {
  report_.places = equal_.size();
  report_.chosen = to_string(choice_);
  return std::move(report_);
}

// A step of the search, in the log.
void RegionSearch::event(const std::string& what) const {
  if (log_enabled(Artifact::Choices)) log(Artifact::Choices, region_.label + ": " + what);
}

std::string RegionSearch::default_refusal() const {
  if (report_.rows.empty()) return "";  // of others' decisions no more is known
  const Measured& m = report_.rows.front().measured;
  if (m.failed) return fmt::format("the default of {} does not run", region_.label);
  return m.ratio > 0 || m.status.empty() ? "" : fmt::format("the default of {} was not timed: {}", region_.label, m.status);
}

std::shared_ptr<ChoiceCaller> RegionSearch::known_winner() const {
  if (report_.source != kLockFile) return nullptr;
  return candidates_[find(candidates_, to_string(choice_)).value()].caller;
}

size_t RegionSearch::to_time() const { return in_state(candidates_, State::Open).size(); }

// The kernel templates of a candidate; empty where there is no order among its like.
std::string RegionSearch::form_of(const Candidate& c) const {
  std::string form;
  if (c.caller->kind() == CallerKind::Template)
    for (auto& [node, way] : c.caller->choice().ways) form += fmt::format("{}: {} ", node, way.form);
  return form;
}

void RegionSearch::next_wave(bool all) {
  if (!std::exchange(begun_, true)) {
    std::vector<Frontier::Entry> entries;
    for (size_t i : in_state(candidates_, State::Open)) entries.push_back({i, form_of(candidates_[i])});
    reference_ = entries.front().candidate;
    candidates_[reference_].state = State::Timed;
    entries.erase(entries.begin());
    frontier_ = Frontier(entries, all || group_);  // a look leaves others where the ranks' clocks differ
  }
  for (size_t i : frontier_.next()) candidates_[i].state = State::Tried;
}

Callers RegionSearch::wave() const { return callers_at(beside_reference(State::Tried)); }

MeasureOptions RegionSearch::measure_options(double most_ms) const {
  const Device& device = shared_.pipeline->device();
  MeasureOptions how;
  how.budget_ms = std::min(options_.region_ms, most_ms);
  how.grain_ns = grain_ns(region_, device);
  how.speedup = terms_.speedup;
  constexpr double kBetween = 0.01;  // H200: 105 ns of 9.4 us
  how.between = device.is_cuda() ? kBetween : 0;
  return how;
}

bool RegionSearch::step(const Left& left) {
  const Stopwatch watch;
  const Callers tried = wave();
  const auto is_compiled = [](auto& c) { return c->compiles() > 0; };
  event(fmt::format("compiled {} of {}", std::count_if(tried.begin(), tried.end(), is_compiled), tried.size()));
  bool last = true;
  if (!group_ && shared_.vet && left() > 0) vet(left);
  if (group_) {
    decide_together();
  } else if (report_.source.empty() && left() > 0) {
    last = look(left);
    if (last) time(left);
  } else if (report_.source.empty()) {
    not_reached();
  }
  const double spent = watch.ms();
  report_.spent_ms += spent, shared_.report.time_ms += spent;
  if (last) end();
  return last;
}

// The default stands, and nobody knows how good it is.
void RegionSearch::not_reached() {
  report_.source = kNotReached;
  report_.regret = kInfinity;
  reached_ = false;
  shared_.report.out_of_budget = true;
}

void RegionSearch::end() {
  for (Candidate& c : candidates_) {
    shared_.report.compiled += static_cast<size_t>(c.caller->compiles());
    c.caller->release();
  }
  decided_ = true;
  note();
}

// A first look at the wave: leaves those Near that may win yet. False: there is to be another wave.
bool RegionSearch::look(const Left& left) {
  constexpr size_t kRoundsOfALook = 3;    // enough for what differs by so much
  constexpr double kShareOfLooks = 0.25;  // of the time for a region
  const std::vector<size_t> seen = beside_reference(State::Tried);
  const auto all_are_near = [&] {
    for (size_t i : in_state(candidates_, State::Tried)) candidates_[i].state = State::Near;
    return true;
  };
  if (in_state(candidates_, State::Near).empty() && frontier_.is_done()) return all_are_near();  // no order among them to learn from
  MeasureOptions how = measure_options(left() / 2);
  how.budget_ms = std::min(how.budget_ms, kShareOfLooks * options_.region_ms);
  how.least_rounds = how.most_rounds = kRoundsOfALook;
  const Verdict v = measured(seen, how);
  if (!v.problem.empty()) return all_are_near();  // time() says so
  for (size_t k = 1; k < seen.size(); ++k) {
    const Measured& m = v.candidates[k];
    candidates_[seen[k]].now = m, candidates_[seen[k]].state = State::Near;
    frontier_.report(seen[k], m.failed ? 0 : m.ratio);
  }
  drop_far();
  if (!frontier_.is_done() && options_.budget_ms > 0 && shared_.left_ms() < options_.budget_ms / 2) frontier_.stop(), cut_short_ = true;
  event(fmt::format("looked at {}, {} go on", seen.size() - 1, in_state(candidates_, State::Near).size()));
  return frontier_.is_done();
}

// Of those that a look has shown, the ones that cannot win. The two best go on, whatever it has shown: one in some hundreds is far off.
void RegionSearch::drop_far() {
  constexpr double kNear = 1.1;  // times the best one's time
  const std::vector<size_t> near = in_state(candidates_, State::Near);
  std::vector<double> ratios;
  size_t best = 0;
  for (size_t i : near) {
    const Measured& m = *candidates_[i].now;
    if (!m.status.empty()) continue;
    ratios.push_back(m.ratio);
    if (m.ratio <= frontier_.best()) best = i;
  }
  std::sort(ratios.begin(), ratios.end());
  const double farthest = std::max(kNear * frontier_.best(), ratios.empty() ? 0 : ratios[std::min<size_t>(ratios.size(), 2) - 1]);
  for (size_t i : near) {
    Candidate& c = candidates_[i];
    Measured& m = *c.now;
    if (m.status.empty() && m.ratio <= farthest) continue;
    if (m.status.empty())
      m.status = fmt::format("dropped after a first look: its time is {:.3f} of that of {}", m.ratio / frontier_.best(), row_name(best));
    c.state = State::Out;
    c.caller->release();
  }
}

// Those that are not run; the others are timed now, and what a look has shown of them does not count.
void RegionSearch::set_aside() {
  for (size_t i : frontier_.passed_over()) {
    Candidate& c = candidates_[i];
    c.state = cut_short_ ? State::Out : State::PassedOver;
    c.now = Measured();
    c.now->status =
        cut_short_ ? "not run: half of the budget was used before" : "passed over: those before it in its template's order are far behind";
    report_.passed_over += !cut_short_;
  }
  for (size_t i : in_state(candidates_, State::Near)) candidates_[i].now.reset(), candidates_[i].state = State::Timed;
}

// Among those that may win.
void RegionSearch::time(const Left& left) {
  set_aside();
  MeasureOptions how = measure_options(left());
  how.budget_ms = std::min(how.budget_ms, std::max(0.0, options_.region_ms - report_.spent_ms));
  Verdict v = measured(in_state(candidates_, State::Timed), how);
  time_known(v, how, left);
  measure_again(v, how, left);
  const std::vector<size_t> timed = in_state(candidates_, State::Timed);
  const std::vector<exec::Symbols> across = sizes_across(region_.program, region_.sizes, !region_.sizes_seen);
  if (!across.empty() && reference_ == 0 && !options_.clock)  // a clock of a test knows no other sizes
    judged_ = judge_across(v, terms_.least_ratio(), [&](size_t best) { return ratios_across(timed[best], across, left); });
  event(fmt::format("timed {} in {:.0f} ms", timed.size(), v.spent_ms));
  take(v, left);
}

// A near verdict, with code and memory elsewhere.
void RegionSearch::measure_again(Verdict& v, const MeasureOptions& how, const Left& left) {
  const std::vector<size_t> timed = in_state(candidates_, State::Timed);
  std::vector<std::shared_ptr<exec::Executable>> kept;  // so that the next ones lie elsewhere
  const auto again = [&](size_t best) {
    const std::vector<size_t> both = {reference_, timed[best]};
    for (size_t i : both) kept.push_back(candidates_[i].caller->executable()), candidates_[i].caller->release();
    return measured(both, measure_options(left()));
  };
  recheck(v, again, how);
}

// Of a candidate's time to the default's, as far as there is time for these sizes.
std::vector<RatioAt> RegionSearch::ratios_across(size_t position, const std::vector<exec::Symbols>& sizes, const Left& left) const {
  constexpr double kShare = 0.25;  // of the time for a region, for all sizes
  const Callers both = callers_at({0, position});
  std::vector<RatioAt> out;
  for (auto& at : sizes) {
    if (left() <= 0) break;
    MeasureOptions how = measure_options(left());
    how.budget_ms = std::min(how.budget_ms, std::max(kShare * options_.region_ms / static_cast<double>(sizes.size()), 1.0));
    how.most_rounds = 4 * how.least_rounds;
    if (auto r = ratio_at(both, at, how)) out.push_back(std::move(*r));
  }
  return out;
}

// None where it cannot be judged at these sizes.
std::optional<RatioAt> RegionSearch::ratio_at(const Callers& both, const exec::Symbols& sizes, const MeasureOptions& how) const {
  const std::string at = exec::to_string(sizes);
  Region other = region_;
  other.sizes = sizes;
  const Sample sample = time_checked(both, other, shared_.pipeline->device(), options_.equivalence, false);
  try {
    for (size_t i : {0, 1}) sample(i);  // compares them, which is no part of the budget
  } catch (const EnvironmentError& e) {
    event(fmt::format("not judged at {}: {}", at, e.what()));
    return std::nullopt;
  } catch (const UserError& e) {
    return RatioAt{fmt::format("{}, where {}", at, e.what()), kInfinity};
  }
  const Measured m = measure(2, sample, how).candidates[1];
  if (m.ratio > 0) return RatioAt{at, m.ratio};
  event(fmt::format("not judged at {}: {}", at, m.status.empty() ? "no time was left" : m.status));
  return std::nullopt;
}

// The best that was known fails, or is slower than it was: those that were known to be slower are timed, too, while one of them may win.
void RegionSearch::time_known(Verdict& v, MeasureOptions how, const Left& left) {
  for (size_t next; (next = best_known(v)) > 0;) {
    how.budget_ms = std::min(how.budget_ms, left());
    v.out_of_budget = v.out_of_budget || how.budget_ms <= 0;
    if (how.budget_ms <= 0) return;
    const std::vector<size_t> timed = in_state(candidates_, State::Timed);
    for (size_t k = 0; k < timed.size(); ++k) {
      if (timed[k] == reference_ || !v.candidates[k].failed) continue;
      candidates_[timed[k]].now = v.candidates[k], candidates_[timed[k]].state = State::Out;
    }
    Candidate& c = candidates_[next];
    c.state = State::Tried;
    if (shared_.vet) vet(left);
    if (c.state == State::Tried) c.state = State::Timed, reference_ = std::min(reference_, next);
    v = measured(in_state(candidates_, State::Timed), how);
  }
}

// The fastest of those that are not timed now, by what is known, where it is faster than the winner or that cannot be said; else 0.
size_t RegionSearch::best_known(const Verdict& v) const {
  if (!v.problem.empty()) return 0;
  const bool has_default = reference_ == 0 && !v.candidates.front().failed;  // else ratios are to another one than those that are known
  double least =
      has_default ? std::min(terms_.least_ratio(), v.candidates[v.winner].ratio * (1 - MeasureOptions{}.tie_band / 2)) : kInfinity;
  const bool wins_fused = candidates_[in_state(candidates_, State::Timed)[v.winner]].is_fused();
  size_t best = 0;
  for (size_t i = 1; i < candidates_.size(); ++i) {
    const Candidate& c = candidates_[i];
    const double asked = (c.is_fused() && !wins_fused ? terms_.fusion_speedup : 1) * c.before.ratio;
    if (c.state != State::Known || c.before.failed || c.before.ratio <= 0 || asked >= least) continue;
    best = i, least = asked;
  }
  return best;
}

Verdict RegionSearch::measured(const std::vector<size_t>& positions, MeasureOptions how) const {
  const Callers callers = callers_at(positions);
  how.name = [&](size_t i) { return row_name(positions[i]); };
  return measure(
      callers.size(),
      options_.clock ? options_.clock(callers) : time_checked(callers, region_, shared_.pipeline->device(), options_.equivalence), how);
}

std::vector<size_t> RegionSearch::beside_reference(State state) const {
  std::vector<size_t> out = {reference_};
  for (size_t i : in_state(candidates_, state))
    if (i != reference_) out.push_back(i);
  return out;
}

Callers RegionSearch::callers_at(const std::vector<size_t>& positions) const {
  Callers out;
  for (size_t i : positions) out.push_back(candidates_[i].caller);
  return out;
}

// Leaves Tried what may run in this process. What the default did may be the end of tuning the region.
void RegionSearch::vet(const Left& left) {
  const std::vector<size_t> asked = beside_reference(State::Tried);
  const std::vector<Measured> seen = (*shared_.vet)(callers_at(asked), region_, left);
  for (size_t k = 0; k < seen.size(); ++k) {
    if (seen[k].status.empty()) continue;
    Candidate& c = candidates_[asked[k]];
    c.now = seen[k];
    if (k > 0) c.state = State::Out;
    event(fmt::format("{}, in a process of its own: {}", c.caller->name(), seen[k].status));
  }
  default_unsure_ = default_unsure_ || (!seen[0].failed && !seen[0].status.empty());
  if (seen[0].failed) {
    report_.source = fmt::format("not tuned: in a process of its own, {} {}", candidates_[asked[0]].caller->name(), seen[0].status);
    add_rows(results_of(candidates_));
  } else if (shared_.memory) {  // now: the budget may end before the others are timed
    shared_.memory->remember(problem_, texts(), results_of(candidates_), kernels_of(), decision(), false, terms_.text());
  }
}

void RegionSearch::add_rows(std::vector<Measured> measured) {
  align_times(measured);
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& c = candidates_[i];
    report_.rows.push_back({c.caller->name(), c.caller->kind(), c.text, measured[i], c.caller->compile_ms()});
  }
}

// Of all candidates, a line each.
std::string RegionSearch::reasons() const {
  std::string out;
  for (const Candidate& c : candidates_) out += fmt::format("\n  {}: {}", c.caller->name(), c.result().status);
  return out;
}

// Whether the decision may be another one with more time. v: of those that were timed.
bool RegionSearch::is_left_open(const Verdict& v) const {
  return v.out_of_budget || default_unsure_ || std::any_of(candidates_.begin(), candidates_.end(), [](auto& c) {
           return c.state == State::Out && !c.now->failed && c.now->ratio == 0;  // neither failed nor timed: there was no time for it
         });
}

// v: of those that were timed.
void RegionSearch::take(const Verdict& v, const Left& left) {
  const std::vector<size_t> timed = in_state(candidates_, State::Timed);
  const auto ran = [](const Measured& m) { return m.rounds > 0 || m.ratio > 0; };
  for (size_t k = 0; k < timed.size(); ++k) {
    Measured& m = candidates_[timed[k]].now.emplace(v.candidates[k]);
    if (!ran(m) && !m.failed && m.status.empty()) m.status = "not run: the budget was used before";
  }
  if (!v.problem.empty()) {
    if (region_.sizes_seen)
      fail<EnvironmentError>("nothing computes {} on this machine; each choice, and why it does not:{}", region_.label, reasons());
    report_.source = fmt::format("not tuned: at {}: {}", exec::to_string(region_.sizes), v.candidates.front().status);
    return;
  }
  const std::vector<Measured> results = results_of(candidates_);
  // The default, which is the first, says nothing by itself where there are others.
  const bool compared = std::any_of(v.candidates.begin() + (timed.size() > 1 ? 1 : 0), v.candidates.end(), ran);
  if (!compared && options_.budget_ms > 0) {  // it ended before a choice ran
    add_rows(results);
    not_reached();
    if (shared_.memory) shared_.memory->remember(problem_, texts(), results, kernels_of(), decision(), false, terms_.text());
    return;
  }
  const size_t winner = fused_enough(candidates_, When::Now, timed[v.winner], terms_);
  add_rows(results);
  bool left_open = !group_ && is_left_open(v);  // ranks have so much time for a decision, and no more another time
  report_.winner = winner;
  report_.source = region_.sizes.empty() ? "timed" : "timed at " + exec::to_string(region_.sizes);
  if (!judged_.empty()) report_.source += "; " + judged_;
  report_.noise = v.noise, report_.flip = v.flip, report_.regret = compared ? v.regret_bound : kInfinity;
  report_.kernels = candidates_[winner].caller->name_kernels();
  report_.ratio = results[winner].ratio > 0 ? results[winner].ratio : 1;
  choice_ = candidates_[winner].caller->choice();
  if (options_.descent && !group_) {
    improve(left());
    left_open = left_open || (options_.budget_ms > 0 && left() <= 0);
  }
  shared_.report.out_of_budget = shared_.report.out_of_budget || left_open;
  event(fmt::format("{}; {} original choices, {} fused, {} total", report_.rows[report_.winner].name, report_.originals, report_.fused,
                    candidates_.size()));
  if (shared_.memory) shared_.memory->remember(problem_, texts(), results, kernels_of(), decision(), !left_open, terms_.text());
}

// Steps from the winner.
void RegionSearch::improve(double left_ms) {
  Refinement from{region_,
                  candidates_.front().caller,
                  candidates_[report_.winner].caller,
                  shared_.pipeline,
                  options_,
                  measure_options(left_ms),
                  shared_.vet.get(),
                  {}};
  if (from.how.budget_ms <= 0) return;
  for (const Candidate& c : candidates_)
    if (c.result().failed || !c.caller->failure().empty()) from.refused.insert(c.text);
  double ratio = 1;
  const auto better = refine(std::move(from), report_, ratio);
  if (!better) return;
  const std::string text = to_string(better->choice());
  // The last one: a step may have measured again what was listed.
  const auto row = std::find_if(report_.rows.rbegin(), report_.rows.rend(), [&](auto& r) { return r.text == text; });
  TOROID_CHECK(row != report_.rows.rend());
  report_.winner = static_cast<size_t>(report_.rows.rend() - row) - 1;
  report_.ratio *= ratio;
  report_.kernels = better->kernels();
  choice_ = better->choice();
}

void RegionSearch::put_back() {
  choice_ = {};
  report_.source += "; put back, as the whole program was slower with it";
  report_.winner = 0;
  report_.ratio = 1;
  report_.kernels.clear();
  note();
}

}  // namespace toroid::tune

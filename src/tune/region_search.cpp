#include "tune/region_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/log.h"
#include "ops/custom.h"
#include "tune/check.h"
#include "tune/choices.h"
#include "tune/recheck.h"
#include "tune/refine.h"
#include "tune/sizes.h"

namespace toroid::tune {
namespace {

constexpr std::string_view kPassedOver = "passed over";

// What a choice is called in the remarks on others.
std::string row_name(size_t position) { return position == 0 ? "the default" : fmt::format("row {}", position + 1); }

// What was measured of the choices when it was.
std::vector<Measured> measured_once(const std::vector<std::string>& texts, const std::vector<CandidateRecord>& records) {
  std::vector<Measured> out(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto r = std::find_if(records.begin(), records.end(), [&](auto& known) { return known.candidate == texts[i]; });
    if (r == records.end()) continue;
    Measured& m = out[i];
    m.rounds = static_cast<size_t>(r->rounds), m.median_ns = r->median_ns, m.spread = r->spread;
    m.ratio = r->ratio, m.ratio_low = r->ratio_low, m.ratio_high = r->ratio_high;
    m.failed = r->outcome != Outcome::Timed, m.outcome = r->outcome;
    if (m.failed) m.status = fmt::format("{}: {}", name_of(r->outcome), r->reason);
  }
  return out;
}

// How many times as fast as the default a choice must be: what the custom operations of the region ask for.
double least_speedup(const Region& r) {
  double out = 1;
  for (size_t c : r.choice_nodes)
    if (auto* open = std::get_if<choice::Open>(&r.program.nodes[c].problem); open && open->op && ops::is_tuned(*open->op))
      out = std::max(out, ops::tuning_of(*open->op).min_speedup_threshold);
  return out;
}

}  // namespace

double ms_since(SteadyClock::time_point t) { return std::chrono::duration<double, std::milli>(SteadyClock::now() - t).count(); }

RegionSearch::RegionSearch(const Region& region, SharedSearch& shared)
    : region_(region), shared_(shared), options_(shared.options), equal_{&region} {
  report_.label = region.label, report_.key = region.key;
}

RegionReport RegionSearch::take_report() {
  report_.places = equal_.size();
  report_.chosen = to_string(choice_);
  return std::move(report_);
}

void RegionSearch::prepare() {
  if (!region_.refusal.empty()) {
    report_.source = "not tuned: " + region_.refusal;
    decided_ = true;
    return;
  }
  callers_ = choices_of(region_, shared_.pipeline, options_, report_);
  for (auto& c : callers_) texts_.push_back(to_string(c->choice()));
  event(fmt::format("listed {} choices, {} unwanted, {} left out", callers_.size(), report_.unwanted, report_.untried));
  const Memory* memory = shared_.memory;
  // Where options leave one way a lock file decides all the same, and is told of the default: it may be read without these options.
  if (callers_.size() < 2 && !(memory && (memory->locks(region_.key.hex()) || (memory->locked() && report_.unwanted > 0)))) {
    decided_ = true;
    report_.source = report_.unwanted == 0 ? "not tuned: there is one way to compute it"
                                           : "not tuned: tune_backends and tune_choices leave one way to compute it";
    if (report_.unwanted > 0) note();
  } else if (memory) {
    recall();
  } else {
    for (size_t i = 0; i < callers_.size(); ++i) timed_.push_back(i);
  }
}

// A step of the search, in the log.
void RegionSearch::event(const std::string& what) const {
  if (log_enabled(Artifact::Choices)) log(Artifact::Choices, region_.label + ": " + what);
}

// What is asked of a winner but for being the fastest; empty where nothing is.
std::string RegionSearch::terms() const {
  std::string out;
  if (const double speedup = least_speedup(region_); speedup > 1) out += fmt::format(", {:.3f} times as fast as the default", speedup);
  if (options_.fusion_speedup > 1) out += fmt::format(", fused {:.3f} times as fast as not", options_.fusion_speedup);
  return out;
}

// What refine() found once is made a choice again, if it compiles here.
bool RegionSearch::has_choice(const std::string& text) {
  if (std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return true;
  try {
    auto caller = std::make_shared<ChoiceCaller>(text, CallerKind::Template, parse_choice(text),
                                                 std::make_shared<choice::Program>(region_.program), shared_.pipeline, options_.compile_ms);
    caller->precompile();
    if (!caller->failure().empty()) return false;
    callers_.push_back(std::move(caller));
  } catch (const UserError&) {
    return false;
  }
  texts_.push_back(text);
  return true;
}

void RegionSearch::recall() {
  const size_t listed = texts_.size();
  Recalled known = shared_.memory->recall(
      region_.key.hex(), texts_, [&](const std::string& text) { return has_choice(text); }, kernels_of(), terms());
  if (!known.winner.empty() && !shared_.memory->locked()) verify(known, listed);
  if (known.winner.empty()) {
    if (known.time.empty()) decide_by_records(known);
    add_best_unfused(known);
  }
  timed_ = std::move(known.time);
  before_ = measured_once(texts_, known.records);
  for (size_t i = 0; i < known.refusals.size(); ++i)
    if (!known.refusals[i].empty()) callers_[i]->mark_failed(known.refusals[i]);
  const auto at = std::find(texts_.begin(), texts_.end(), known.winner);
  if (at == texts_.end()) {
    event(fmt::format("known are {} of them, {} are to be timed", known.records.size(), timed_.size()));
    return;
  }
  event(known.drift.empty() ? fmt::format("decided by {}: {}", known.source, known.winner) : known.drift + ": the default");
  decided_ = true;
  report_.source = known.source;
  report_.drift = known.drift;
  report_.ratio = known.ratio;
  const auto winner = static_cast<size_t>(at - texts_.begin());
  choice_ = callers_[winner]->choice();
  report_.kernels = callers_[winner]->name_kernels();
  if (known.drift.empty() && known.kernels != report_.kernels && known.kernels != "none")
    report_.drift = fmt::format("its kernels are {}, the {} has {}", report_.kernels, known.source, known.kernels);
  if (!known.records.empty()) {
    std::vector<Measured> measured = measured_once(texts_, known.records);
    if (measured[winner].ratio == 0) measured[winner].ratio = known.ratio;  // that refine() found
    add_rows(measured);
    report_.winner = winner;
  }
  note();
}

// The hash of a choice's kernels.
Memory::KernelsOf RegionSearch::kernels_of() const {
  return [this](size_t i) { return callers_[i]->name_kernels(); };
}

// A decision is about kernels. Where those of its winner are others by now, what was measured was something else.
void RegionSearch::verify(Recalled& known, size_t listed) {
  const auto at = std::find(texts_.begin(), texts_.end(), known.winner);
  const std::string now = callers_[static_cast<size_t>(at - texts_.begin())]->name_kernels();
  if (!now.empty() && known.kernels == now) return;
  event(now.empty() ? fmt::format("no kernels are generated for {}, which the {} has", known.winner, known.source)
                    : fmt::format("the kernels of {} are others than those that the {} has", known.winner, known.source));
  known = {};
  texts_.resize(listed), callers_.resize(listed);
  for (size_t i = 0; i < listed; ++i) known.time.push_back(i);
}

// Of its time to the default's: less, and another choice than the default may win.
double RegionSearch::least_ratio() const { return std::min(1 / least_speedup(region_), 1 - MeasureOptions{}.tie_band / 2); }

// Of choices that were all measured, in other sets: the default, unless another was faster by as much as is asked for; of equals the first.
// Where that is not sure, or not the end of it, both are timed; where the default cannot be run, all: they were compared with several
// others.
void RegionSearch::decide_by_records(Recalled& known) {
  const std::vector<Measured> measured = measured_once(texts_, known.records);
  if (measured.front().failed) {
    const bool none_runs = std::all_of(measured.begin(), measured.end(), [](auto& m) { return m.failed; });
    if (none_runs) known.refusals.clear();  // all are tried again: the program needs one
    for (size_t i = 0; i < measured.size(); ++i)
      if (none_runs || !measured[i].failed) known.time.push_back(i);
    return;
  }
  const auto may_win = [&](size_t i) { return !measured[i].failed && measured[i].ratio > 0 && measured[i].ratio < least_ratio(); };
  double best = 1;
  for (size_t i = 1; i < texts_.size(); ++i)
    if (may_win(i)) best = std::min(best, measured[i].ratio);
  size_t winner = 0;
  while (best < 1 && !(may_win(winner) && measured[winner].ratio <= best * (1 + MeasureOptions{}.tie_band / 2))) ++winner;
  winner = fused_enough(measured, winner);
  const Measured& m = measured[winner];
  known.kernels = callers_[winner]->name_kernels();
  // Records hold ratios at the usual sizes and means over the range alike: what was not judged over it is timed.
  const bool has_range = !sizes_across(region_.program, region_.sizes, !region_.sizes_seen).empty();
  if (known.kernels.empty() || options_.descent || (winner > 0 && (has_range || m.ratio_high <= 0 || m.ratio_high >= 1))) {
    known.time = {0};
    if (winner > 0) known.time.push_back(winner);
    return;
  }
  known.source = kDatabase;
  known.winner = texts_[winner];
  if (winner > 0) known.ratio = m.ratio;
  DecisionRecord d;
  d.label = region_.label, d.winner = known.winner, d.kernels = known.kernels, d.ratio = known.ratio;
  shared_.memory->settle(region_.key.hex(), texts_, d, terms());
}

// To those that are to be timed, where a fused choice must be faster than it by as much as is asked for.
void RegionSearch::add_best_unfused(Recalled& known) const {
  if (known.time.empty() || options_.fusion_speedup <= 1) return;
  const size_t best = best_unfused(measured_once(texts_, known.records), 1);
  if (std::find(known.time.begin(), known.time.end(), best) == known.time.end() && (best > 0 || known.refusals.front().empty()))
    known.time.insert(std::upper_bound(known.time.begin(), known.time.end(), best), best);
}

bool RegionSearch::default_runs() const {
  if (report_.rows.empty()) return true;  // of others' decisions no more is known
  const Measured& m = report_.rows.front().measured;
  return !m.failed && (m.ratio > 0 || m.status.empty());
}

std::shared_ptr<ChoiceCaller> RegionSearch::known_winner() const {
  if (report_.source != kLockFile) return nullptr;
  const auto at = std::find(texts_.begin(), texts_.end(), to_string(choice_));
  return callers_[static_cast<size_t>(at - texts_.begin())];
}

DecisionRecord RegionSearch::decision() const {
  DecisionRecord d;
  d.label = region_.label;
  d.winner = to_string(choice_);
  d.kernels = report_.kernels;
  d.ratio = report_.ratio;
  d.flip = report_.flip, d.regret = report_.regret;
  return d;
}

// The form of each choice but for the default; empty where there is no order among its like.
std::vector<std::string> RegionSearch::forms() const {
  std::vector<std::string> out;
  for (size_t k = 1; k < timed_.size(); ++k) {
    const ChoiceCaller& c = *callers_[timed_[k]];
    std::string form;
    if (c.kind() == CallerKind::Template)
      for (auto& [node, way] : c.choice().ways) form += fmt::format("{}: {} ", node, way.form);
    out.push_back(std::move(form));
  }
  return out;
}

void RegionSearch::next_wave(bool all) {
  if (!std::exchange(begun_, true)) frontier_ = Frontier(forms(), all);
  wave_.clear();
  for (size_t k : frontier_.next()) wave_.push_back(timed_[1 + k]);
}

Callers RegionSearch::wave() const { return callers_at(with_default(wave_)); }

MeasureOptions RegionSearch::measure_options(double most_ms) const {
  const Device& device = shared_.pipeline->device();
  MeasureOptions how;
  how.budget_ms = std::min(options_.region_ms, most_ms);
  how.grain_ns = grain_ns(region_, device);
  how.speedup = least_speedup(region_);
  constexpr double kBetween = 0.01;  // H200: 105 ns of 9.4 us
  how.between = device.is_cuda() ? kBetween : 0;
  return how;
}

bool RegionSearch::step(const Left& left) {
  const auto begun = SteadyClock::now();
  const Callers tried = wave();
  const auto is_compiled = [](auto& c) { return c->compiles() > 0; };
  event(fmt::format("compiled {} of {}", std::count_if(tried.begin(), tried.end(), is_compiled), tried.size()));
  if (shared_.vet && left() > 0) vet(left);
  bool last = true;
  if (report_.source.empty() && left() > 0) {
    last = look(left);
    if (last) time(left);
  } else if (report_.source.empty()) {
    report_.source = "not tuned: the budget was used";
    shared_.report.out_of_budget = true;
  }
  const double spent = ms_since(begun);
  report_.spent_ms += spent, shared_.report.time_ms += spent;
  if (last) end();
  return last;
}

void RegionSearch::end() {
  for (auto& c : callers_) {
    shared_.report.compiled += static_cast<size_t>(c->compiles());
    c->release();
  }
  decided_ = true;
  note();
}

// A first look at the wave: leaves those in near_ that may win yet. False: there is to be another wave.
bool RegionSearch::look(const Left& left) {
  constexpr size_t kRoundsOfALook = 3;         // enough for what differs by so much
  constexpr double kShareOfLooks = 0.25;       // of the time for a region
  constexpr double kNear = 1.1;                // times the best one's time
  if (near_.empty() && frontier_.is_done()) {  // no order among them to learn from
    near_ = wave_;
    return true;
  }
  MeasureOptions how = measure_options(left() / 2);
  how.budget_ms = std::min(how.budget_ms, kShareOfLooks * options_.region_ms);
  how.least_rounds = how.most_rounds = kRoundsOfALook;
  const std::vector<size_t> seen = with_default(wave_);
  const Verdict v = measured(seen, how);
  if (!v.problem.empty()) {  // time() says so
    near_ = wave_;
    return true;
  }
  for (size_t k = 1; k < seen.size(); ++k) {
    left_out_[seen[k]] = v.candidates[k];
    near_.push_back(seen[k]);
    const auto at = std::find(timed_.begin() + 1, timed_.end(), seen[k]);
    frontier_.report(static_cast<size_t>(at - timed_.begin() - 1), v.candidates[k].failed ? 0 : v.candidates[k].ratio);
  }
  std::vector<double> ratios;
  for (size_t i : near_)
    if (const Measured& m = left_out_.at(i); m.status.empty()) ratios.push_back(m.ratio);
  std::sort(ratios.begin(), ratios.end());
  // The two best go on, whatever a look has shown: one in some hundreds is far off.
  size_t best = 0;
  for (size_t i : near_)
    if (const Measured& m = left_out_.at(i); m.status.empty() && m.ratio <= frontier_.best()) best = i;
  const double farthest = std::max(kNear * frontier_.best(), ratios.empty() ? 0 : ratios[std::min<size_t>(ratios.size(), 2) - 1]);
  std::erase_if(near_, [&](size_t i) {
    Measured& m = left_out_.at(i);
    const bool is_near = m.status.empty() && m.ratio <= farthest;
    if (!is_near && m.status.empty())
      m.status = fmt::format("dropped after a first look: its time is {:.3f} of that of {}", m.ratio / frontier_.best(), row_name(best));
    if (!is_near) callers_[i]->release();
    return !is_near;
  });
  if (!frontier_.is_done() && options_.budget_ms > 0 && shared_.left_ms() < options_.budget_ms / 2) frontier_.stop(), cut_short_ = true;
  event(fmt::format("looked at {}, {} go on", seen.size() - 1, near_.size()));
  return frontier_.is_done();
}

// Among those that may win.
void RegionSearch::time(const Left& left) {
  const std::vector<size_t> asked = timed_;
  for (size_t k : frontier_.passed_over()) {
    left_out_[asked[1 + k]].status = cut_short_ ? "not run: half of the budget was used before"
                                                : fmt::format("{}: those before it in its template's order are far behind", kPassedOver);
    report_.passed_over += !cut_short_;
  }
  for (size_t i : near_) left_out_.erase(i);
  timed_ = with_default(near_);
  MeasureOptions how = measure_options(left());
  how.budget_ms = std::min(how.budget_ms, std::max(0.0, options_.region_ms - report_.spent_ms));
  Verdict v = measured(timed_, how);
  time_known(v, how, left);
  std::vector<std::shared_ptr<exec::Executable>> kept;  // so that code and memory lie elsewhere in the next measurement
  recheck(
      v,
      [&](size_t best) {
        const std::vector<size_t> both = {timed_.front(), timed_[best]};
        for (size_t i : both) kept.push_back(callers_[i]->executable()), callers_[i]->release();
        return measured(both, measure_options(left()));
      },
      how);
  const std::vector<exec::Symbols> across = sizes_across(region_.program, region_.sizes, !region_.sizes_seen);
  if (!across.empty() && timed_.front() == 0 && !options_.clock)  // a clock of a test knows no other sizes
    judged_ = judge_across(v, least_ratio(), [&](size_t best) { return ratios_across(timed_[best], across, left); });
  event(fmt::format("timed {} in {:.0f} ms", timed_.size(), v.spent_ms));
  take(v, left);
}

// Of a choice's time to the default's, as far as there is time for these sizes.
std::vector<RatioAt> RegionSearch::ratios_across(size_t position, const std::vector<exec::Symbols>& sizes, const Left& left) const {
  constexpr double kShare = 0.25;  // of the time for a region, for all sizes
  const Callers both = callers_at({0, position});
  std::vector<RatioAt> out;
  for (auto& at : sizes) {
    if (left() <= 0) break;
    Region other = region_;
    other.sizes = at;
    MeasureOptions how = measure_options(left());
    how.budget_ms = std::min(how.budget_ms, std::max(kShare * options_.region_ms / static_cast<double>(sizes.size()), 1.0));
    how.most_rounds = 4 * how.least_rounds;
    const Sample sample = time_checked(both, other, shared_.pipeline->device(), options_.equivalence, false);
    try {
      for (size_t i : {0, 1}) sample(i);  // compares them, which is no part of the budget
    } catch (const EnvironmentError& e) {
      event(fmt::format("not judged at {}: {}", exec::to_string(at), e.what()));
      continue;
    } catch (const UserError& e) {
      out.push_back({fmt::format("{}, where {}", exec::to_string(at), e.what()), std::numeric_limits<double>::infinity()});
      continue;
    }
    const Measured m = measure(2, sample, how).candidates[1];
    if (m.ratio > 0)
      out.push_back({exec::to_string(at), m.ratio});
    else
      event(fmt::format("not judged at {}: {}", exec::to_string(at), m.status.empty() ? "no time was left" : m.status));
  }
  return out;
}

// The best that was known fails, or is slower than it was: those that were known to be slower are timed, too, while one of them may win.
void RegionSearch::time_known(Verdict& v, MeasureOptions how, const Left& left) {
  for (size_t next; (next = best_known(v)) > 0;) {
    how.budget_ms = std::min(how.budget_ms, left());
    v.out_of_budget = v.out_of_budget || how.budget_ms <= 0;
    if (how.budget_ms <= 0) return;
    for (size_t k = timed_.size(); k-- > 1;) {
      if (!v.candidates[k].failed) continue;
      left_out_[timed_[k]] = v.candidates[k];
      timed_.erase(timed_.begin() + static_cast<long>(k));
    }
    wave_ = {next};
    if (shared_.vet) vet(left);
    if (!wave_.empty()) timed_.insert(std::upper_bound(timed_.begin(), timed_.end(), next), next);
    v = measured(timed_, how);
  }
}

// The fastest of those that are not timed now, by what is known, where it is faster than the winner or that cannot be said; else 0.
size_t RegionSearch::best_known(const Verdict& v) const {
  if (before_.empty() || !v.problem.empty()) return 0;
  const bool has_default = timed_.front() == 0 && !v.candidates.front().failed;  // else ratios are to another one than those that are known
  double least = has_default ? std::min(least_ratio(), v.candidates[v.winner].ratio * (1 - MeasureOptions{}.tie_band / 2))
                             : std::numeric_limits<double>::infinity();
  const auto is_fused = [&](size_t i) { return callers_[i]->kind() == CallerKind::Fused; };
  size_t best = 0;
  for (size_t i = 1; i < before_.size(); ++i) {
    const Measured& m = before_[i];
    const double asked = is_fused(i) && !is_fused(timed_[v.winner]) ? options_.fusion_speedup : 1;
    if (m.failed || m.ratio <= 0 || asked * m.ratio >= least || left_out_.count(i)) continue;
    if (std::find(timed_.begin(), timed_.end(), i) == timed_.end()) best = i, least = asked * m.ratio;
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

std::vector<size_t> RegionSearch::with_default(const std::vector<size_t>& others) const {
  std::vector<size_t> out = {timed_.front()};
  out.insert(out.end(), others.begin(), others.end());
  std::sort(out.begin() + 1, out.end());
  return out;
}

Callers RegionSearch::callers_at(const std::vector<size_t>& positions) const {
  Callers out;
  for (size_t i : positions) out.push_back(callers_[i]);
  return out;
}

// Leaves in wave_ what may run in this process. What the default did may be the end of tuning the region.
void RegionSearch::vet(const Left& left) {
  const std::vector<size_t> asked = with_default(std::exchange(wave_, {}));
  const std::vector<Measured> seen = (*shared_.vet)(callers_at(asked), region_, left);
  for (size_t k = 0; k < seen.size(); ++k) {
    if (seen[k].status.empty()) {
      if (k > 0) wave_.push_back(asked[k]);
      continue;
    }
    left_out_[asked[k]] = seen[k];
    event(fmt::format("{}, in a process of its own: {}", callers_[asked[k]]->name(), seen[k].status));
  }
  if (seen[0].failed) {
    report_.source = fmt::format("not tuned: in a process of its own, {} {}", callers_[asked[0]]->name(), seen[0].status);
    add_rows(known());
  } else if (shared_.memory) {  // now: the budget may end before the others are timed
    shared_.memory->remember(region_.key.hex(), texts_, known(), kernels_of(), decision(), false, terms());
  }
}

// What is known of each choice but for those that are timed.
std::vector<Measured> RegionSearch::known() const {
  std::vector<Measured> out(callers_.size());
  for (size_t i = 0; i < callers_.size(); ++i) out[i].status = callers_[i]->failure();
  for (auto& [i, m] : left_out_) out[i] = m;
  return out;
}

void RegionSearch::add_rows(std::vector<Measured> measured) {
  align_times(measured);
  for (size_t i = 0; i < callers_.size(); ++i)
    report_.rows.push_back({callers_[i]->name(), callers_[i]->kind(), texts_[i], measured[i], callers_[i]->compile_ms()});
}

// Of all choices, a line each.
std::string RegionSearch::reasons(const Verdict& v) const {
  std::vector<Measured> all = known();
  for (size_t k = 0; k < timed_.size(); ++k) all[timed_[k]] = v.candidates[k];
  std::string out;
  for (size_t i = 0; i < callers_.size(); ++i) out += fmt::format("\n  {}: {}", callers_[i]->name(), all[i].status);
  return out;
}

// v: of the callers that were timed.
void RegionSearch::take(const Verdict& v, const Left& left) {
  if (!v.problem.empty()) {
    if (region_.sizes_seen)
      fail<EnvironmentError>("nothing computes {} on this machine; each choice, and why it does not:{}", region_.label, reasons(v));
    report_.source = fmt::format("not tuned: at {}: {}", exec::to_string(region_.sizes), v.candidates.front().status);
    return;
  }
  std::vector<Measured> measured = known();
  for (size_t k = 0; k < timed_.size(); ++k) measured[timed_[k]] = v.candidates[k];
  const size_t winner = fused_enough(measured, timed_[v.winner]);
  add_rows(measured);
  bool left_open = v.out_of_budget || std::any_of(left_out_.begin(), left_out_.end(), [](auto& out) {
                     const Measured& m = out.second;  // of a worker that had no time for it: neither failed nor timed
                     return !m.failed && m.ratio == 0 && !m.status.starts_with(kPassedOver);
                   });
  report_.winner = winner;
  report_.source = region_.sizes.empty() ? "timed" : "timed at " + exec::to_string(region_.sizes);
  if (!judged_.empty()) report_.source += "; " + judged_;
  report_.noise = v.noise, report_.flip = v.flip, report_.regret = v.regret_bound;
  report_.kernels = callers_[winner]->name_kernels();
  report_.ratio = measured[winner].ratio > 0 ? measured[winner].ratio : 1;
  choice_ = callers_[winner]->choice();
  if (options_.descent) {
    improve(left());
    left_open = left_open || (options_.budget_ms > 0 && left() <= 0);
  }
  shared_.report.out_of_budget = shared_.report.out_of_budget || left_open;
  event(fmt::format("{}; {} original choices, {} fused, {} total", report_.rows[report_.winner].name, report_.originals, report_.fused,
                    callers_.size()));
  if (shared_.memory) shared_.memory->remember(region_.key.hex(), texts_, measured, kernels_of(), decision(), !left_open, terms());
}

// Steps from the winner.
void RegionSearch::improve(double left_ms) {
  const MeasureOptions how = measure_options(left_ms);
  if (how.budget_ms <= 0) return;
  double ratio = 1;
  const auto better =
      refine(region_, callers_.front(), callers_[report_.winner], shared_.pipeline, options_, how, shared_.vet.get(), report_, ratio);
  if (!better) return;
  const std::string text = to_string(better->choice());
  const auto row = std::find_if(report_.rows.begin(), report_.rows.end(), [&](auto& r) { return r.text == text; });
  TOROID_CHECK(row != report_.rows.end());
  report_.winner = static_cast<size_t>(row - report_.rows.begin());
  report_.ratio *= ratio;
  report_.kernels = better->kernels();
  choice_ = better->choice();
}

// The fastest of those that are not fused and take less than `least` of the default's time; else the default.
size_t RegionSearch::best_unfused(const std::vector<Measured>& measured, double least) const {
  size_t best = 0;
  for (size_t i = 1; i < measured.size(); ++i) {
    const Measured& m = measured[i];
    if (m.failed || m.ratio <= 0 || m.ratio >= least || callers_[i]->kind() == CallerKind::Fused) continue;
    best = i, least = m.ratio;
  }
  return best;
}

// The winner or, where that is fused and not as much faster than the best unfused choice as is asked for, the latter.
size_t RegionSearch::fused_enough(const std::vector<Measured>& measured, size_t winner) const {
  if (callers_[winner]->kind() != CallerKind::Fused || options_.fusion_speedup <= 1) return winner;
  const bool has_default = !measured.front().failed && measured.front().ratio > 0;  // else the first that runs is what ratios are to
  const size_t best = best_unfused(measured, has_default ? 1 : std::numeric_limits<double>::infinity());
  if (best == 0 && !has_default) return winner;
  if ((best > 0 ? measured[best].ratio : 1) >= options_.fusion_speedup * measured[winner].ratio) return winner;
  return has_default ? best_unfused(measured, least_ratio()) : best;
}

void RegionSearch::put_back() {
  choice_ = {};
  report_.source += "; put back, as the whole program was slower with it";
  report_.winner = 0;
  report_.ratio = 1;
  report_.kernels.clear();
  note();
}

// What was decided; where nothing was, that is the default.
void RegionSearch::note() {
  if (!shared_.memory) return;
  if (const auto at = std::find(texts_.begin(), texts_.end(), to_string(choice_)); report_.kernels.empty() && at != texts_.end())
    report_.kernels = callers_[static_cast<size_t>(at - texts_.begin())]->name_kernels();
  shared_.memory->note(region_.key.hex(), decision());
}

}  // namespace toroid::tune

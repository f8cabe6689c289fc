// What is known of a region before anything is timed, and whether that decides it.
#include <algorithm>

#include "base/check.h"
#include "tune/region/sizes.h"
#include "tune/search/choices.h"
#include "tune/search/region_search.h"

namespace toroid::tune {

void RegionSearch::prepare() {
  if (!refusal_.empty()) {
    report_.source = "not tuned: " + refusal_;
    decided_ = true;
    return;
  }
  for (auto& c : choices_of(region_, shared_.pipeline, options_, report_)) candidates_.push_back(candidate_of(std::move(c)));
  event(fmt::format("listed {} choices, {} unwanted, {} left out", candidates_.size(), report_.unwanted, report_.untried));
  const size_t listed = candidates_.size();
  if (group_) agree_on_choices();
  const Memory* memory = shared_.memory;
  // Where options leave one way a lock file decides all the same, and is told of the default: it may be read without these options.
  if (candidates_.size() < 2 && !(memory && (memory->locks(problem_) || (memory->locked() && report_.unwanted > 0)))) {
    decided_ = true;
    report_.source = report_.unwanted == 0 ? "not tuned: there is one way to compute it"
                                           : "not tuned: tune_backends and tune_choices leave one way to compute it";
    if (report_.unwanted > 0) note();
  } else if (memory) {
    recall();
  } else {
    for (Candidate& c : candidates_) c.state = Candidate::State::Open;
  }
  if (group_) agree_on_known(listed);
}

// What refine() found once is a candidate again, if it compiles here.
bool RegionSearch::has_choice(const std::string& text) {
  if (find(candidates_, text)) return true;
  try {
    auto caller =
        std::make_shared<ChoiceCaller>(text, CallerKind::Template, parse_choice(text), std::make_shared<program::Program>(region_.program),
                                       shared_.pipeline, options_.compile_ms);
    caller->precompile();
    if (!caller->failure().empty()) return false;
    candidates_.push_back({std::move(caller), text});
  } catch (const UserError&) {
    return false;
  }
  return true;
}

void RegionSearch::recall() {
  const size_t listed = candidates_.size();
  Recalled known = shared_.memory->recall(
      problem_, texts(), [&](const std::string& text) { return has_choice(text); }, kernels_of(), terms_.text());
  if (!known.winner.empty() && !shared_.memory->locked()) verify(known, listed);
  take_records(candidates_, known.records);
  if (known.winner.empty()) {
    if (known.time.empty()) decide_by_records(known);
    add_best_unfused(known);
  }
  for (size_t i : known.time) candidates_[i].state = Candidate::State::Open;
  for (size_t i = 0; i < known.refusals.size(); ++i)
    if (!known.refusals[i].empty()) candidates_[i].caller->mark_failed(known.refusals[i]);
  if (const auto winner = find(candidates_, known.winner))
    take_known(known, *winner);
  else
    event(fmt::format("known are {} of them, {} are to be timed", known.records.size(), to_time()));
}

// What is known decides.
void RegionSearch::take_known(const Recalled& known, size_t winner) {
  event(known.drift.empty() ? fmt::format("decided by {}: {}", known.source, known.winner) : known.drift + ": the default");
  decided_ = true;
  report_.source = known.source;
  report_.drift = known.drift;
  reached_ = !known.untimed;
  report_.ratio = known.ratio;
  choice_ = candidates_[winner].caller->choice();
  report_.kernels = candidates_[winner].caller->name_kernels();
  if (known.drift.empty() && known.kernels != report_.kernels && known.kernels != "none")
    report_.drift = fmt::format("its kernels are {}, the {} has {}", report_.kernels, known.source, known.kernels);
  if (!known.records.empty()) {
    std::vector<Measured> rows;
    for (auto& c : candidates_) rows.push_back(c.before);
    if (rows[winner].ratio == 0) rows[winner].ratio = known.ratio;  // that refine() found
    add_rows(std::move(rows));
    report_.winner = winner;
  }
  note();
}

// The hash of a candidate's kernels.
Memory::KernelsOf RegionSearch::kernels_of() const {
  return [this](size_t i) { return candidates_[i].caller->name_kernels(); };
}

// A decision is about kernels. Where those of its winner are others by now, what was measured was something else.
void RegionSearch::verify(Recalled& known, size_t listed) {
  const std::string now = candidates_[find(candidates_, known.winner).value()].caller->name_kernels();
  if (!now.empty() && known.kernels == now) return;
  event(now.empty() ? fmt::format("no kernels are generated for {}, which the {} has", known.winner, known.source)
                    : fmt::format("the kernels of {} are others than those that the {} has", known.winner, known.source));
  known = {};
  candidates_.erase(candidates_.begin() + static_cast<long>(listed), candidates_.end());
  for (size_t i = 0; i < listed; ++i) known.time.push_back(i);
}

// Of candidates that were all measured, in other sets: the default, unless another was faster by as much as is asked for; of equals the
// first. Where that is not sure, or not the end of it, both are timed; where the default cannot be run, all: they were compared with
// several others.
void RegionSearch::decide_by_records(Recalled& known) {
  if (candidates_.front().before.failed) {
    const bool none_runs = std::all_of(candidates_.begin(), candidates_.end(), [](auto& c) { return c.before.failed; });
    if (none_runs) known.refusals.clear();  // all are tried again: the program needs one
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (none_runs || !candidates_[i].before.failed) known.time.push_back(i);
    return;
  }
  const auto may_win = [&](const Measured& m) { return !m.failed && m.ratio > 0 && m.ratio < terms_.least_ratio(); };
  double best = 1;
  for (size_t i = 1; i < candidates_.size(); ++i)
    if (const Measured& m = candidates_[i].before; may_win(m)) best = std::min(best, m.ratio);
  const auto is_best = [&](const Measured& m) { return may_win(m) && m.ratio <= best * (1 + MeasureOptions{}.tie_band / 2); };
  size_t winner = 0;
  while (best < 1 && !is_best(candidates_[winner].before)) ++winner;
  winner = fused_enough(candidates_, When::Before, winner, terms_);
  known.kernels = candidates_[winner].caller->name_kernels();
  if (needs_timing(winner, known.kernels)) {
    known.time = {0};
    if (winner > 0) known.time.push_back(winner);
    return;
  }
  known.source = kDatabase;
  known.winner = candidates_[winner].text;
  if (winner > 0) known.ratio = candidates_[winner].before.ratio;
  DecisionRecord d;
  d.label = region_.label, d.winner = known.winner, d.kernels = known.kernels, d.ratio = known.ratio;
  shared_.memory->settle(problem_, texts(), d, terms_.text());
}

// Whether records do not do for this winner.
bool RegionSearch::needs_timing(size_t winner, const std::string& kernels) const {
  if (kernels.empty() || options_.descent) return true;
  const Measured& m = candidates_[winner].before;
  // Records hold ratios at the usual sizes and means over the range alike: what was not judged over it is timed.
  const bool has_range = !sizes_across(region_.program, region_.sizes, !region_.sizes_seen).empty();
  return winner > 0 && (has_range || m.ratio_high <= 0 || m.ratio_high >= 1);
}

// To those that are to be timed, where a fused choice must be faster than it by as much as is asked for.
void RegionSearch::add_best_unfused(Recalled& known) const {
  if (known.time.empty() || terms_.fusion_speedup <= 1) return;
  const size_t best = best_unfused(candidates_, When::Before, 1);
  if (std::find(known.time.begin(), known.time.end(), best) == known.time.end() && (best > 0 || known.refusals.front().empty()))
    known.time.push_back(best);
}

DecisionRecord RegionSearch::decision() const {
  DecisionRecord d;
  d.label = region_.label + std::string(reached_ ? "" : kNotTimed);
  d.winner = to_string(choice_);
  d.kernels = report_.kernels;
  d.ratio = report_.ratio;
  d.flip = report_.flip, d.regret = report_.regret;
  return d;
}

// What was decided; where nothing was, that is the default.
void RegionSearch::note() {
  if (!shared_.memory) return;
  if (const auto at = find(candidates_, to_string(choice_)); report_.kernels.empty() && at)
    report_.kernels = candidates_[*at].caller->name_kernels();
  shared_.memory->note(problem_, decision());
}

}  // namespace toroid::tune

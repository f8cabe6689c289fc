// How one region comes to its decision.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "dist/group.h"
#include "tune/isolate/vet.h"
#include "tune/measure/across.h"
#include "tune/search/candidate.h"
#include "tune/search/frontier.h"
#include "tune/search/search.h"

namespace toroid::tune {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;

// What the searches of a program's regions share.
struct SharedSearch {
  std::shared_ptr<const Pipeline> pipeline;
  const SearchOptions& options;
  Memory* memory;  // null: nothing is remembered
  TuneReport& report;
  std::unique_ptr<Vet> vet;  // null: nothing is run elsewhere first
  const Stopwatch since_start = {};

  // Of the program's budget.
  double left_ms() const { return options.budget_ms > 0 ? options.budget_ms - since_start.ms() : 1e12; }
};

// A region, for all that equal it: what is remembered decides, or waves of choices are compiled, of which a first look leaves those that
// may win; after the last wave these are timed.
class RegionSearch {
 public:
  // Milliseconds that are left for the region.
  using Left = std::function<double()>;

  RegionSearch(const Region& region, SharedSearch& shared);
  // Another one that the decision is for.
  void add_equal(const Region& region) { equal_.push_back(&region); }

  const Region& region() const { return region_; }
  // By which it is remembered: its key and, where ranks meet in it, what carries their data.
  const std::string& problem() const { return problem_; }
  const std::vector<const Region*>& equal() const { return equal_; }  // itself the first
  // The default's, unless another was decided for.
  const Choice& choice() const { return choice_; }
  const std::string& kernels() const { return report_.kernels; }  // hash of the texts of its kernels
  bool is_decided() const { return decided_; }
  // Whether another part of the program has it, too, and was decided before.
  bool is_shared() const { return report_.source == kBefore; }
  // Why nothing is known of how its default runs: it failed, or the budget ended before; empty where it ran.
  std::string default_refusal() const;
  RegionReport take_report();

  // Lists its choices, and decides where one is known already.
  void prepare();
  // After prepare(): choices that are to be timed.
  size_t to_time() const;
  // The caller of what a lock file decides; null where there is nothing for it to decide. texts(): what could have been.
  std::shared_ptr<ChoiceCaller> known_winner() const;
  std::vector<std::string> texts() const { return texts_of(candidates_); }

  // Goes on to the next wave. all: of all choices (when first called).
  void next_wave(bool all);
  // The default and the wave.
  Callers wave() const;
  // Looks at the wave, which may be compiled by now, and decides where it was the last one. False: there is another.
  bool step(const Left& left);
  void end();
  // The default, though it lost.
  void put_back();

  // Whose ranks meet in it, and decide together; null: none.
  distributed::Group* group() const { return group_; }
  // Another rank's choice in place of its own. False where it is none here.
  bool follow(const std::string& choice);

 private:
  // region_recall.cpp: what is known before anything is timed.
  bool has_choice(const std::string& text);
  void recall();
  Memory::KernelsOf kernels_of() const;
  void verify(Recalled& known, size_t listed);
  void decide_by_records(Recalled& known);
  std::vector<size_t> to_time_again() const;
  bool needs_timing(size_t winner, const std::string& kernels) const;
  void add_best_unfused(Recalled& known) const;
  void take_known(const Recalled& known, size_t winner);
  DecisionRecord decision() const;
  void note();

  // region_together.cpp: where ranks meet in it, all of them do and decide the same.
  void agree_on_choices() const;
  void agree_on_known(size_t listed);
  void decide_together();

  // region_search.cpp: looks and measurements.
  void event(const std::string& what) const;
  std::string form_of(const Candidate& c) const;
  MeasureOptions measure_options(double most_ms) const;
  void vet(const Left& left);
  bool look(const Left& left);
  void drop_far();
  void set_aside();
  void time(const Left& left);
  Verdict measured(const std::vector<size_t>& positions, MeasureOptions how) const;
  void measure_again(Verdict& v, const MeasureOptions& how, const Left& left);
  void time_known(Verdict& v, MeasureOptions how, const Left& left);
  std::vector<RatioAt> ratios_across(size_t position, const std::vector<exec::Symbols>& sizes, const Left& left) const;
  std::optional<RatioAt> ratio_at(const Callers& both, const exec::Symbols& sizes, const MeasureOptions& how) const;
  size_t best_known(const Verdict& v) const;
  std::vector<size_t> beside_reference(Candidate::State state) const;
  Callers callers_at(const std::vector<size_t>& positions) const;
  void add_rows(std::vector<Measured> measured);
  void take(const Verdict& v, const Left& left);
  void not_reached();
  bool is_left_open(const Verdict& v) const;
  std::string reasons() const;
  void improve(double left_ms);

  const Region& region_;
  SharedSearch& shared_;
  const SearchOptions& options_;
  const Terms terms_;
  std::vector<const Region*> equal_;
  std::string refusal_;                  // why it is not tuned; empty: it is
  distributed::Group* group_ = nullptr;  // whose ranks meet in it
  std::string problem_;
  RegionReport report_;
  Candidates candidates_;
  size_t reference_ = 0;  // the candidate that ratios are to: the default, or the first that is to be timed where that is known to fail
  Frontier frontier_;     // of those that are to be timed beside it
  Choice choice_;
  std::string judged_;  // how the winner was judged over a range of sizes; empty: it was not
  bool begun_ = false;
  bool cut_short_ = false;       // the budget ended its waves
  bool default_unsure_ = false;  // a worker had no time for the reference
  bool reached_ = true;          // within the budget, now or when a lock file was written
  bool decided_ = false;
};

// Where ranks have tuned together, regions without collectives are computed as rank 0 does, too, as far as it has them: equal inputs give
// equal bits on all ranks. UserError on all where one cannot.
void follow_first(distributed::Group& group, const std::vector<RegionSearch*>& order);

}  // namespace toroid::tune

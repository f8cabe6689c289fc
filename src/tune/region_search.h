// How one region comes to its decision.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tune/across.h"
#include "tune/frontier.h"
#include "tune/search.h"
#include "tune/vet.h"

namespace toroid::tune {

using Callers = std::vector<std::shared_ptr<ChoiceCaller>>;
using SteadyClock = std::chrono::steady_clock;
double ms_since(SteadyClock::time_point t);

// What the searches of a program's regions share.
struct SharedSearch {
  std::shared_ptr<const Pipeline> pipeline;
  const SearchOptions& options;
  Memory* memory;  // null: nothing is remembered
  TuneReport& report;
  std::unique_ptr<Vet> vet;  // null: nothing is run elsewhere first
  SteadyClock::time_point start = SteadyClock::now();

  // Of the program's budget.
  double left_ms() const { return options.budget_ms > 0 ? options.budget_ms - ms_since(start) : 1e12; }
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
  const std::vector<const Region*>& equal() const { return equal_; }  // itself the first
  // The default's, unless another was decided for.
  const Choice& choice() const { return choice_; }
  const std::string& kernels() const { return report_.kernels; }  // hash of the texts of its kernels
  bool is_decided() const { return decided_; }
  // Whether another part of the program has it, too, and was decided before.
  bool is_shared() const { return report_.source == kBefore; }
  bool default_runs() const;
  RegionReport take_report();

  // Lists its choices, and decides where one is known already.
  void prepare();
  // After prepare(): choices that are to be timed.
  size_t to_time() const { return timed_.size(); }
  // The caller of what a lock file decides; null where there is nothing for it to decide. texts(): what could have been.
  std::shared_ptr<ChoiceCaller> known_winner() const;
  const std::vector<std::string>& texts() const { return texts_; }

  // Goes on to the next wave. all: of all choices (when first called).
  void next_wave(bool all);
  // The default and the wave.
  Callers wave() const;
  // Looks at the wave, which may be compiled by now, and decides where it was the last one. False: there is another.
  bool step(const Left& left);
  void end();
  // The default, though it lost.
  void put_back();

 private:
  bool has_choice(const std::string& text);
  void recall();
  std::string terms() const;
  Memory::KernelsOf kernels_of() const;
  void verify(Recalled& known, size_t listed);
  void decide_by_records(Recalled& known);
  void add_best_unfused(Recalled& known) const;
  double least_ratio() const;
  void event(const std::string& what) const;
  std::vector<std::string> forms() const;
  MeasureOptions measure_options(double most_ms) const;
  bool look(const Left& left);
  void time(const Left& left);
  Verdict measured(const std::vector<size_t>& positions, MeasureOptions how) const;
  void time_known(Verdict& v, MeasureOptions how, const Left& left);
  std::vector<RatioAt> ratios_across(size_t position, const std::vector<exec::Symbols>& sizes, const Left& left) const;
  size_t best_known(const Verdict& v) const;
  std::vector<size_t> with_default(const std::vector<size_t>& others) const;
  Callers callers_at(const std::vector<size_t>& positions) const;
  void vet(const Left& left);
  std::vector<Measured> known() const;
  void add_rows(std::vector<Measured> measured);
  void take(const Verdict& v, const Left& left);
  std::string reasons(const Verdict& v) const;
  void improve(double left_ms);
  size_t best_unfused(const std::vector<Measured>& measured, double least) const;
  size_t fused_enough(const std::vector<Measured>& measured, size_t winner) const;
  DecisionRecord decision() const;
  void note();

  const Region& region_;
  SharedSearch& shared_;
  const SearchOptions& options_;
  std::vector<const Region*> equal_;
  RegionReport report_;
  Callers callers_;
  std::vector<std::string> texts_;       // of the callers' choices
  std::vector<Measured> before_;         // what is known of them; empty: nothing
  std::vector<size_t> timed_;            // positions of those that may be, the default first
  Frontier frontier_;                    // of those but for the default
  std::vector<size_t> wave_, near_;      // positions: that are tried now; of earlier waves that may win yet
  std::map<size_t, Measured> left_out_;  // others, by position: why they cannot
  Choice choice_;
  std::string judged_;  // how the winner was judged over a range of sizes; empty: it was not
  bool begun_ = false;
  bool cut_short_ = false;  // the budget ended its waves
  bool decided_ = false;
};

}  // namespace toroid::tune

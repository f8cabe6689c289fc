// Decides which of several ways to compute the same thing is fastest, and says how sure that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::tune {

// What becomes of a candidate. Crashes, time-outs and failed runs are tried again some time, the others that are not timed never.
enum class Outcome : uint8_t { Timed, NotEquivalent, FailedToCompile, Failed, Crashed, TimedOut };
// "timed", "not equivalent", "failed to compile", "failed", "crashed", "timed out".
std::string_view name_of(Outcome o);

// Nanoseconds of one run of a candidate in the state of a steady call. Throws where it cannot be run; what it throws is the candidate's
// status, and it is not run again.
using Sample = std::function<double(size_t candidate)>;
// Milliseconds since any moment. Whatever a sample costs counts, not only what it reports.
using Clock = std::function<double()>;
Clock steady_clock();

struct MeasureOptions {
  double budget_ms = 1000;
  double tie_band = 0.02;  // candidates that differ by less are equally good; decisions turn at half of it
  // The band is at least so many nanoseconds: equal kernels in different graphs, at different addresses, take times that differ by so much
  // however often they are measured. Three deviations of a difference (H200: 20 ns each, and 80 ns where the cache is flushed).
  double grain_ns = 0;
  // Deviation of the logarithm of one ratio from tuning to tuning, which no number of rounds shows: code and memory lie elsewhere each
  // time. 0: such a clock has none to speak of.
  double between = 0;
  double speedup = 1.0;     // another than the default must be so many times as fast, at least
  size_t least_rounds = 6;  // before the first candidates are dropped
  size_t most_rounds = 100;
  // How many others than the default go on after the first, second, ... look (the last holds on) where the budget would not do for all.
  std::vector<size_t> keep = {8, 4, 3};
  double risk = 0.05;  // probability that any of the intervals of a verdict is wrong
  double flip = 0.01;  // measuring ends when the flip probability is below this and the regret within the tie band
  uint64_t seed = 1;   // of the order within rounds
  // What a candidate is called in the statuses of others; empty: "the default", "candidate 3".
  std::function<std::string(size_t candidate)> name = {};
};

struct Measured {
  size_t rounds = 0;  // that count; a first run, which warms up, does not
  // Of the default, the median of its runs; of others that times the ratio, so that times stand to each other as ratios do: those of
  // candidates that ran in other rounds, while the machine was slower or faster, say nothing. 0: not known.
  double median_ns = 0;
  double spread = 0;                     // half of the runs are within their median * (1 +- spread)
  double ratio = 0;                      // of its time to the default's; 0: not known. Of what was dropped at once: by single runs
  double ratio_low = 0, ratio_high = 0;  // at the verdict's risk, which is shared by all intervals; see has_interval()
  std::string status;                    // empty: it was measured to the end. Else why it was not, for people
  bool failed = false;                   // it could not be run; then the status begins with the outcome's name and ": "
  Outcome outcome = Outcome::Failed;     // where it failed
};
// "850 ns", "12.40 us", "3.125 ms".
std::string time_text(double ns);
// Whether enough rounds were run to say between what the ratio lies; else its low end is 0, or its high end infinite.
bool has_interval(const Measured& m);
// "between 0.951 and 1.020", or that there were too few rounds to say.
std::string interval_text(const Measured& m);
// The status and, where a ratio has no interval, that; for tables.
std::string remark(const Measured& m);
// Makes the times of candidates that were measured at different times, each beside the default, stand to each other as their ratios do: by
// the time of the first of them, or else of another one that ran.
void align_times(std::vector<Measured>& candidates);

struct Verdict {
  size_t winner = 0;
  std::vector<Measured> candidates;
  std::vector<size_t> tied;  // others that were within the tie band of the winner, as far as was measured
  double noise = 0;          // how far the default seems to differ from itself: 0.01 is one percent
  double flip = 0;           // estimated probability that measuring again picks another winner; 0 where none comes near
  double regret = 0;         // how much slower than the best the winner is, by estimates: 0.01 is one percent
  double regret_bound = 0;   // how much slower it may be
  double spent_ms = 0;
  bool out_of_budget = false;  // undecided when the budget was used
  std::string problem;         // not empty: nothing could be run; each candidate's reason
};

// Candidate 0 is the default, and wins unless another is faster by half of the tie band and surely faster at all; where it fails, the first
// that does not fail takes its place. Among those that are, all within half of the band of the fastest count as equal and the first of them
// wins, so that repeats agree. (The other half is for what differs from tuning to tuning, as clocks and places do, so that the true regret
// is within the band.)
//
// How: in each round every candidate that is left runs once, in random order, and the default twice. What counts are the logarithms of the
// ratios of runs of one round (drift and noise that last longer than a round cancel). Their Hodges-Lehmann centres have Wilcoxon's
// intervals, and the risk is shared among all looks and candidates (Bonferroni). At each look, after 1.5 times as many rounds as at the
// look before, candidates that are clearly slower than the best are dropped (racing: Maron, Moore, NIPS 1993), and where the budget is
// short all but the best few (successive halving: Karnin, Koren, Somekh, ICML 2013). The default's second run shows the noise that remains
// between equal things. The flip probability is found by drawing rounds with replacement (bootstrap) and deciding again, with three times
// the variance (this verdict and the next are both noisy, and this one ended when it looked decided); what was dropped takes part in that.
//
// No run is begun that would go beyond the budget by what the candidate has taken so far; only its first run cannot be foreseen (the
// worker of tune/isolate/worker.h can be stopped in the middle of one).
Verdict measure(size_t candidates, const Sample& sample, const MeasureOptions& options = {}, const Clock& clock = steady_clock());

// A table for people, fastest first: candidate, time, ratio, status.
std::string to_string(const Verdict& v, const std::vector<std::string>& names);

}  // namespace toroid::tune

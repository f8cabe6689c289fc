// One choice of a region on its way through a search.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/measure/measure.h"
#include "tune/memory/database.h"
#include "tune/region/caller.h"

namespace toroid::tune {

struct Candidate {
  enum class State : uint8_t {
    Known,       // it is not to be timed: enough is known of it, or it is known to fail
    Open,        // it is to be timed, and waits for its wave
    Tried,       // of the wave that is compiled and looked at now
    Near,        // it may win, as a first look has shown
    Timed,       // of those that are timed beside each other; so is, from the first wave on, the one that all ratios are to
    Out,         // it cannot win, or could not be run: its status says why
    PassedOver,  // nor is it run, as those before it in its template's order are far behind
  };

  std::shared_ptr<ChoiceCaller> caller;
  std::string text;  // of the choice
  State state = State::Known;
  Measured before = {};              // by the records of earlier tunings; no ratio and not failed: nothing
  std::optional<Measured> now = {};  // in this tuning, with the reason where it was not run to the end

  bool is_fused() const { return caller->kind() == CallerKind::Fused; }
  // What this tuning has shown; where it ran nothing, why it could not be compiled, or is known to fail.
  Measured result() const;
};
// The default first.
using Candidates = std::vector<Candidate>;

Candidate candidate_of(std::shared_ptr<ChoiceCaller> caller);
// What a remark on another one calls it.
std::string row_name(size_t position);

// Positions, in order.
std::vector<size_t> in_state(const Candidates& all, Candidate::State state);
std::optional<size_t> find(const Candidates& all, const std::string& text);
std::vector<std::string> texts_of(const Candidates& all);
std::vector<Measured> results_of(const Candidates& all);

// Fills in `before`.
void take_records(Candidates& all, const std::vector<CandidateRecord>& records);

// Which measurement decides: Candidate::before, or result().
enum class When : uint8_t { Before, Now };
Measured measured(const Candidate& c, When when);
// The fastest of those that are not fused and take less than `least` of the default's time; else the default.
size_t best_unfused(const Candidates& all, When when, double least);

// What is asked of a winner besides being the fastest.
struct Terms {
  double speedup = 1;         // how many times as fast as the default it must be
  double fusion_speedup = 1;  // and as the best unfused one, where it is fused

  // Of its time to the default's: less, and another choice than the default may win.
  double least_ratio() const;
  // As part of a decision's key; empty where nothing is asked.
  std::string text() const;
};
// The winner or, where that is fused and not as much faster than the best unfused choice as is asked for, the latter.
size_t fused_enough(const Candidates& all, When when, size_t winner, const Terms& terms);

}  // namespace toroid::tune

// What is known of a region's choices before anything is timed: a lock file, the database, a remote cache.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tune/measure/measure.h"
#include "tune/memory/database.h"
#include "tune/memory/lock_file.h"
#include "tune/memory/remote_cache.h"

namespace toroid::tune {

// Where decisions are from.
inline constexpr std::string_view kLockFile = "lock file", kDatabase = "database", kRemoteCache = "remote cache", kBefore = "this program";
// How the reason of a choice begins that is refused because it computes something else.
inline constexpr std::string_view kNotEquivalent = "not equivalent to the default";

// What is known of one region.
struct Recalled {
  std::string winner;                    // a candidate's text; empty: not decided
  std::string kernels;                   // hash of its kernels, where that is known
  double ratio = 1;                      // of its time to the default's, as it was measured
  std::string source;                    // where it is from: kLockFile, ...
  std::vector<size_t> time;              // else: candidates to time, the default among them; none where all have records
  std::vector<std::string> refusals;     // of each candidate; empty where it may be timed
  std::vector<CandidateRecord> records;  // of the database: what was measured of whom
  bool untimed = false;                  // the default, as there was no time for it: kNotTimed
  std::string drift;                     // what the lock file says that is not so any more
};

// Safe for many threads.
class Memory {
 public:
  struct Sources {
    const LockFile* lock = nullptr;  // counts first
    std::shared_ptr<Database> database = nullptr;
    std::shared_ptr<RemoteCache> remote = nullptr;
    int64_t retry_hours = 168;
    // By the parts of a program that were tuned before this one: equal regions are decided once, so that a lock file of the program can say
    // what was decided.
    LockFile decided = {};
  };
  // device, toolchain: of TuneKey.
  Memory(std::string device, std::string toolchain, Sources sources)
      : device_(std::move(device)), toolchain_(std::move(toolchain)), sources_(std::move(sources)), decided_(sources_.decided) {}

  // candidates: their texts, the default's first. A winner that is none of them (refine() found it) counts where is_choice says so.
  // kernels_of: the hash of a candidate's kernels now; what was measured of others under its name is not known.
  // terms: what is asked of a winner besides; decisions by others are not known. What was measured is.
  using IsChoice = std::function<bool(const std::string& winner)>;
  using KernelsOf = std::function<std::string(size_t candidate)>;
  Recalled recall(const std::string& problem, const std::vector<std::string>& candidates, const IsChoice& is_choice,
                  const KernelsOf& kernels_of, const std::string& terms = "");
  // measured: parallel to candidates; those that were not run have no ratio and no status. decided: nothing was left open, so that the
  // decision may stand without another measurement.
  void remember(const std::string& problem, const std::vector<std::string>& candidates, const std::vector<Measured>& measured,
                const KernelsOf& kernels_of, const DecisionRecord& decision, bool decided, const std::string& terms = "");
  // A decision that stands without another measurement.
  void settle(const std::string& problem, const std::vector<std::string>& candidates, DecisionRecord decision,
              const std::string& terms = "");

  // Whether decisions that no lock file makes are the default, and nothing is timed.
  bool locked() const { return sources_.lock != nullptr; }
  // Whether a lock file decides this one.
  bool locks(const std::string& problem) const { return locked() && sources_.lock->find(device_, problem); }
  // What was decided so far, wherever it is from.
  LockFile decided() const;
  void note(const std::string& problem, const DecisionRecord& decision);
  // The latest problem of the sources; empty where there was none.
  std::string problem() const;

 private:
  std::string undecided() const;

  const std::string device_, toolchain_;
  const Sources sources_;
  mutable std::mutex mutex_;
  LockFile decided_;
};

}  // namespace toroid::tune

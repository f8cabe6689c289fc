// Remembers what tuning has found, on disk, for all processes of a machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tune/measure/measure.h"

namespace toroid::tune {

// What a result holds for. All three are strings that are compared as they are: hashes, names.
struct TuneKey {
  std::string problem;    // the region's content
  std::string device;     // "NVIDIA H200", the processor's model and the instruction set
  std::string toolchain;  // revision of code generators and compilers: what they gave another time is another candidate
  bool operator==(const TuneKey&) const = default;
};

// What is known of a candidate.
struct CandidateRecord {
  std::string candidate;  // its text: "gemm_wgmma(block_m=128,...)"
  Outcome outcome = Outcome::Timed;
  std::string reason;  // unless timed
  double ratio = 0;    // of its time to the default's of the same measurement; 0: that could not be run
  double ratio_low = 0, ratio_high = 0;
  double median_ns = 0, spread = 0;
  int64_t rounds = 0;
  int64_t at = 0;            // seconds since 1970; 0 when stored: now
  std::string kernels = {};  // hash of the texts of its kernels; empty where none were made
  bool operator==(const CandidateRecord&) const = default;
};

// What measuring has told of candidates; those that it never ran are left out.
std::vector<CandidateRecord> records_of(const Verdict& v, std::span<const std::string> names);

// What was decided among a set of candidates: a second process needs no timing.
struct DecisionRecord {
  std::string label;  // of the problem, for people
  std::string winner;
  std::vector<std::string> candidates;  // sorted by store()
  std::string kernels;                  // hash of the winner's kernel texts
  double ratio = 1, flip = 0, regret = 0;
  bool operator==(const DecisionRecord&) const = default;
};

// Safe for many threads and processes (SQLite with a write-ahead log; the library is opened at run time). Nothing here throws because of
// the disk or a missing library: what cannot be read is not known, what cannot be written is not remembered, and problem() says why. A
// damaged file is moved aside, to its name with ".damaged-<n>", and a new one begun. A file that may not be written is read as it is.
class Database {
 public:
  // wait_ms: how long to wait for a lock that another process holds.
  explicit Database(std::filesystem::path file, int wait_ms = 2000);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  std::vector<CandidateRecord> records(const TuneKey& key);
  // All or none; replaces what is known of the same candidates. False where it is not remembered.
  bool store(const TuneKey& key, std::span<const CandidateRecord> records);

  // The decision among exactly these candidates, in any order.
  std::optional<DecisionRecord> decision(const TuneKey& key, std::vector<std::string> candidates);
  bool store(const TuneKey& key, DecisionRecord decision);
  struct Entry {
    TuneKey key;
    DecisionRecord decision;
  };
  // All, by key and candidates.
  std::vector<Entry> decisions();

  const std::filesystem::path& file() const { return file_; }
  // The reason of the latest problem; empty where there was none.
  std::string problem() const;

 private:
  struct Connection;
  template <class F>
  bool attempt(const char* what, F&& work);
  Connection* connect();
  void note(std::string text);

  const std::filesystem::path file_;
  const int wait_ms_;
  mutable std::mutex mutex_;  // of all below
  std::unique_ptr<Connection> connection_;
  int process_ = 0;  // that connected: connections do not survive a fork
  std::string problem_;
};

// The database of this name, a value of the option tune_database ("": one in cache_dir); null for "none", or where no folder for it can be
// named (`problem`, if given, then receives the reason).
std::shared_ptr<Database> shared_database(const std::string& name, std::string* problem = nullptr);

// Whether what was seen may have passed: a crash, a time-out or a failed run, `retry_hours` ago or more. now: seconds since 1970.
bool is_due(const CandidateRecord& r, int64_t retry_hours, int64_t now);

// Which candidates must be run, by what is known of them.
struct Missing {
  std::vector<size_t> time;           // positions, in order: what is not known, and with it the default and the best known one; or empty
  std::vector<std::string> refusals;  // of each candidate: why it is left out although it is not known to be slower; or empty
};
// candidates[0] is the default. What was refused stays so until it is due, with retry_hours 0 at once.
Missing missing(std::span<const std::string> candidates, std::span<const CandidateRecord> known, int64_t retry_hours, int64_t now);
int64_t seconds_now();

}  // namespace toroid::tune

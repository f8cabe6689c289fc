#include "tune/memory/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "tune/memory/sqlite.h"

namespace toroid::tune {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOutcomes[] = {"timed", "not equivalent", "failed to compile", "failed", "crashed", "timed out"};

// Files of earlier versions have tables of other names beside these.
constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS measured(problem TEXT, device TEXT, toolchain TEXT, candidate TEXT, outcome TEXT, reason TEXT, ratio "
    "REAL, "
    "low REAL, high REAL, median REAL, spread REAL, rounds INTEGER, at INTEGER, kernels TEXT, PRIMARY KEY(problem, device, toolchain, "
    "candidate)) "
    "WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS decisions(problem TEXT, device TEXT, toolchain TEXT, candidates TEXT, label TEXT, winner TEXT, kernels "
    "TEXT, "
    "ratio REAL, flip REAL, regret REAL, PRIMARY KEY(problem, device, toolchain, candidates)) WITHOUT ROWID;";

Outcome outcome_of(const std::string& name) {
  for (size_t i = 0; i < std::size(kOutcomes); ++i)
    if (kOutcomes[i] == name) return static_cast<Outcome>(i);
  return Outcome::Failed;
}

std::string joined(std::vector<std::string> candidates) {
  std::sort(candidates.begin(), candidates.end());
  return fmt::format("{}", fmt::join(candidates, "\n"));
}

DecisionRecord read_decision(Sqlite::Statement& s, int from) {
  DecisionRecord d;
  const std::string candidates = s.text(from);
  for (std::string_view c : split_list(candidates, '\n')) d.candidates.emplace_back(c);
  d.label = s.text(from + 1);
  d.winner = s.text(from + 2);
  d.kernels = s.text(from + 3);
  d.ratio = s.real(from + 4), d.flip = s.real(from + 5), d.regret = s.real(from + 6);
  return d;
}

Sqlite::Statement& bind(Sqlite::Statement& s, const TuneKey& key) { return s.bind(key.problem).bind(key.device).bind(key.toolchain); }

// All or nothing.
class Transaction {
 public:
  explicit Transaction(Sqlite& db) : db_(db) { db.run("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (done_) return;
    try {
      db_.run("ROLLBACK");
    } catch (const SqliteError&) {  // the error that led here has rolled it back already
    }
  }
  void commit() {
    db_.run("COMMIT");
    done_ = true;
  }

 private:
  Sqlite& db_;
  bool done_ = false;
};

// One process at a time looks after a damaged file.
class RepairLock {
 public:
  explicit RepairLock(const fs::path& file) : fd_(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  ~RepairLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

bool is_damaged(const fs::path& file, int wait_ms) {
  try {
    Sqlite db(file.string(), Sqlite::Mode::Write, wait_ms);
    Sqlite::Statement s(db, "PRAGMA quick_check(1)");
    return !s.step() || s.text(0) != "ok";
  } catch (const SqliteError& e) {
    return e.damaged();
  }
}

// The new name, or empty where another process has moved it before.
std::string move_aside(const fs::path& file, int wait_ms) {
  RepairLock lock(file);
  if (!is_damaged(file, wait_ms)) return {};
  for (int i = 1;; ++i) {
    const fs::path to = fmt::format("{}.damaged-{}", file.string(), i);
    std::error_code error;
    if (fs::exists(to, error)) continue;
    fs::rename(file, to, error);
    if (error) throw SqliteError{14, fmt::format("it is damaged and cannot be moved aside: {}", error.message())};
    for (const char* beside : {"-wal", "-shm"}) fs::remove(file.string() + beside, error);
    return to.string();
  }
}

}  // namespace

std::string_view name_of(Outcome o) { return kOutcomes[static_cast<size_t>(o)]; }

std::vector<CandidateRecord> records_of(const Verdict& v, std::span<const std::string> names) {
  TOROID_CHECK(names.size() == v.candidates.size());
  std::vector<CandidateRecord> out;
  for (size_t i = 0; i < names.size(); ++i) {
    const Measured& m = v.candidates[i];
    if (!m.failed && !(m.ratio > 0)) continue;
    const std::string reason = m.failed ? m.status.substr(name_of(m.outcome).size() + 2) : std::string();
    out.push_back({names[i], m.failed ? m.outcome : Outcome::Timed, reason, m.ratio, m.ratio_low, m.ratio_high, m.median_ns, m.spread,
                   static_cast<int64_t>(m.rounds), 0, ""});
  }
  return out;
}

struct Database::Connection {
  Connection(const fs::path& file, int wait_ms) {
    std::error_code ignored;
    fs::create_directories(file.parent_path(), ignored);
    try {
      db = std::make_unique<Sqlite>(file.string(), Sqlite::Mode::Write, wait_ms);
      db->run("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL");
      db->run(kSchema);
    } catch (const SqliteError& e) {
      if (!e.readonly() || !fs::exists(file, ignored)) throw;
      db = std::make_unique<Sqlite>(file.string(), Sqlite::Mode::Read, wait_ms);
      refusal = e.text;
    }
    identity = identity_of(file);
  }

  // Which file that name means now.
  static std::pair<dev_t, ino_t> identity_of(const fs::path& file) {
    struct stat s {};
    return ::stat(file.c_str(), &s) == 0 ? std::pair(s.st_dev, s.st_ino) : std::pair<dev_t, ino_t>();
  }

  std::unique_ptr<Sqlite> db;
  std::string refusal;  // why nothing can be written
  std::pair<dev_t, ino_t> identity;
};

Database::Database(fs::path file, int wait_ms) : file_(std::move(file)), wait_ms_(wait_ms) {}

Database::~Database() {
  if (connection_ && process_ != ::getpid()) connection_->db->abandon();
}

void Database::note(std::string text) {
  if (log_enabled(Artifact::Cache)) log(Artifact::Cache, text);
  problem_ = std::move(text);
}

Database::Connection* Database::connect() {
  if (connection_ && process_ != ::getpid()) {
    connection_->db->abandon();
    connection_.reset();
  }
  // Another process has moved a damaged file aside, or somebody has emptied the cache: what is written to the old one is lost.
  if (connection_ && connection_->identity != Connection::identity_of(file_)) connection_.reset();
  if (!connection_) {
    connection_ = std::make_unique<Connection>(file_, wait_ms_);
    process_ = ::getpid();
  }
  return connection_.get();
}

// Does `work` with a connection; once more where the file is damaged and a new one could be begun, and until wait_ms_ are over where SQLite
// says at once that others are busy with it (it does, without waiting, where waiting could be a deadlock: while a new file's journal is
// set up). False where it was not done.
template <class F>
bool Database::attempt(const char* what, F&& work) {
  std::lock_guard lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms_);
  for (int tries = 0; tries < 2; ++tries) {
    try {
      work(*connect());
      return true;
    } catch (const SqliteError& e) {
      if (e.busy() && std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        --tries;
        continue;
      }
      if (!e.damaged() || tries > 0) {
        note(fmt::format("tuning results cannot be {} \"{}\": {}", what, file_.string(), e.text));
        if (e.damaged()) connection_.reset();
        return false;
      }
      connection_.reset();
      try {
        const std::string to = move_aside(file_, wait_ms_);
        if (!to.empty()) note(fmt::format("\"{}\" was damaged ({}) and is now \"{}\"; a new one was begun", file_.string(), e.text, to));
      } catch (const SqliteError& other) {
        note(fmt::format("tuning results cannot be {} \"{}\": {}", what, file_.string(), other.text));
        return false;
      }
    } catch (const EnvironmentError& e) {
      note(e.what());
      return false;
    }
  }
  return false;
}

std::vector<CandidateRecord> Database::records(const TuneKey& key) {
  std::vector<CandidateRecord> out;
  attempt("read from", [&](Connection& c) {
    out.clear();
    Sqlite::Statement s(*c.db,
                        "SELECT candidate, outcome, reason, ratio, low, high, median, spread, rounds, at, kernels FROM measured "
                        "WHERE problem=? AND device=? AND toolchain=? ORDER BY candidate");
    bind(s, key);
    while (s.step())
      out.push_back({s.text(0), outcome_of(s.text(1)), s.text(2), s.real(3), s.real(4), s.real(5), s.real(6), s.real(7), s.integer(8),
                     s.integer(9), s.text(10)});
  });
  return out;
}

bool Database::store(const TuneKey& key, std::span<const CandidateRecord> records) {
  return attempt("written to", [&](Connection& c) {
    if (!c.refusal.empty()) throw SqliteError{8, c.refusal};
    Transaction transaction(*c.db);
    Sqlite::Statement s(*c.db, "INSERT OR REPLACE INTO measured VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (const CandidateRecord& r : records) {
      bind(s, key).bind(r.candidate).bind(name_of(r.outcome)).bind(r.reason).bind(r.ratio).bind(r.ratio_low).bind(r.ratio_high);
      s.bind(r.median_ns).bind(r.spread).bind(r.rounds).bind(r.at ? r.at : seconds_now()).bind(r.kernels);
      s.step();
      s.reset();
    }
    transaction.commit();
  });
}

std::optional<DecisionRecord> Database::decision(const TuneKey& key, std::vector<std::string> candidates) {
  std::optional<DecisionRecord> out;
  const std::string set = joined(std::move(candidates));
  attempt("read from", [&](Connection& c) {
    out.reset();
    Sqlite::Statement s(*c.db,
                        "SELECT candidates, label, winner, kernels, ratio, flip, regret FROM decisions "
                        "WHERE problem=? AND device=? AND toolchain=? AND candidates=?");
    bind(s, key).bind(set);
    if (s.step()) out = read_decision(s, 0);
  });
  return out;
}

bool Database::store(const TuneKey& key, DecisionRecord d) {
  const std::string set = joined(d.candidates);
  return attempt("written to", [&](Connection& c) {
    if (!c.refusal.empty()) throw SqliteError{8, c.refusal};
    Sqlite::Statement s(*c.db, "INSERT OR REPLACE INTO decisions VALUES(?,?,?,?,?,?,?,?,?,?)");
    bind(s, key).bind(set).bind(d.label).bind(d.winner).bind(d.kernels).bind(d.ratio).bind(d.flip).bind(d.regret);
    s.step();
  });
}

std::vector<Database::Entry> Database::decisions() {
  std::vector<Entry> out;
  attempt("read from", [&](Connection& c) {
    out.clear();
    Sqlite::Statement s(*c.db,
                        "SELECT problem, device, toolchain, candidates, label, winner, kernels, ratio, flip, regret FROM decisions "
                        "ORDER BY problem, device, toolchain, candidates");
    while (s.step()) out.push_back({{s.text(0), s.text(1), s.text(2)}, read_decision(s, 3)});
  });
  return out;
}

std::string Database::problem() const {
  std::lock_guard lock(mutex_);
  return problem_;
}

std::shared_ptr<Database> shared_database(const std::string& name, std::string* problem) {
  static std::mutex mutex;
  static auto& database = *new std::shared_ptr<Database>;  // never destroyed: threads may outlive main
  if (name == "none") {
    if (problem) *problem = "the option tune_database is \"none\"";
    return nullptr;
  }
  try {
    const fs::path file = name.empty() ? cache_dir() / "tuning-1.sqlite" : fs::path(name);
    std::lock_guard lock(mutex);
    if (!database || database->file() != file) database = std::make_shared<Database>(file);
    return database;
  } catch (const EnvironmentError& e) {
    if (problem) *problem = e.what();
    return nullptr;
  }
}

bool is_due(const CandidateRecord& r, int64_t retry_hours, int64_t now) {
  const bool passing = r.outcome == Outcome::Crashed || r.outcome == Outcome::TimedOut || r.outcome == Outcome::Failed;
  return passing && now - r.at >= retry_hours * 3600;
}

Missing missing(std::span<const std::string> candidates, std::span<const CandidateRecord> known, int64_t retry_hours, int64_t now) {
  TOROID_CHECK(!candidates.empty());
  Missing m;
  m.refusals.resize(candidates.size());
  std::vector<bool> run(candidates.size(), false);
  size_t best = 0;
  double best_ratio = INFINITY;
  bool any = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto r = std::find_if(known.begin(), known.end(), [&](const CandidateRecord& k) { return k.candidate == candidates[i]; });
    if (r == known.end() || is_due(*r, retry_hours, now) || (r->outcome == Outcome::Timed && r->ratio <= 0)) {
      run[i] = any = true;
    } else if (r->outcome != Outcome::Timed) {
      m.refusals[i] = fmt::format("{}: {}", name_of(r->outcome), r->reason);
    } else if (r->ratio < best_ratio) {
      best_ratio = r->ratio, best = i;
    }
  }
  if (!any) return m;
  if (m.refusals[0].empty()) run[0] = true;
  if (std::isfinite(best_ratio)) run[best] = true;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (run[i]) m.time.push_back(i);
  return m;
}

int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace toroid::tune

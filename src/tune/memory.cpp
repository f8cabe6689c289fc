#include "tune/memory.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::tune {

Recalled Memory::recall(const std::string& problem, const std::vector<std::string>& candidates, const IsChoice& is_choice) {
  Recalled out;
  out.refusals.resize(candidates.size());
  if (sources_.lock) {
    out.source = "lock file";
    const LockEntry* entry = sources_.lock->find(device_, problem);
    if (entry && is_choice(entry->winner)) {
      out.winner = entry->winner, out.kernels = entry->kernels, out.ratio = entry->ratio;
    } else {
      out.winner = candidates.front();
      out.drift =
          entry ? fmt::format("the lock file names \"{}\", which is no choice here", entry->winner) : "the lock file does not decide it";
    }
    return out;
  }
  const TuneKey key{problem, device_, toolchain_};
  if (sources_.database) out.records = sources_.database->records(key);
  const bool again = std::any_of(out.records.begin(), out.records.end(), [&](const CandidateRecord& r) {
    return std::find(candidates.begin(), candidates.end(), r.candidate) != candidates.end() &&
           is_due(r, sources_.retry_hours, seconds_now());
  });
  if (sources_.database && !again)
    if (auto known = sources_.database->decision(key, candidates); known && is_choice(known->winner)) {
      out.winner = known->winner, out.kernels = known->kernels, out.ratio = known->ratio, out.source = "database";
      return out;
    }
  if (sources_.remote)
    if (auto known = get_decision(*sources_.remote, key, candidates); known && is_choice(known->winner)) {
      out.winner = known->winner, out.kernels = known->kernels, out.ratio = known->ratio, out.source = "remote cache";
      return out;
    }
  Missing m = missing(candidates, out.records, sources_.retry_hours, seconds_now());
  out.time = std::move(m.time);
  out.refusals = std::move(m.refusals);
  if (!out.time.empty()) return out;
  // All are known, from measurements of other sets.
  size_t best = 0;
  double least = 1;
  for (auto& r : out.records) {
    const auto at = std::find(candidates.begin(), candidates.end(), r.candidate);
    if (at == candidates.end() || r.outcome != Outcome::Timed || r.ratio_high <= 0 || r.ratio_high >= 1 || r.ratio >= least) continue;
    best = static_cast<size_t>(at - candidates.begin()), least = r.ratio;
  }
  out.winner = candidates[best], out.ratio = least, out.source = "database";
  return out;
}

void Memory::remember(const std::string& problem, const std::vector<std::string>& candidates, const std::vector<Measured>& measured,
                      DecisionRecord decision, bool decided) {
  const TuneKey key{problem, device_, toolchain_};
  Verdict v;
  v.candidates = measured;
  std::vector<CandidateRecord> records = records_of(v, candidates);
  for (auto& r : records)
    if (r.reason.starts_with(kNotEquivalent)) r.outcome = Outcome::NotEquivalent;
  decision.candidates = candidates;
  if (sources_.database) {
    sources_.database->store(key, records);
    if (decided) sources_.database->store(key, decision);
  }
  if (sources_.remote && decided) put_decision(*sources_.remote, key, decision);
}

LockFile Memory::decided() const {
  std::lock_guard lock(mutex_);
  return decided_;
}

void Memory::note(const std::string& problem, const DecisionRecord& decision) {
  std::lock_guard lock(mutex_);
  decided_.set(device_, problem, {decision.label, decision.winner, decision.kernels, decision.ratio});
}

std::string Memory::problem() const {
  std::string why = sources_.database ? sources_.database->problem() : "";
  if (why.empty() && sources_.remote) why = sources_.remote->problem();
  return why;
}

}  // namespace toroid::tune

#include "tune/memory/memory.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"

namespace toroid::tune {

// Why a lock file has nothing for a problem.
std::string Memory::undecided() const {
  const std::vector<std::string> devices = sources_.lock->devices();
  if (devices.empty() || std::find(devices.begin(), devices.end(), device_) != devices.end()) return "the lock file does not decide it";
  return fmt::format("the lock file decides for {}, and this is {}", fmt::join(devices, "; "), device_);
}

Recalled Memory::recall(const std::string& problem, const std::vector<std::string>& candidates, const IsChoice& is_choice,
                        const KernelsOf& kernels_of, const std::string& terms) {
  Recalled out;
  out.refusals.resize(candidates.size());
  if (sources_.lock) {
    out.source = kLockFile;
    const LockEntry* entry = sources_.lock->find(device_, problem);
    if (entry && is_choice(entry->winner)) {
      out.winner = entry->winner, out.kernels = entry->kernels, out.ratio = entry->ratio, out.untimed = entry->is_untimed();
    } else {
      out.winner = candidates.front();
      out.drift = entry ? fmt::format("the lock file names \"{}\", which is no choice here", entry->winner) : undecided();
    }
    return out;
  }
  {
    const LockFile before = decided();
    const LockEntry* entry = before.find(device_, problem);
    if (entry && is_choice(entry->winner)) {
      out.winner = entry->winner, out.kernels = entry->kernels, out.ratio = entry->ratio, out.untimed = entry->is_untimed(),
      out.source = kBefore;
      return out;
    }
  }
  const TuneKey key{problem, device_, toolchain_}, asked{problem, device_, toolchain_ + terms};
  if (sources_.database) out.records = sources_.database->records(key);
  const bool again = std::any_of(out.records.begin(), out.records.end(), [&](const CandidateRecord& r) {
    return std::find(candidates.begin(), candidates.end(), r.candidate) != candidates.end() &&
           is_due(r, sources_.retry_hours, seconds_now());
  });
  // A winner that has failed since then, beside others, wins no more.
  const auto stands = [&](const std::optional<DecisionRecord>& d) {
    return d &&
           std::none_of(out.records.begin(), out.records.end(),
                        [&](const CandidateRecord& r) { return r.candidate == d->winner && r.outcome != Outcome::Timed; }) &&
           is_choice(d->winner);
  };
  const auto take = [&](const DecisionRecord& d, std::string_view source) {
    out.winner = d.winner, out.kernels = d.kernels, out.ratio = d.ratio, out.source = source;
    return out;
  };
  if (sources_.database && !again)
    if (const auto known = sources_.database->decision(asked, candidates); stands(known)) return take(*known, kDatabase);
  if (sources_.remote && !again)
    if (const auto known = get_decision(*sources_.remote, asked, candidates); stands(known)) return take(*known, kRemoteCache);
  std::erase_if(out.records, [&](const CandidateRecord& r) {
    const auto at = std::find(candidates.begin(), candidates.end(), r.candidate);
    if (at == candidates.end()) return false;
    const std::string now = kernels_of(static_cast<size_t>(at - candidates.begin()));
    return now != r.kernels || (now.empty() && r.outcome == Outcome::Timed);
  });
  Missing m = missing(candidates, out.records, sources_.retry_hours, seconds_now());
  out.time = std::move(m.time);
  out.refusals = std::move(m.refusals);
  return out;
}

void Memory::remember(const std::string& problem, const std::vector<std::string>& candidates, const std::vector<Measured>& measured,
                      const KernelsOf& kernels_of, const DecisionRecord& decision, bool decided, const std::string& terms) {
  Verdict v;
  v.candidates = measured;
  std::vector<CandidateRecord> records = records_of(v, candidates);
  for (auto& r : records) {
    if (r.reason.starts_with(kNotEquivalent)) r.outcome = Outcome::NotEquivalent;
    const auto at = std::find(candidates.begin(), candidates.end(), r.candidate);
    r.kernels = kernels_of(static_cast<size_t>(at - candidates.begin()));
  }
  if (measured.front().failed || measured.front().ratio <= 0)  // ratios to another one than the default say nothing elsewhere
    for (auto& r : records) r.ratio = r.ratio_low = r.ratio_high = 0;
  if (sources_.database) sources_.database->store({problem, device_, toolchain_}, records);
  if (decided) settle(problem, candidates, decision, terms);
}

void Memory::settle(const std::string& problem, const std::vector<std::string>& candidates, DecisionRecord decision,
                    const std::string& terms) {
  const TuneKey asked{problem, device_, toolchain_ + terms};
  decision.candidates = candidates;
  if (sources_.database) sources_.database->store(asked, decision);
  if (sources_.remote) put_decision(*sources_.remote, asked, decision);
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

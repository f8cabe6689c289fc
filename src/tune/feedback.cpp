#include "tune/feedback.h"

#include <algorithm>
#include <mutex>

#include "base/log.h"

namespace toroid {
namespace {

using Listener = std::shared_ptr<const std::function<void(const TuneResult&)>>;

struct Listeners {
  std::recursive_mutex calling;  // one call at a time, which may compile itself; taken before the other
  std::mutex mutex;              // of the list
  std::vector<Listener> list;
};
Listeners& listeners() {
  static Listeners& l = *new Listeners;  // never destroyed: threads may outlive main
  return l;
}

}  // namespace

TuneFeedback::TuneFeedback(std::function<void(const TuneResult&)> f)
    : f_(std::make_shared<const std::function<void(const TuneResult&)>>(std::move(f))) {
  std::lock_guard lock(listeners().mutex);
  listeners().list.push_back(f_);
}

TuneFeedback::~TuneFeedback() {
  const std::lock_guard no_call(listeners().calling);
  const std::lock_guard lock(listeners().mutex);
  std::erase(listeners().list, f_);
}

void write_tune_lock(const std::string& path, const std::vector<TuneResult>& results) {
  tune::LockFile all;
  for (auto& r : results) all.add(tune::LockFile::parse(r.lock, "TuneResult::lock"));
  tune::write_lock(path, all);
}

namespace tune {
namespace {

TunedPart part_of(const RegionReport& r) {
  TunedPart out{r.label, r.key.hex(), r.places, r.source, r.drift, {}, r.chosen, r.noise, r.flip, r.regret};
  for (auto& row : r.rows) {
    const Measured& m = row.measured;
    out.choices.push_back({row.name, std::string(name_of(row.kind)), row.text, remark(m), m.failed, m.median_ns > 0 ? m.median_ns / 1e3 : 0,
                           m.ratio, has_interval(m) ? m.ratio_low : 0, has_interval(m) ? m.ratio_high : 0, row.compile_ms});
  }
  return out;
}

}  // namespace

TuneResult result_of(const TuneReport& report) {
  TuneResult out;
  for (auto& r : report.regions) out.parts.push_back(part_of(r));
  out.whole = report.whole, out.problem = report.problem, out.out_of_budget = report.out_of_budget;
  out.compile_ms = report.precompile_ms, out.timing_ms = report.time_ms, out.total_ms = report.total_ms;
  out.lock = report.decided.text();
  return out;
}

void give_feedback(const TuneReport& report) {
  const auto list = [] {
    const std::lock_guard lock(listeners().mutex);
    return listeners().list;
  };
  if (list().empty()) return;
  log(Artifact::Choices, "feedback is given");
  const TuneResult result = result_of(report);
  const std::lock_guard one_at_a_time(listeners().calling);
  for (auto& f : list()) (*f)(result);
}

void write_lock(const std::filesystem::path& path, const LockFile& decided) {
  LockFile all;
  std::error_code error;
  if (std::filesystem::exists(path, error)) all = LockFile::read(path);
  for (auto& device : decided.devices()) all.erase(device);
  all.add(decided);
  all.write(path);
}

}  // namespace tune
}  // namespace toroid

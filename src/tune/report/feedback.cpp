#include "tune/report/feedback.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace toroid {
namespace {

using Listener = std::shared_ptr<const std::function<void(const TuneResult&)>>;

struct Listeners {
  std::mutex mutex;  // of all below; not held in calls
  std::vector<Listener> list;
  std::vector<std::pair<const void*, std::thread::id>> calls;  // that run: of which listener, by whom
  std::condition_variable ended;                               // one of them
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
  Listeners& l = listeners();
  std::unique_lock lock(l.mutex);
  std::erase(l.list, f_);
  const auto by_another = [&](auto& call) { return call.first == f_.get() && call.second != std::this_thread::get_id(); };
  l.ended.wait(lock, [&] { return std::none_of(l.calls.begin(), l.calls.end(), by_another); });
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

namespace {

// A listener that is there still, while it is called.
class Call {
 public:
  explicit Call(const Listener& f) : call_(f.get(), std::this_thread::get_id()) {
    Listeners& l = listeners();
    const std::lock_guard lock(l.mutex);
    there_ = std::find(l.list.begin(), l.list.end(), f) != l.list.end();
    if (there_) l.calls.push_back(call_);
  }
  ~Call() {
    if (!there_) return;
    Listeners& l = listeners();
    const std::lock_guard lock(l.mutex);
    l.calls.erase(std::find(l.calls.begin(), l.calls.end(), call_));
    l.ended.notify_all();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  bool there() const { return there_; }

 private:
  const std::pair<const void*, std::thread::id> call_;
  bool there_ = false;
};

}  // namespace

void give_feedback(const TuneReport& report) {
  std::vector<Listener> list;
  {
    const std::lock_guard lock(listeners().mutex);
    list = listeners().list;
  }
  if (list.empty()) return;
  log(Artifact::Choices, "feedback is given");
  const TuneResult result = result_of(report);
  for (auto& f : list)
    if (const Call call(f); call.there()) (*f)(result);
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

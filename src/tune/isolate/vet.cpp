#include "tune/isolate/vet.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/hash.h"
#include "base/options.h"
#include "tensor/tensor_impl.h"
#include "tune/check/check.h"

namespace toroid::tune {
namespace {

using Use = WorkerBuffer::Use;

constexpr size_t kSentBytes = 1 << 16;  // constants up to this size are sent as they are

// What a plan's steps do to a buffer.
struct Touched {
  bool launched = false;  // by a kernel
  bool written = false;   // by a kernel
  bool given = false;     // holds something before the first kernel uses it
};

std::vector<int> buffers_of(const std::vector<exec::HostCall::View>& views) {
  std::vector<int> out;
  for (auto& v : views) out.push_back(v.buffer);
  return out;
}

std::vector<Touched> touched_by(const exec::Plan& plan) {
  std::vector<Touched> out(plan.buffers.size());
  std::vector<bool> begun(plan.buffers.size(), false);
  const auto give = [&](const std::vector<int>& buffers) {
    for (int b : buffers) {
      if (b < 0) continue;
      const auto i = static_cast<size_t>(b);
      if (!begun[i]) begun[i] = out[i].given = true;
    }
  };
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].role == exec::BufferRole::Input || plan.buffers[i].role == exec::BufferRole::Constant) give({static_cast<int>(i)});
  for (auto& step : plan.steps) {
    if (auto* call = std::get_if<exec::LibraryCall>(&step)) give(call->buffers);
    if (auto* call = std::get_if<exec::HostCall>(&step)) give(buffers_of(call->inputs)), give(buffers_of(call->outputs));
    if (auto* call = std::get_if<exec::CollectiveCall>(&step)) give({call->input.buffer, call->output.buffer});
    auto* launch = std::get_if<exec::Launch>(&step);
    for (size_t k = 0; launch && k < launch->buffers.size(); ++k) {
      const auto i = static_cast<size_t>(launch->buffers[k]);
      const bool writes = launch->written[k];
      out[i].launched = true;
      out[i].written = out[i].written || writes;
      if (!begun[i]) begun[i] = true, out[i].given = !writes || launch->in_place;
    }
  }
  return out;
}

std::string bytes_of(const Tensor& t) {
  const Tensor here = moved(t, Device::cpu());
  return std::string(reinterpret_cast<const char*>(here.raw_data()), static_cast<size_t>(here.numel()) * size_of(here.dtype()));
}

bool small(const Tensor& t) {
  return t.defined() && t.is_contiguous() && static_cast<size_t>(t.numel()) * size_of(t.dtype()) <= kSentBytes;
}

// What is known of the contents of a plan's buffers: what the region's inputs begin with, and small constants.
void set_contents(std::vector<WorkerBuffer>& buffers, const exec::Executable& executable, const Region& region) {
  executable.await_constants();
  const exec::Plan& plan = executable.plan();
  const exec::Loaded& loaded = executable.loaded();
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (small(loaded.constants[i])) buffers[i].contents = bytes_of(loaded.constants[i]);
  const std::vector<Integers> integers = integers_of(region, region.sizes);
  std::vector<const program::ProgramInput*> users;
  for (auto& in : region.program.inputs)
    if (!in.data.defined()) users.push_back(&in);
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const exec::InputPlan& in = plan.inputs[i];
    WorkerBuffer& b = buffers[static_cast<size_t>(in.buffer)];
    if (small(loaded.inputs[i])) b.contents = bytes_of(loaded.inputs[i]);
    if (in.user < 0 || static_cast<size_t>(in.user) >= users.size()) continue;
    b.seed = seed_of_input(static_cast<size_t>(in.user)), b.integers = integers.at(static_cast<size_t>(in.user));
    if (const Tensor made = made_by_operation(region, *users[static_cast<size_t>(in.user)], region.sizes); made.defined())
      b.contents = bytes_of(made);
  }
}

std::vector<WorkerBuffer> buffers_of(const exec::Executable& executable, const Region& region) {
  const exec::Plan& plan = executable.plan();
  const std::vector<Touched> touched = touched_by(plan);
  std::vector<WorkerBuffer> out(plan.buffers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    WorkerBuffer& b = out[i];
    const Touched& t = touched[i];
    b.dtype = plan.buffers[i].dtype;
    b.numel = t.launched ? exec::evaluate(plan.buffers[i].numel, region.sizes) : 0;
    b.seed = i + 1;
    b.integers = {0, 0};  // legal wherever they may index
    b.use = t.given ? t.written ? Use::Both : Use::Read : plan.buffers[i].role == exec::BufferRole::Output ? Use::Write : Use::Temporary;
  }
  set_contents(out, executable, region);
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].numel == 0) out[i].contents.clear();
  return out;
}

// What has run in this process, by everything that it depends on.
class Known {
 public:
  static Known& global() {
    static Known& known = *new Known;  // never destroyed: threads may outlive main
    return known;
  }
  const WorkerResult* find(const Hash128& key) {
    std::lock_guard lock(mutex_);
    const auto it = results_.find(key);
    return it == results_.end() ? nullptr : &it->second;
  }
  void add(const Hash128& key, WorkerResult r) {
    r.hashes.clear();
    std::lock_guard lock(mutex_);
    results_.emplace(key, std::move(r));
  }

 private:
  std::mutex mutex_;
  std::map<Hash128, WorkerResult> results_;
};

Measured refused(Outcome outcome, const std::string& reason) {
  Measured m;
  m.failed = true, m.outcome = outcome;
  m.status = fmt::format("{}: {}", name_of(outcome), reason);
  return m;
}

Measured not_run(const char* why) {
  Measured m;
  m.status = why;
  return m;
}

constexpr const char* kNoTime = "not run: the budget was used before";

}  // namespace

WorkerJob job_of(ChoiceCaller& caller, const Region& region, const std::string& isa) {
  const auto executable = caller.executable();
  const exec::Plan& plan = executable->plan();
  const std::vector<codegen::KernelText> texts = caller.texts();
  WorkerJob job;
  job.isa = isa;
  job.gpu = std::max(0, static_cast<int>(plan.device.index));
  job.runs = 1;
  job.buffers = buffers_of(*executable, region);
  for (auto& step : plan.steps) {
    auto* launch = std::get_if<exec::Launch>(&step);
    if (!launch) continue;
    TOROID_CHECK(job.kernels.size() < texts.size(), "{} has more launches than kernels", caller.name());
    job.kernels.push_back(kernel_of(texts[job.kernels.size()], *launch, [&](const Expr& e) { return exec::evaluate(e, region.sizes); }));
  }
  return job;
}

Vet::Vet(std::string isa, WorkerOptions options) : isa_(std::move(isa)), options_(std::move(options)), worker_(options_) {}

WorkerResult Vet::run(const WorkerJob& job, double left_ms) {
  const WorkerRequest request{job, options_.memory_mb, options_.leak_mb, {}};
  const Hash128 key =
      Hasher().add(serialize(request)).add(options_.timeout_ms).add(options_.program).add(get_option(options::kTuneWorker)).finish();
  if (const WorkerResult* known = Known::global().find(key)) return *known;
  const int timeout_ms = std::max(1, static_cast<int>(std::min<double>(options_.timeout_ms, left_ms)));
  WorkerResult r = worker_.run(job, timeout_ms);
  // Other failures may pass: memory that others have now.
  const bool lasts = r.outcome == Outcome::Timed || r.outcome == Outcome::Crashed;
  if (lasts || (r.outcome == Outcome::TimedOut && timeout_ms == options_.timeout_ms)) Known::global().add(key, r);
  return r;
}

std::vector<Measured> Vet::operator()(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region,
                                      const std::function<double()>& left_ms) {
  std::vector<Measured> out;
  bool nan_is_wrong = false;  // the default tells
  for (size_t i = 0; i < callers.size(); ++i) {
    if (i > 0 && !out[0].status.empty()) {
      out.push_back(not_run("not run: the default was refused"));
      continue;
    }
    if (left_ms() <= 0) {
      out.push_back(not_run(kNoTime));
      continue;
    }
    WorkerJob job;
    try {
      job = job_of(*callers[i], region, isa_);
    } catch (const std::exception& e) {
      out.push_back(refused(Outcome::Failed, e.what()));
      continue;
    }
    job.nan_is_wrong = nan_is_wrong;
    const double left = left_ms();
    if (job.kernels.empty() || left <= 0) {
      out.push_back(job.kernels.empty() ? Measured{} : not_run(kNoTime));
      continue;
    }
    const WorkerResult r = run(job, left);
    if (i == 0) nan_is_wrong = r.nan.empty();
    if (r.outcome == Outcome::Timed)
      out.emplace_back();
    else if (r.outcome == Outcome::TimedOut && left < options_.timeout_ms)
      out.push_back(not_run("not run: the budget ended its trial in a process of its own"));
    else  // its text did compile here
      out.push_back(refused(r.outcome == Outcome::FailedToCompile ? Outcome::Failed : r.outcome, r.reason));
  }
  return out;
}

}  // namespace toroid::tune

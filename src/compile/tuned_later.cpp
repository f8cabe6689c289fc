#include "compile/tuned_later.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/compile_scope.h"
#include "base/stopwatch.h"
#include "compile/background.h"

namespace toroid::compiler {
namespace {

struct Stopped {};

bool writes_bound(const exec::Plan& plan) {
  return std::any_of(plan.inputs.begin(), plan.inputs.end(), [](auto& in) { return in.mutated && in.user < 0; });
}

std::string text(const tune::TuneProgress& p) {
  return fmt::format("tuning beside the calls for {:.1f} s: {} of {} parts decided, {} of {} choices compiled", p.spent_ms / 1e3, p.decided,
                     p.regions, p.compiled, p.choices);
}

std::string text(const tune::TuneReport& r, double ms) {
  constexpr const char* kRemedy = "load the model with the inputs of a usual call: Model::load(path, inputs, options)";
  const tune::UnseenSizes unseen = tune::unseen_sizes(r);
  if (unseen.nothing_tuned) return fmt::format("nothing was tuned beside the calls: {}; {}", unseen.why, kRemedy);
  std::string out = fmt::format("tuned beside the calls in {:.1f} s", ms / 1e3);
  if (unseen.parts > 0) out += fmt::format(", but for {} of {} parts: {}; {}", unseen.parts, r.regions.size(), unseen.why, kRemedy);
  if (!r.whole.empty()) out += ": " + r.whole;
  for (auto& region : r.regions)
    if (!region.chosen.empty() && region.winner != 0) out += fmt::format("; {}: {}", region.label, region.chosen);
  return out;
}

}  // namespace

struct TunedLater::Work {
  Compile compile;            // until run()
  std::atomic<int> users{1};  // without any, tuning ends
  std::mutex mutex = {};      // of what follows
  std::string state = "tuning beside the calls has not begun";
  std::shared_ptr<CompiledModel> tuned = {};

  void tell(std::string what) {
    std::lock_guard lock(mutex);
    state = std::move(what);
  }
  std::shared_ptr<CompiledModel> get() {
    std::lock_guard lock(mutex);
    return tuned;
  }

  // On the thread of tuning.
  void run() {
    const CompileScope compiling;
    const Stopwatch watch;
    const Compile tuned_program = std::exchange(compile, {});  // with the graph and its weights
    const auto here = std::this_thread::get_id();
    try {
      const auto step = [&](const tune::TuneProgress& p) {
        tell(text(p));
        if (std::this_thread::get_id() == here) stop_if_unwanted();
      };
      stop_if_unwanted();
      auto made = std::make_shared<CompiledModel>(tuned_program(step));
      made->executable().await_constants();
      std::lock_guard lock(mutex);
      state = text(made->report().tuning, watch.ms());
      tuned = std::move(made);
    } catch (const Stopped&) {
      tell("tuning beside the calls was given up, as the process ends");
    } catch (const std::exception& e) {
      tell(fmt::format("tuning beside the calls failed, and the program stays untuned: {}", e.what()));
    } catch (...) {
      tell("tuning beside the calls failed with an unknown error, and the program stays untuned");
    }
  }

 private:
  void stop_if_unwanted() const {
    if (users == 0 || background_ends()) throw Stopped{};
  }
};

bool is_tuned_later(const graph::Graph& g, const Setup& setup) {
  const CompileOptions& o = setup.options;
  return o.get(options::kTuneInBackground) && tunes(o.mode()) && o.fusion() != Fusion::None && !o.get(options::kDeterministic) &&
         o.get(options::kTuneLock).empty() && std::none_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return n->op->collective; });
}

TunedLater::TunedLater(CompiledModel untuned, Compile tuned)
    : TunedLater(std::make_shared<Work>(std::move(tuned)), std::move(untuned), {}) {
  if (!beside_calls([work = work_] { work->run(); }))
    work_->tell("the program stays untuned: no thread can be started, or the process is ending");
}

TunedLater::TunedLater(std::shared_ptr<Work> work, CompiledModel untuned, std::vector<std::pair<Tensor, Tensor>> others)
    : work_(std::move(work)),
      others_(std::move(others)),
      program_(std::make_shared<CompiledModel>(std::move(untuned))),
      writes_bound_(writes_bound(program_->executable().plan())) {}

TunedLater::~TunedLater() { --work_->users; }

std::shared_ptr<CompiledModel> TunedLater::current() {
  std::lock_guard lock(mutex_);
  if (is_tuned_) return program_;
  auto tuned = work_->get();
  if (!tuned) return program_;
  is_tuned_ = true;
  if (others_.empty())
    program_ = std::move(tuned);
  else if (auto other = tuned->rebound(others_))
    program_ = std::make_shared<CompiledModel>(std::move(*other));
  else
    stays_untuned_ = true;
  return program_;
}

std::vector<Tensor> TunedLater::run(std::span<const Tensor> inputs) {
  if (!writes_bound_) return current()->run(inputs);
  std::lock_guard turn(turn_);
  return current()->run(inputs);
}

std::shared_ptr<TunedLater> TunedLater::rebound(std::span<const std::pair<Tensor, Tensor>> others) {
  const auto now = current();
  auto other = now->rebound(others);
  if (!other) return nullptr;
  std::vector<std::pair<Tensor, Tensor>> all = others_;
  for (auto& [from, to] : others) {
    const auto known = std::find_if(all.begin(), all.end(), [&](auto& o) { return o.second.impl() == from.impl(); });
    if (known != all.end())
      known->second = to;
    else
      all.emplace_back(from, to);
  }
  ++work_->users;
  return std::shared_ptr<TunedLater>(new TunedLater(work_, std::move(*other), std::move(all)));
}

std::string TunedLater::state() const {
  std::scoped_lock lock(mutex_, work_->mutex);
  return work_->state + (stays_untuned_ ? "; the program stays untuned, as the tuned one cannot have its captured tensors" : "");
}

}  // namespace toroid::compiler

// Decides for each call of an executable whether it is recorded, replayed or run step by step, and keeps count.
#pragma once

#include "exec/record/capture_manager.h"

namespace toroid::exec {

// The latest warm-up of the calling thread does not count.
void mark_warmup_incomplete();

class Recorder {
 public:
  // The plan outlives it. shares_results: whether the option capture_results applies (blocks of control flow hand their results on).
  // UserError where the plan cannot be recorded in whole and the option capture_require is set.
  Recorder(const Plan& plan, bool shares_results, std::span<const std::string> on_host = {});  // on_host: see cover()

  // How a call runs.
  struct Way {
    std::unique_ptr<Lane> lane;          // large enough; null: memory of the call's own
    std::shared_ptr<Captured> recorded;  // null: step by step
    bool record = false;                 // `recorded` is still empty
    bool again = false;                  // and takes the place of another, which did not fit
  };
  // arguments: the caller's tensors. UserError where the call is not recorded though capture_require is set.
  Way choose(const Bound& bound, std::span<const Tensor> arguments);
  // A call that cannot be recorded at all: it is counted.
  void pass();
  // Whether another recording may be made in place of one that does not fit.
  bool may_rerecord(const Bound& bound);
  // The recording of `way` was made: later calls find it.
  void keep(const Way& way);
  void give_back(Way& way);
  // The recording of `way` was not made to its end: no later call finds it.
  void forget(const Way& way);
  // Forgets the recordings for these sizes.
  void drop(const Bound& bound);

  // Results of the call in memory of the lane.
  Tensor result(Lane& lane, const Placement::Place& place, std::span<const int64_t> sizes, size_t output) const;

  const Coverage& coverage() const { return function_->coverage; }
  void count(Count what, int64_t n = 1) { function_->count(what, n); }
  CaptureReport report() const;

 private:
  void decide(const Bound& bound, std::span<const Tensor> arguments, Way& way);
  std::shared_ptr<Captured> find(const Bound& bound, Lane& lane, std::span<const Tensor> arguments);
  bool has_another(const Bound& bound, const Lane& lane);
  Placement place_results(const Bound& bound, Lane& lane, std::span<const Tensor> arguments);
  std::string refusal(const Bound& bound);
  void skip(const Bound& bound, const std::string& reason, const std::string& fix);
  void warn_of_sizes(const Bound& bound);
  bool shares() const { return shares_results_ && function_->options.results != CaptureOptions::Results::Own; }

  const Plan& plan_;
  const bool shares_results_;
  CaptureManager& manager_;
  std::shared_ptr<CaptureFunction> function_;
};

}  // namespace toroid::exec

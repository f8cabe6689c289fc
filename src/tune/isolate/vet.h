// Runs the kernels of choices in a process of their own, before they run in this one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/isolate/worker.h"
#include "tune/measure/measure.h"
#include "tune/region/caller.h"
#include "tune/region/regions.h"

namespace toroid::tune {

// A choice's kernels run there one after the other on memory of their own, so that each reads what the one before has written: an index or
// a row's maximum that one computes is what the next must be given. Inputs and large constants have generated contents, the same for all
// choices of a region; calls of libraries are left out, and what they would write has generated contents, too.
class Vet {
 public:
  // isa: what the kernels are compiled for.
  Vet(std::string isa, WorkerOptions options);

  // What each of a region's choices did, the default first. No status: it may run here. Failed: it must not, for that reason. Neither: the
  // time was used, or the default did not pass and nothing more was run. NaN in results is wrong where the default has none. A chain of
  // kernels that passed, crashed or took too long is not run again in this process. left_ms: no run begins, or goes on, where nothing is
  // left. EnvironmentError where the worker cannot be started.
  std::vector<Measured> operator()(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region,
                                   const std::function<double()>& left_ms);
  // Processes that were started.
  int starts() const { return worker_.starts(); }

 private:
  WorkerResult run(const WorkerJob& job, double left_ms);

  const std::string isa_;
  const WorkerOptions options_;
  Worker worker_;
};

// A choice's kernels with all that they need. Compiles it first where that was not done.
WorkerJob job_of(ChoiceCaller& caller, const Region& region, const std::string& isa);

}  // namespace toroid::tune

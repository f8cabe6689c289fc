// Which steps of a plan can be recorded, and why the others cannot.
#pragma once

#include <span>

#include "exec/plan.h"
#include "toroid/capture.h"

namespace toroid::exec {

// What options say about recording, read when a program is compiled.
struct CaptureOptions {
  enum class Results : uint8_t { Own, Pool, PoolClone };
  bool require = false;
  Results results = Results::Own;
  bool skip_dynamic = false, evict = true;
  int64_t warmups = 1, min_launches = 1, sizes_warn_limit = 8, rerecord_limit = 128, budget = 0;  // budget: bytes, 0: none
  std::vector<std::vector<int64_t>> sizes;                                                        // empty: all
};
CaptureOptions read_capture_options(const CompileOptions& options);

// Steps [first, last) that are recorded together, or run one by one.
struct Segment {
  size_t first = 0, last = 0;
  bool recorded = false;
};

struct Coverage {
  std::vector<Segment> segments;  // all steps, in order
  std::vector<CaptureSkip> skips;
  int64_t steps = 0, steps_recorded = 0, parts = 0;
};
// The longest runs of steps that can be recorded. A run of fewer than min_launches is not worth it. on_host: of each step
// of a loaded plan, why a collective goes through the host's memory (Loaded::Step::refusal); without it collectives on GPUs do not.
Coverage cover(const Plan& plan, int64_t min_launches, std::span<const std::string> on_host = {});

// "unique (model.cpp:12) of decode: it runs on the host; ..."
std::string to_string(const CaptureSkip& s);

}  // namespace toroid::exec

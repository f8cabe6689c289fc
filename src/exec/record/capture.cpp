// The public functions about recorded calls.
#include "toroid/capture.h"

#include "base/check.h"
#include "exec/record/recorder.h"

namespace toroid {

void cudagraph_mark_step_begin() { exec::mark_step_begin(); }
void cudagraph_mark_warmup_incomplete() { exec::mark_warmup_incomplete(); }

void mark_static_address(const Tensor& t) {
  TOROID_USER_CHECK(t.defined() && !is_proxy(t), "only ordinary tensors have an address to keep");
  t.impl()->storage->static_address = true;
}

CaptureReport capture_report(const Device& device) { return exec::CaptureManager::of(device).report(); }
void release_captures(const Device& device) { exec::CaptureManager::of(device).release(); }

std::string to_string(const CaptureReport& r) {
  const auto& c = r.counters;
  std::string out = fmt::format(
      "{} of {} steps are recorded, in {} parts\n"
      "{} calls: {} warmed up, {} recorded ({} again), {} ran step by step; {} recordings were dropped for the budget\n"
      "{} graph launches, {} launches and {} calls by the host, {} inputs copied, {} addresses changed\n"
      "memory: {} bytes of recordings, {} of the pool, {} at most\n",
      r.steps_recorded, r.steps, r.parts, c.calls, c.warmups, c.recordings, c.rerecordings, c.skipped, c.evictions, c.graph_launches,
      c.host_launches, c.host_calls, c.input_copies, c.patches, r.exec_bytes, r.pool_bytes, r.peak_bytes);
  if (r.graphs_forecast > 0)
    out += fmt::format("the driver took {} bytes of the GPU's memory for graphs (forecast {})\n", r.graphs_took, r.graphs_forecast);
  for (auto& row : r.recordings)
    out += fmt::format(
        "recording: {} for {}: {} launches in {} parts (up to {} at a time), {} bytes (forecast {}), {} of the pool, {} of them shared, {} "
        "replays\n",
        row.function, row.sizes, row.kernels, row.parts, row.width, row.exec_bytes, row.forecast_bytes, row.pool_bytes, row.shared_bytes,
        row.replays);
  for (auto& s : r.skips) out += "not recorded: " + exec::to_string(s) + "\n";
  for (auto& w : r.warnings) out += "warning: " + w + "\n";
  return out;
}

}  // namespace toroid

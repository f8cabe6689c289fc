// What the steps of a call cost: each timed by itself, and, on a GPU where CUPTI is, as they ran within whole calls.
#pragma once

#include <string>
#include <vector>

#include "compile/model.h"
#include "device/cuda/cupti.h"

namespace toroid::cli {

struct KernelRow {
  std::string name;
  int64_t calls = 0, bytes = 0, flops = 0;  // bytes and flops of one call; 0: not known
  double us = 0;                            // of one call
  double in_call_us = -1;                   // that it adds to a whole call (exec::added_ns); negative: not known
  bool host = false;
  std::vector<std::string> places;  // source lines or layers that it computes for, each once
};

// The steps of a call in their order, each with its mean time by itself.
std::vector<KernelRow> profile(compiler::CompiledModel& model, const std::vector<Tensor>& inputs);

// Calls as they ran, by CUPTI.
struct TracedCalls {
  std::string method;                        // how, or why not: a line for people
  std::vector<device::cuda::Activity> call;  // the last of them; empty: not known
  std::vector<int> steps;                    // of each of its activities the step; -1: of a library, or a copy
  std::vector<KernelRow> others;             // activities of no step, by name: in_call_us of one
  double span_us = 0, busy_us = 0;           // of a call: from the first begin to the last end, and with something going on
};
// Fills in_call_us of the steps that profile() gave.
TracedCalls trace_calls(compiler::CompiledModel& model, const std::vector<Tensor>& inputs, std::vector<KernelRow>& steps);

// Equal steps as one row with their mean times; by total time.
std::vector<KernelRow> sum_up(const std::vector<KernelRow>& steps);

double gb_per_s(const KernelRow& r);
double gflop_per_s(const KernelRow& r);

// In the trace event format that Perfetto and chrome://tracing open: the last traced call or, without one, the steps end to end.
std::string timeline_json(const std::vector<KernelRow>& steps, const TracedCalls& traced);

}  // namespace toroid::cli

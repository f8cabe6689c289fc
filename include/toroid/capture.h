// Recorded calls (Mode::ReduceOverhead): what can be told to the recorder, and what it tells.
//
// A program's first calls at given sizes warm up, the next is recorded, and later ones are replayed: on a GPU by one launch of a CUDA
// graph, on the CPU one after the other. Inputs are never copied: a recording follows the caller's memory. What cannot be recorded
// (see CaptureSkip) runs between the recorded parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

// Only matters with the option capture_results=pool or pool-clone, where results share memory: the results of calls that this thread has
// made so far may be overwritten by calls from here on, and the results of calls between two marks may not. Without any mark each call of
// a compiled function (or model) may overwrite the results of those before.
void cudagraph_mark_step_begin();

// The latest warm-up that this thread ran does not count: one more run will warm up before the call is recorded.
void cudagraph_mark_warmup_incomplete();

// The memory of t stays where it is, as an input of recorded calls. They are recorded for its address instead of checking it against the
// one before and following it. Other memory in its place costs a new recording, which is reported.
void mark_static_address(const Tensor& t);

// What recorded calls did. Counts of calls since the program was compiled.
struct CaptureCounters {
  int64_t calls = 0;           // of programs that are recorded
  int64_t warmups = 0;         // calls that ran step by step, to warm up
  int64_t recordings = 0;      // calls that were recorded (and replayed at once)
  int64_t rerecordings = 0;    // those among them that replaced a recording which did not fit
  int64_t skipped = 0;         // calls that ran step by step for another reason
  int64_t graph_launches = 0;  // recorded parts that were replayed
  int64_t host_launches = 0;   // kernels that the host started one by one
  int64_t host_calls = 0;      // reference code, library calls and control flow that the host ran
  int64_t input_copies = 0;    // inputs that were laid out anew, because the program takes other strides
  int64_t patches = 0;         // addresses that were changed in recordings before a replay
  int64_t evictions = 0;       // recordings that were dropped to stay in the budget
};

// A part of a program that is not recorded, or a reason why a call was not.
struct CaptureSkip {
  std::string function, what;  // the program, and the step or the sizes
  std::string reason;
  std::string where;  // source line, where it is known
  std::string fix;    // what would have it recorded
};

// A recorded call: a program at its sizes.
struct CaptureRow {
  std::string function, sizes;  // "s0=16"
  int64_t parts = 0;            // replays a call
  int64_t kernels = 0;          // launches in them
  int64_t width = 1;            // launches that run side by side at most: more than 1 on a GPU where that was faster
  int64_t exec_bytes = 0;       // of its own: the recorded launches
  int64_t pool_bytes = 0;       // memory of the pool that it works in
  int64_t shared_bytes = 0;     // the part of pool_bytes that other recordings work in too
  int64_t forecast_bytes = 0;   // what exec_bytes was forecast to be
  int64_t replays = 0;
};

struct CaptureReport {
  CaptureCounters counters;
  std::vector<CaptureRow> recordings;
  std::vector<CaptureSkip> skips;
  std::vector<std::string> warnings;
  int64_t steps = 0, steps_recorded = 0;  // of a call, of all programs: kernels, library calls, control flow; those in recorded parts
  int64_t parts = 0;                      // recorded parts of a call, of all programs
  int64_t exec_bytes = 0;                 // of all recordings
  int64_t pool_bytes = 0;                 // memory of the pool of the device, counted once
  int64_t graphs_took = 0;                // of a GPU's memory, for graphs of this process so far: what the driver has less since
  int64_t graphs_forecast = 0;            // the same as the model of the driver has it
  int64_t peak_bytes = 0;                 // the most that recordings and pool together have been, since release_captures
};
std::string to_string(const CaptureReport& r);

// All programs on the device that are compiled for Mode::ReduceOverhead and still there.
CaptureReport capture_report(const Device& device = Device::cpu());

// Drops all recordings of a device and the memory that they worked in. Later calls record again, without warming up.
void release_captures(const Device& device = Device::cpu());

}  // namespace toroid

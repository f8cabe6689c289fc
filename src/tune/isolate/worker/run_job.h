// What the worker's process does with a job.
#pragma once

#include "tune/isolate/worker.h"

namespace toroid::tune {

// Compiles and runs the kernels. An access to a guarded page sends the result from the signal's handler, through the socket that is
// standard input, and ends the process.
WorkerResult run_job(const WorkerRequest& request);

}  // namespace toroid::tune

// The way of a program from lowering to its schedule, one pass at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "choice/verify.h"
#include "compile/stages.h"

namespace toroid::test {

struct ProgramStep {
  const char* name;
  choice::Stage stage;  // of what it gives
  std::function<choice::Program(choice::Program)> run;
};

// The steps that compiler::schedule takes. gpu: null for the CPU.
std::vector<ProgramStep> schedule_steps(const compiler::Setup& setup, const device::cuda::GpuInfo* gpu);

// What the text of a program says, with the data that is no part of the text.
choice::Program reread(const choice::Program& p);

}  // namespace toroid::test

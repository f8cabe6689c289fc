// What each walk over a reduction computes, and what threads keep from one to the next.
#pragma once

#include "codegen/cuda/plan.h"

namespace toroid::codegen {

// Costs more than keeping its value would.
bool is_heavy(const loop::Statement& s);
// Registers that a thread needs to keep the values of a step for one vector. Vectors that are loaded or stored stay as they are in memory.
int64_t registers_of(const CudaPlan& p, int k);
// CudaPlan::powers.
void find_powers(CudaPlan& p);
// In which pass steps are computed when sums of exponentials are folded together with their maxima, and squares with their means.
void find_online(CudaPlan& p);
// What each pass computes, and what it takes from those before: nothing, values that are costly to compute again, or all that it needs.
enum class Keep : uint8_t { Nothing, Costly, All };
void plan_passes(CudaPlan& p, Keep keep);
bool has_one_pass(const CudaPlan& p);

}  // namespace toroid::codegen

// Runs the choices of a region on generated inputs: none is timed that does not compute what the default does.
#pragma once

#include "tune/check/equivalence.h"
#include "tune/check/inputs.h"
#include "tune/measure/measure.h"
#include "tune/region/caller.h"
#include "tune/region/regions.h"

namespace toroid::tune {

// Times of callers[i] on the device, at the region's sizes. The first sample of each compares what it computes with what callers[0] does,
// there and, where the region leaves sizes open, at other ones too (other_sizes(), sizes_across()); once more with 0 and 1 for integers
// that index nothing, and with positive floats where others give NaN. Results lie in memory that holds patterns (tune/check/written.h):
// what the default leaves of these the others must leave, too. UserError with the largest difference and its bound where they are not the
// same function. elsewhere: at other sizes as well; those for which the machine has no memory are passed over, with a line in the log.
Sample time_checked(const std::vector<std::shared_ptr<ChoiceCaller>>& callers, const Region& region, const Device& device,
                    Equivalence equivalence = Equivalence::Fast, bool elsewhere = true);

// What a region's inputs hold when its choices are compared and timed: tensors of one dimension, made by seed (tune/check/inputs.h) ...
uint64_t seed_of_input(size_t position);  // among those that are no constants
// ... with integers from these, one for each such input ...
std::vector<Integers> integers_of(const Region& region, const exec::Symbols& sizes);
// ... or, on the CPU, what the generator of a custom operation's argument gives; undefined where there is none.
Tensor made_by_operation(const Region& region, const program::ProgramInput& input, const exec::Symbols& sizes);

// What two programs that compute the region may differ by, in a result of that dtype.
Contract contract_of(const program::Program& region, DType result, const exec::Symbols& sizes);

size_t bytes_of_constants(const program::Program& p);
// Nanoseconds by which such times differ for no reason (MeasureOptions::grain_ns): on a GPU two recorded graphs of one kernel differ.
double grain_ns(const Region& region, const Device& device);

}  // namespace toroid::tune

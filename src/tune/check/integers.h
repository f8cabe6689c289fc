// Which integers a region's inputs hold when its choices are compared: as different as they may be where places in memory follow from them.
#pragma once

#include <vector>

#include "exec/run/sizes.h"
#include "program/program.h"
#include "tune/check/inputs.h"

namespace toroid::tune {

// One for each input of p that is no constant, in their order; for floats and Bools it says nothing. An integer that indexes memory lies in
// what it indexes, from 0 on, however it is computed from the input, and where it says which element is written in place of another, none
// occurs twice among as many as there are along any dimension that it is read by, so that what is written is certain; one that a shift is
// by lies in the number's bits; others lie in [-m, m] (unsigned: [0, m]), where m is 128 for 8 bits (256) and else at most 1024, and so
// small that no sum or product of 32 bits or more overflows. That is found by following intervals through the program at these sizes; what
// they do not tell holds 0 and 1, or 0 alone. sum: terms of the longest sum.
std::vector<Integers> integers_of_inputs(const program::Program& p, const exec::Symbols& sizes, int64_t sum);

// The same with 0 and 1 in place of what indexes nothing: masks and flags have these alone. Empty where that is no difference.
std::vector<Integers> narrow_integers(const program::Program& p, const exec::Symbols& sizes, int64_t sum);

}  // namespace toroid::tune

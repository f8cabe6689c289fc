// The sizes at which programs with open sizes are timed and compared.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/run/sizes.h"
#include "program/program.h"

namespace toroid::tune {

// How a refusal begins where neither the program nor inputs have said a size.
inline constexpr std::string_view kUnseenSize = "nothing says what the size ";

// The sizes that were seen when the program was made (graph::Symbol::hint) into `sizes`. Where `refusal` is empty so far: why there are
// none, as sizes come from data, nobody has seen them, or guards exclude them.
void usual_sizes(const program::Program& p, exec::Symbols& sizes, std::string& refusal);

// The same with another value of the first symbol of `size`: one for which that is `wanted` or, where bounds and guards forbid it, near
// that or below.
void sizes_where(const program::Program& p, const Expr& size, int64_t wanted, exec::Symbols& sizes, std::string& refusal);

// Other sizes of two and more that the bounds and guards of the program allow, odd ones and all different from `usual` where there are
// such: what is right at one size may have been made for it. Empty where there are none.
exec::Symbols other_sizes(const program::Program& p, const exec::Symbols& usual);

// Sizes across the range that bounds and guards leave, in geometric steps from its begin to its end, without `usual`: what is best at one
// size need not be over the range. Up to four, and none that has more than 16 times the elements of `usual`, and many. Empty where no size
// has an end: then nothing says how far the range goes, unless `to_usual` says that it ends there.
std::vector<exec::Symbols> sizes_across(const program::Program& p, const exec::Symbols& usual, bool to_usual);

}  // namespace toroid::tune

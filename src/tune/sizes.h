// The sizes at which programs with open sizes are timed and compared.
#pragma once

#include <string>

#include "choice/program.h"
#include "exec/sizes.h"

namespace toroid::tune {

// The sizes that were seen when the program was made (graph::Symbol::hint) into `sizes`, which may hold some already, and which are left
// alone. `refusal`: why there are none, where it is empty so far: sizes that come from data, that nobody has seen, or that guards exclude.
void usual_sizes(const choice::Program& p, exec::Symbols& sizes, std::string& refusal);

// Other sizes that the bounds and guards of the program allow, odd ones and all different from `usual` where there are such: what is right
// at one size may have been made for it. Empty where there are none.
exec::Symbols other_sizes(const choice::Program& p, const exec::Symbols& usual);

}  // namespace toroid::tune

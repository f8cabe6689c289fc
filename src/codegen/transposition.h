// The transposition of a square in vector registers, as C text.
#pragma once

#include <string>

namespace toroid::codegen {

// Statements that transpose the square that `lanes` vectors x[0], x[1] ... are, in place, by two more vectors a and b.
std::string transposition_text(int lanes);

}  // namespace toroid::codegen

// Dead code elimination over programs.
#pragma once

#include "program/program.h"

namespace toroid::program {

// Removes loops, templates and sorts whose results nothing reads: those that write temporaries alone which no node that stays reads. Calls
// stay, as they may have effects. Buffers keep their numbers.
void eliminate_dead(Program& p);

}  // namespace toroid::program

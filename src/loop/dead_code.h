// Dead code elimination in bodies that are parts of others.
#pragma once

#include "loop/node.h"

namespace toroid::loop {

// As eliminate_dead(b), but checks whose values nothing needs go, too, where another loop makes them: made_elsewhere(k) says so of step k.
void eliminate_dead(Body& b, const std::function<bool(size_t step)>& made_elsewhere);

}  // namespace toroid::loop

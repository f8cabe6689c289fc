// What nodes of a program do besides writing their buffers.
#pragma once

#include "program/program.h"

namespace toroid::program {

// Whether it moves the stream of random numbers on: a call that draws, control flow with one in a block.
bool draws(const Node& n);

}  // namespace toroid::program

// The rules that every program keeps.
#pragma once

#include <cstdint>
#include <string>

#include "program/program.h"

namespace toroid::program {

// How far a program has come. Scheduled: every choice is decided, so that no Open node is left.
enum class Stage : uint8_t { Lowered, Scheduled };

// Checks the rules of the IR. InternalError names the program, the rule, the node (its place and label) and `after`, the pass that ran
// last.
void verify(const Program& p, Stage stage, const std::string& after);

}  // namespace toroid::program

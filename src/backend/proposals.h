// What both devices propose for a node in the same way.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace toroid::backend {

// The template's configurations; the first is what it does by itself, unless the node was told otherwise.
std::vector<program::Config> without_default(const program::Node& n, std::vector<program::Config> all);
program::Config first_of(const std::vector<program::Config>& all);
// Where the library does not refuse the node, and does not compute it by default.
void add_library(std::vector<program::Config>& ways, const program::Node& n, program::Config way, const std::string& refusal);

}  // namespace toroid::backend

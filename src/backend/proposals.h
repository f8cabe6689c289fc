// What both devices propose for a node in the same way.
#pragma once

#include <string>
#include <vector>

#include "choice/program.h"

namespace toroid::backend {

// The template's configurations; the first is what it does by itself, unless the node was told otherwise.
std::vector<choice::Config> without_default(const choice::Node& n, std::vector<choice::Config> all);
choice::Config first_of(const std::vector<choice::Config>& all);
// Where the library does not refuse the node, and does not compute it by default.
void add_library(std::vector<choice::Config>& ways, const choice::Node& n, choice::Config way, const std::string& refusal);

}  // namespace toroid::backend

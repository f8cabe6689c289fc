// The sizes that a program leaves open.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "program/program.h"

namespace toroid::program {

// Calls visit for every expression of a node that is made of sizes: of its problem, what is fused with it, and its alternatives' programs.
void for_each_expression(const Node& n, const std::function<void(const Expr&)>& visit);

// Names of the size symbols that the buffers and nodes of a program use.
std::set<std::string> size_symbols(const Program& p);

// Leaves of the program's symbols those that it uses, and those that guards relate with them (but for what comes from data and is not
// used); of its guards those on these symbols alone.
void drop_unused_symbols(Program& p);

}  // namespace toroid::program

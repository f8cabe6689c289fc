// Guards of programs in files: each file is one program, so that sizes for which a guard does not hold are refused in the name of a node.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace toroid::import {

// What operations decided about open sizes becomes a requirement of `node`: the guards of the graph behind the first `known` ones. place:
// of the node in its source. remedy: what to do for other sizes.
void name_guards(graph::Graph& g, size_t known, std::string_view node, std::string_view place, std::string_view remedy);

// "s0 is dimension 1 of the input "x"", for each size of inputs that is in e, joined by commas; empty where no input has one by itself.
std::string origins_text(const graph::Graph& g, const Expr& e);

}  // namespace toroid::import

// Random graphs that call custom operations.
#pragma once

#include <memory>

#include "graph/graph.h"

namespace toroid::fuzz {

// One program twice: in `custom` some nodes of `plain` are calls of custom operations with variants, of one and of several results, of
// lists, and of such that write to arguments.
struct Customised {
  std::unique_ptr<graph::Graph> plain, custom;
  int calls = 0;
};
// Parts of a graph that has no control flow, chosen by the seed. Both graphs have copies of values, also of views of what is written later,
// that the given one has not.
Customised customised(std::unique_ptr<graph::Graph> g, uint64_t seed);

}  // namespace toroid::fuzz

// Operations that move elements without changing them, which come under many names.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace toroid::graph {

// The same elements of the same sizes.
bool is_copy(const ops::Op& op);
// The same elements in the same row-major order; only the sizes change.
bool is_reshape(const ops::Op& op);
// The same elements, with dimensions in another order.
bool is_permute(const ops::Op& op);
bool is_expand(const ops::Op& op);
// The same numbers in another dtype, as near as that has them.
bool is_cast(const ops::Op& op);

// Of an operation that is_permute: dimension d of the result is dimension permutation[d] of the operand.
std::vector<size_t> permutation(const Node& n);

}  // namespace toroid::graph

// Which nodes of a forward pass are not computed again, and why.
#pragma once

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "autograd/partition/partition.h"

namespace toroid::autograd {

// Why the results of a node are kept rather than computed again.
enum class Keep : uint8_t {
  No,         // they may be computed again
  Effect,     // it must not happen twice, or decides sizes
  Product,    // products, convolutions, attention, sorts, calls
  Reduction,  // few bytes for much reading
  Small,      // less than kSmallBytes
  Narrowed,   // an input in a smaller dtype, as autocast keeps its weights: half the bytes of what is there anyway
  Held,       // the forward pass has them in memory anyway while a product runs
  Operand,    // where arithmetic is dear: a product of the backward pass reads them
  Random,     // where arithmetic is dear
  Forward,    // a gradient that is computed with the forward pass (prims.with_forward)
  Boundary,   // a checkpoint's results: what is computed again ends here
  All,        // nothing is to be computed again
};
std::string_view reason_of(Keep k);

inline constexpr int64_t kSmallBytes = 1 << 20;

// Whether its results only show or compose elements of others, so that keeping those is enough.
bool is_view(const graph::Node& n);
bool is_product(const graph::Node& n);

// Whether they are kept whatever the policy.
inline bool is_final(Keep k) { return k == Keep::Effect || k == Keep::Forward || k == Keep::Boundary; }

// What computing a node once more costs, in scalar operations.
double arithmetic_of(const graph::Node& n, const UsualSizes& sizes);

// The values that the forward pass writes to memory anyway: results of products and reductions, operands of products, what it holds while
// one runs. Others it may pass on in registers.
std::unordered_set<const graph::Value*> in_memory_anyway(const std::vector<const graph::Node*>& candidates,
                                                         const std::unordered_set<const graph::Node*>& needed);

// For each node that may be part of the forward pass (`candidates`, in order). needed: those that its own outputs need.
std::unordered_map<const graph::Node*, Keep> what_to_keep(const graph::Graph& g, const std::vector<const graph::Node*>& candidates,
                                                          const std::unordered_set<const graph::Node*>& needed,
                                                          const PartitionPolicy& policy, const UsualSizes& sizes);

}  // namespace toroid::autograd

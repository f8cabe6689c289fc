// The partition of a graph with gradients: what runs before the loss, what after it, and which of the values between are kept in memory
// or computed again.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace toroid::autograd {

struct PartitionPolicy {
  // Of the nodes that are kept by default beyond those that must be, the share that is computed again at least: 0 keeps whatever is no
  // pointwise function of what is kept anyway, 1 only what cannot be computed twice.
  double again = 0;
  // Of the bytes that are saved by default beyond those that must be, the share that may be saved: more is computed again where it takes
  // that.
  double saved_share = 1;
  // In its place: the bytes that may be saved. UserError where more must be.
  std::optional<int64_t> most_bytes = {};
  // Whether arithmetic is dear beside memory, as on CPUs: by default random numbers and what products of the backward pass read are kept.
  bool arithmetic_is_dear = false;
  // Whether anything but views may be computed again. False: whatever the backward pass reads is kept, of checkpoints, too.
  bool recomputes = true;
};

// By the option activation_memory_budget, of what is saved: a share, bytes ("1000B"), or "off".
PartitionPolicy policy_of(const std::string& budget, bool arithmetic_is_dear);

// A value of the forward pass that the backward pass reads.
struct Saved {
  const graph::Value* value = nullptr;
  int64_t bytes = 0;   // by the usual sizes, where they vary
  std::string reason;  // why it is not computed again
};

// All in the order of the graph. Each node is in one of the passes.
struct Partition {
  // Outputs that no gradient is part of, nodes with effects, and what these and the saved values need.
  std::vector<const graph::Node*> forward;
  // What follows from where gradients begin, and what that alone needs.
  std::vector<const graph::Node*> backward;
  std::vector<Saved> saved;               // inputs aside, which are there anyway
  std::vector<const graph::Node*> again;  // of the forward pass, computed in the backward pass, too
  int64_t saved_bytes = 0;
  int64_t saved_by_default = 0, saved_at_least = 0;  // where none of those that are kept by default, and where all are computed again
};

// A minimum cut: of all sets of values that the backward pass can be computed from, given what must not be computed again, the one of
// fewest bytes, where a value that the forward pass would write for this alone counts an eighth more (after H. Zheng and others, "min-cut
// rematerialization" in PyTorch's AOTAutograd, 2022). Of a checkpoint (toroid/checkpoint.h) exactly what leaves it may be saved. Of a graph
// that has no seed, or nothing before it, all is forward.
//
// Of the nodes that are kept by default those are computed again first that save most memory for their arithmetic; of equal ones, as equal
// layers have, those that lie far from each other, so that what is computed again at once is short. What is saved falls with what is
// computed again; what a run takes need not, as that is in memory, too (compile/partitioning.h).
//
// cotangents: inputs at which gradients begin, in place of the rows prims.gradient_seed. Then results of the forward pass that
// replace an input's contents are saved like other values: their memory is the input's, which others write.
Partition partition(const graph::Graph& g, const PartitionPolicy& policy, std::span<const graph::Value* const> cotangents = {});

// The graph in that order: the forward pass, then the backward pass, in which what is computed again comes just before its first reader;
// each node knows its pass. Each operation gives the same bits. nullptr: there is no backward pass.
std::unique_ptr<graph::Graph> recompute(const graph::Graph& g, const Partition& p);

// The nodes whose values depend on a seed, and the seeds; where there are cotangents, those that depend on these.
std::unordered_set<const graph::Node*> what_follows_from_seeds(const graph::Graph& g, std::span<const graph::Value* const> cotangents = {});

// For people: totals, then a line for each saved value, the largest first.
std::string to_string(const Partition& p);

// How many elements or bytes values have: by the sizes in the inputs at hand where a graph's sizes vary.
class UsualSizes {
 public:
  explicit UsualSizes(const graph::Graph& g) : g_(g) {}
  int64_t value_of(const Expr& e) const;
  int64_t numel(const graph::Value& v) const;
  int64_t bytes(const graph::Value& v) const;

 private:
  const graph::Graph& g_;
};

}  // namespace toroid::autograd

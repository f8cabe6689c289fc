// A joint graph as two programs: the forward pass, which also gives what it saves, and the backward pass, which takes that.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "autograd/differentiate.h"
#include "autograd/partition/partition.h"

namespace toroid::autograd {

struct Divided {
  // What an input of the backward pass is.
  enum class Kind : uint8_t {
    Operand,    // input of the forward pass
    Result,     // output of the forward pass that its caller gets
    Saved,      // output of the forward pass behind these
    Cotangent,  // of a result
    Sizes,      // a tensor without elements, whose sizes are those of `symbols`, then 0
  };
  struct Source {
    Kind kind;
    size_t index;  // among its kind
  };

  // Its inputs are the joint graph's but cotangents; its outputs those before the gradients, then what it saves.
  std::unique_ptr<graph::Graph> forward;
  size_t results = 0;  // outputs of the forward pass in front of what it saves
  // Null where no gradient depends on a cotangent: all are 0.
  std::unique_ptr<graph::Graph> backward;
  std::vector<Source> inputs;                    // of the backward pass
  std::vector<std::optional<size_t>> gradients;  // by gradient of the joint graph: the output of the backward pass; none: it is 0
  // The sizes that vary, and where they stand: a dimension of an operand.
  struct Size {
    size_t operand, dimension;
  };
  std::vector<Size> sizes;
  std::string report;  // to_string of the partition
};

// joint: as `differentiate` makes it with cotangents and without seeds, or after passes. gradients: how many of its outputs, the last ones,
// are gradients. Draws must be explicit (pass explicit_random), so that both passes may make the same numbers; the state that they are made
// of is saved then. A size that follows from data, and that nothing saved has, is saved as that of a tensor without elements.
Divided divide(const graph::Graph& joint, size_t gradients, const PartitionPolicy& policy);

}  // namespace toroid::autograd

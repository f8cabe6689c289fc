// Sizes that only the run determines: what bind() makes before the first step is made here from step to step.
#pragma once

#include "exec/run/lane.h"

namespace toroid::exec {

// Of one run. Buffers get memory of their own when a step first takes them.
class LateSizes {
 public:
  // symbols: the sizes that are known beforehand. UserError where guards on these do not hold. Plan and parts outlive it.
  LateSizes(const Plan& plan, const Loaded& loaded, Symbols symbols);

  // What is bound so far.
  const Bound& bound() const { return bound_; }
  // Before a step: it is bound to the sizes that are known by now, the lane has room for it, and the buffers that it takes have memory.
  void prepare(size_t step, Lane& lane, Workspace& memory);
  // After a call on the host of `inputs`: what its results tell of sizes, which guards are checked for (UserError). Results that are the
  // whole contents of a buffer become its memory, and are undefined afterwards; the buffers of the others have memory to copy them to.
  void accept(const HostCall& call, std::span<const Tensor> inputs, std::vector<Tensor>& results, Workspace& memory);
  // After the last step: the sizes of outputs, which tensors of the run's own memory take.
  void finish(Workspace& memory);

 private:
  void provide(int buffer, Workspace& memory);
  void learn(const HostCall::View& view, const Tensor& result);
  bool is_whole(const HostCall::View& view, const Tensor& result) const;

  const Plan& plan_;
  const Loaded& loaded_;
  Bound bound_;
};

}  // namespace toroid::exec

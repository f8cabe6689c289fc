#include "front/outside.h"

#include "base/check.h"
#include "front/eager.h"
#include "graph/recorder.h"
#include "tensor/grad_state.h"

namespace toroid::front {

OutsideOfGraphs::OutsideOfGraphs(std::string_view what, std::span<const Tensor> inputs) {
  TOROID_USER_CHECK(
      !dynamic_cast<const graph::Recorder*>(innermost_dispatcher()),
      "{} is run within a function that is recorded as a whole: one that is differentiated, or given to cond, while_loop, scan "
      "or map. It is a program that was compiled before, and has no gradient. Run it before, and use its results there",
      what);
  if (trace::Tracer* tracer = trace::Tracer::current()) {
    tracer->break_graph(fmt::format("run of {}, which is a program that was compiled before", what));
    no_trace_.emplace(nullptr);
    eager_.emplace(EagerDispatcher::instance());
  }
  if (!grad_mode) return;
  for (const Tensor& t : inputs)
    TOROID_USER_CHECK(
        !t.requires_grad(),
        "{} is run on a tensor that requires gradients, and has none: run it within a NoGrad, or give it the tensor's detach()", what);
}

}  // namespace toroid::front

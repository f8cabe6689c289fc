// Programs that were loaded, where functions call them: they have no graph that a trace could take.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tensor/dispatch.h"
#include "trace/tracer.h"

namespace toroid::front {

// For the length of a call of a loaded program. Within a function that is traced the graph ends here, and the program runs on ordinary
// tensors. UserError, with the name `what`: within a function that is recorded as a whole, and for inputs whose gradients somebody wants.
class OutsideOfGraphs {
 public:
  OutsideOfGraphs(std::string_view what, std::span<const Tensor> inputs);
  OutsideOfGraphs(const OutsideOfGraphs&) = delete;

 private:
  std::optional<trace::Tracer::Scope> no_trace_;
  std::optional<DispatchScope> eager_;
};

}  // namespace toroid::front

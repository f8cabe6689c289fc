// Graphs of functions, without the front end.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trace/tracer.h"

namespace toroid::test {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

inline std::unique_ptr<graph::Graph> graph_of(const Function& f, const Tensors& inputs) {
  trace::Tracer tracer("traced", nullptr);
  Tensors results;
  {
    Tensors stand_ins;
    for (auto& t : inputs) stand_ins.push_back(tracer.argument(t, "input", {}));
    trace::Tracer::Scope scope(&tracer);
    results = f(stand_ins);
  }
  return std::move(tracer.finish(std::move(results)).graph);
}

}  // namespace toroid::test

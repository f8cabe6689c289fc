// Shared by the tests of compiled graphs.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "errors.h"
#include "trace/tracer.h"

namespace toroid::test {

using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

// What `forward` does to inputs of these dtypes and sizes.
inline std::unique_ptr<graph::Graph> graph_of(const Forward& forward, const std::vector<Tensor>& inputs) {
  trace::Tracer tracer("traced", nullptr);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (auto& t : inputs) stand_ins.push_back(tracer.argument(t, "input", {}));
    trace::Tracer::Scope scope(&tracer);
    results = {forward(stand_ins)};
  }
  return std::move(tracer.finish(std::move(results)).graph);
}

// 0, 1, 2, ... in row-major order.
inline Tensor counting(const std::vector<int64_t>& sizes, DType dtype = DType::F32) {
  Tensor t = Tensor::full(sizes, 0, DType::F64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = static_cast<double>(i);
  return Tensor::of(t.to_vector(), sizes, dtype);
}

}  // namespace toroid::test

// Shared by the tests of compiled functions.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "errors.h"
#include "toroid/compile.h"
#include "trace/tracer.h"

namespace toroid::test {

// Captured graphs run by the reference evaluator: these tests are about capture and guards, not about kernels.
inline CompileConfig by_reference(CompileConfig c = {}) {
  c.options["backend"] = "reference";
  return c;
}

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

// The stance for the life of this object.
struct StanceScope {
  explicit StanceScope(Stance s) : before(set_stance(s)) {}
  ~StanceScope() { set_stance(before); }
  Stance before;
};

}  // namespace toroid::test

// Shared by the tests of modules and models.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "toroid/compile.h"
#include "toroid/nn.h"

namespace toroid::test {

// Graphs run by the reference evaluator: these tests are about modules, not about kernels.
inline CompileConfig by_reference() {
  CompileConfig c;
  c.options["backend"] = "reference";
  return c;
}

inline Tensor counting(const std::vector<int64_t>& sizes, double step = 1) {
  Tensor t = Tensor::full(sizes, 0);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(static_cast<double>(i) * step);
  return t;
}

inline Tensor ids(const std::vector<int64_t>& sizes, int64_t below) {
  Tensor t = Tensor::full(sizes, 0, DType::I64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<int64_t>()[i] = (i * 7 + 3) % below;
  return t;
}

// The largest difference as a part of the expected range.
inline double error_of(const Tensor& got, const Tensor& expected) {
  if (got.sizes() != expected.sizes()) return std::numeric_limits<double>::infinity();
  auto a = got.to_vector(), b = expected.to_vector();
  double range = 0, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    range = std::max(range, std::abs(b[i]));
    worst = std::isfinite(a[i]) ? std::max(worst, std::abs(a[i] - b[i])) : std::numeric_limits<double>::infinity();
  }
  return range > 0 ? worst / range : worst;
}

}  // namespace toroid::test

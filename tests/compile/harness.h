// Shared by the tests of compiled functions.
#pragma once

#include <gtest/gtest.h>

#include "toroid/compile.h"

namespace toroid::test {

// Captured graphs run by the reference evaluator: these tests are about capture and guards, not about kernels.
inline CompileConfig by_reference(CompileConfig c = {}) {
  c.options["backend"] = "reference";
  return c;
}

// 0, 1, 2, ... in row-major order.
inline Tensor counting(const std::vector<int64_t>& sizes, DType dtype = DType::F32) {
  Tensor t = Tensor::full(sizes, 0, DType::F64);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<double>()[i] = static_cast<double>(i);
  return Tensor::of(t.to_vector(), sizes, dtype);
}

template <class F>
std::string user_error(F&& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The stance for the life of this object.
struct StanceScope {
  explicit StanceScope(Stance s) : before(set_stance(s)) {}
  ~StanceScope() { set_stance(before); }
  Stance before;
};

}  // namespace toroid::test

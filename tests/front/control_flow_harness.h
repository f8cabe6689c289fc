// Shared by the tests of control flow in C++ functions.
#pragma once

#include <cmath>

#include "front/harness.h"
#include "toroid/control_flow.h"

namespace toroid::control {

using Values = std::vector<double>;
using List = std::vector<Tensor>;

inline Tensor truth(bool v) { return Tensor::full({}, v, DType::Bool); }
inline Tensor number(int64_t v) { return Tensor::full({}, static_cast<double>(v), DType::I64); }

inline void expect_near(const List& got, const List& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), want[i].dtype()) << what << ", result " << i;
    ASSERT_EQ(got[i].sizes(), want[i].sizes()) << what << ", result " << i;
    const auto a = got[i].to_vector(), b = want[i].to_vector();
    for (size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(a[k]) && std::isnan(b[k])) continue;
      ASSERT_NEAR(a[k], b[k], 2e-4 * (1 + std::abs(b[k]))) << what << ", result " << i << "[" << k << "]";
    }
  }
}

// What fn gives, called as it is, must be what it gives by the interpreter and compiled. Returns that.
template <class F, class... A>
List same_in_all_ways(F fn, const A&... arguments) {
  const List eager = fn(arguments...);
  expect_near(compile(fn, test::by_reference({.fullgraph = true}))(arguments...), eager, "by the interpreter");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    const auto compiled = compile(fn, {.mode = mode, .fullgraph = true});
    for (int call = 0; call < 2; ++call) expect_near(compiled(arguments...), eager, "compiled");
    EXPECT_EQ(compiled.report().compiles, 1);
    EXPECT_EQ(compiled.report().eager_calls, 0);
  }
  return eager;
}

}  // namespace toroid::control

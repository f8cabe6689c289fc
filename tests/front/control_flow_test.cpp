// cond(), while_loop(), scan() and map() of C++ functions: called as they are, compiled, and by the reference evaluator.
#include "toroid/control_flow.h"

#include <gtest/gtest.h>

#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/custom_op.h"
#include "toroid/grad.h"
#include "toroid/random.h"

namespace toroid::control {
namespace {

using test::by_reference;
using test::contains;
using test::user_error;

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dtype(), want[i].dtype()) << what;
    ASSERT_EQ(got[i].sizes(), want[i].sizes()) << what;
    const auto a = got[i].to_vector(), b = want[i].to_vector();
    for (size_t k = 0; k < a.size(); ++k)
      ASSERT_NEAR(a[k], b[k], 1e-4 * (1 + std::abs(b[k]))) << what << ", result " << i << "[" << k << "]";
  }
}

// What fn gives, called as it is, must be what it gives by the interpreter and compiled. Returns that.
template <class F, class... A>
std::vector<Tensor> same_in_all_ways(F fn, const A&... arguments) {
  const std::vector<Tensor> eager = fn(arguments...);
  expect_near(compile(fn, by_reference({.fullgraph = true}))(arguments...), eager, "by the interpreter");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    const auto compiled = compile(fn, {.mode = mode, .fullgraph = true});
    for (int call = 0; call < 2; ++call) expect_near(compiled(arguments...), eager, "compiled");
    EXPECT_EQ(compiled.report().compiles, 1);
    EXPECT_EQ(compiled.report().eager_calls, 0);
  }
  return eager;
}

Tensor truth(bool v) { return Tensor::full({}, v, DType::Bool); }
Tensor number(int64_t v) { return Tensor::full({}, static_cast<double>(v), DType::I64); }

using Values = std::vector<double>;
using List = std::vector<Tensor>;

TEST(ControlFlowFunctions, CondRunsOneBranch) {
  const Tensor w = test::counting({3});
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    const Tensor y = x + 1;
    return List{cond(
        p, [&](const Tensor& t) { return t * w; }, [&](const Tensor& t) { return t - y; }, x)};
  };
  EXPECT_EQ(same_in_all_ways(fn, truth(true), test::counting({3}))[0].to_vector(), (Values{0, 1, 4}));
  EXPECT_EQ(same_in_all_ways(fn, truth(false), test::counting({3}))[0].to_vector(), (Values{-1, -1, -1}));
}

TEST(ControlFlowFunctions, LoopsCarry) {
  const Tensor w = test::counting({3}) * 0.5;
  const auto fn = [&](const Tensor& n, const Tensor& x) {
    auto [i, y] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                             [&](const Tensor& i, const Tensor& y) { return std::tuple(i + 1, y * w + x); }, std::tuple(n * 0, x));
    return List{i, y};
  };
  EXPECT_EQ(same_in_all_ways(fn, number(0), test::counting({3}))[1].to_vector(), (Values{0, 1, 2}));
  EXPECT_EQ(same_in_all_ways(fn, number(2), test::counting({3}))[1].to_vector(), (Values{0, 1.75, 6}));
}

TEST(ControlFlowFunctions, ScansStack) {
  const Tensor w = test::counting({3});
  for (bool reverse : {false, true})
    for (int64_t length : {1, 4, 0}) {
      const auto fn = [&](const Tensor& init, const Tensor& xs) {
        auto [last, all] = scan(
            [&](const Tensor& h, const Tensor& x) {
              const Tensor next = h * 0.5 + x * w;
              return std::pair(next, std::array{next, sum(x)});
            },
            init, xs, {.dim = 1, .reverse = reverse});
        return List{last, all[0], all[1]};
      };
      const auto got = same_in_all_ways(fn, test::counting({3}), test::counting({3, length}));
      EXPECT_EQ(got[1].sizes(), (std::vector<int64_t>{length, 3}));
      if (length == 4) EXPECT_EQ(got[2].to_vector(), (Values{12, 15, 18, 21}));  // where the slices are
    }
}

TEST(ControlFlowFunctions, MapsOverSlices) {
  struct Pair {
    Tensor a, b;
  };
  const auto fn = [](const Tensor& x, const Tensor& y) {
    const Pair out = map([](const Pair& p) { return Pair{p.a + p.b, p.a * p.b}; }, Pair{x, y});
    return List{out.a, out.b};
  };
  EXPECT_EQ(same_in_all_ways(fn, test::counting({3}), test::counting({3}))[1].to_vector(), (Values{0, 1, 4}));
}

}  // namespace
}  // namespace toroid::control

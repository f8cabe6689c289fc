// Gradients through control flow: of functions, compiled and not, and on the tape.
#include <gtest/gtest.h>

#include "front/control_flow_harness.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/grad.h"
#include "toroid/random.h"

namespace toroid::control {
namespace {

using test::contains;
using test::user_error;

Tensor wave(const std::vector<int64_t>& sizes, double phase) { return sin(test::counting(sizes) + phase); }

// The loss of a function of x and w, and its gradients, in each way that there is; all must be as differences have them.
template <class F>
void check_gradients(F loss, bool may_be_called = true) {
  const Tensor x = wave({3, 2}, 0.3), w = wave({2}, 1.1);
  const auto gradients = [&](const Tensor& x, const Tensor& w) {
    auto [value, by] = value_and_gradients([&] { return loss(x, w); }, {x, w});
    return List{value, by[0], by[1]};
  };
  List want{loss(x, w)};
  for (int which : {0, 1}) {
    const Tensor& t = which ? w : x;
    Values slopes;
    for (size_t i = 0; i < static_cast<size_t>(t.numel()); ++i) {
      const auto moved = [&](double by) {
        Values v = t.to_vector();
        v[i] += by;
        const Tensor m = Tensor::of(v, t.sizes(), DType::F64);
        return (which ? loss(x.to(DType::F64), m) : loss(m, w.to(DType::F64))).item();
      };
      slopes.push_back((moved(1e-5) - moved(-1e-5)) / 2e-5);
    }
    want.push_back(Tensor::of(slopes, t.sizes()));
  }
  expect_near(gradients(x, w), want, "value_and_gradients");
  for (bool dynamic : {false, true}) {
    const auto compiled = compile(gradients, {.fullgraph = true, .dynamic = dynamic});
    for (int call = 0; call < 2; ++call) expect_near(compiled(x, w), want, "compiled");
  }
  const auto backward = [&](const auto& f, const char* what) {
    const Tensor a = x + 0, b = w + 0;
    Tensor p = a.detach(), q = b.detach();
    p.requires_grad_(), q.requires_grad_();
    const Tensor value = f(p, q);
    value.backward();
    expect_near({value, p.grad(), q.grad()}, want, what);
  };
  if (may_be_called) backward(loss, "backward() of calls");
  const auto compiled = compile(loss, {.fullgraph = true});
  for (int call = 0; call < 2; ++call) backward(compiled, "backward() of a compiled function");
}

TEST(ControlFlowGradients, OfCond) {
  for (double shift : {-100.0, 100.0})
    check_gradients([&](const Tensor& x, const Tensor& w) {
      const Tensor scaled = x * w;
      const auto [a, b] = cond(
          sum(x) + shift > 0, [&](const Tensor& t) { return std::pair(t * scaled, tanh(w)); },
          [&](const Tensor& t) { return std::pair(exp(t), w * w[0]); }, x);
      return sum(a * b);
    });
}

TEST(ControlFlowGradients, OfScanAndMap) {
  for (bool reverse : {false, true})
    check_gradients([&](const Tensor& x, const Tensor& w) {
      const auto [last, all] = scan(
          [&](const Tensor& h, const Tensor& row) {
            const Tensor next = tanh(h * w + row * x[0]);
            return std::pair(next, std::pair(next * row, sum(h)));
          },
          w * 2, x, {.reverse = reverse});
      return sum(all.first * x) + sum(last) * sum(all.second) +
             sum(map([&](const Tensor& column) { return column * sum(w) + x[0][1]; }, x, 1));
    });
}

TEST(ControlFlowGradients, OfNestedRegions) {
  for (double shift : {-100.0, 100.0})
    check_gradients([&](const Tensor& x, const Tensor& w) {
      const Tensor y = cond(
          sum(w) + shift > 0,
          [&] {
            return scan(
                       [&](const Tensor& h, const Tensor& row) {
                         return std::pair(cond(
                                              sum(row) > 0, [&] { return h + row * w; }, [&] { return h * row; }),
                                          h * w);
                       },
                       w, x)
                .second;
          },
          [&] { return checkpoint([&] { return map([&](const Tensor& row) { return gelu(row * w); }, x); }); });
      return sum(y * y);
    });
}

// What a region does without gradients has none.
TEST(ControlFlowGradients, OfPartsOutOfReach) {
  check_gradients([](const Tensor& x, const Tensor& w) {
    const auto detached = [&] {
      const NoGrad none;
      return w * 3;
    };
    // Differences see the whole, so that what is out of reach adds nothing that depends on x and w.
    const Tensor y = cond(
        sum(x) > -100, [&] { return x * w + detached() * 0; }, [&] { return x; });
    return sum(y) + cond(
                        sum(x) > -100, [&] { return sum(w.detach()) * 0; }, [&] { return sum(x); });
  });
  const Tensor x = wave({3}, 0), w = wave({3}, 1);
  const auto fn = [&] {
    return sum(cond(
        sum(x) > -100,
        [&] {
          const NoGrad none;
          return x * w;
        },
        [&] { return x; }));
  };
  EXPECT_EQ(value_and_gradients(fn, {x}).second[0].to_vector(), (Values{0, 0, 0}));
  EXPECT_EQ(compile([&](const Tensor&) { return value_and_gradients(fn, {x}).second[0]; })(x).to_vector(), (Values{0, 0, 0}));
}

TEST(ControlFlowGradients, WhileLoopsHaveNone) {
  const auto loss = [](const Tensor& x) {
    return sum(while_loop([](const Tensor& t) { return sum(t) < 10; }, [&](const Tensor& t) { return t * 2 + x; }, x * 1));
  };
  const auto refused = [](const std::string& error) {
    return contains(error, "while_loop (control_flow_gradients_test.cpp:") &&
           contains(error, "): this operation has no gradient; detach() its operands");
  };
  const Tensor x = ones({2});
  EXPECT_PRED1(refused, user_error([&] { value_and_gradients([&] { return loss(x); }, {x}); }));
  EXPECT_PRED1(refused, user_error([&] {
                 compile([&](const Tensor& t) { return value_and_gradients([&] { return loss(t); }, {t}).second[0]; })(x);
               }));
  Tensor leaf = x.detach();
  leaf.requires_grad_();
  EXPECT_EQ(loss(leaf).item(), 14);
  EXPECT_TRUE(loss(leaf).requires_grad());
  EXPECT_PRED1(refused, user_error([&] { loss(leaf).backward(); }));
  const auto compiled = compile(loss);
  EXPECT_PRED1(refused, user_error([&] { compiled(leaf).backward(); }));
  // What does not follow from what requires gradients has no such history.
  EXPECT_FALSE(loss(x).requires_grad());
  EXPECT_FALSE(loss(leaf.detach()).requires_grad());
}

TEST(ControlFlowGradients, DrawsInRegionsHaveNone) {
  const auto loss = [](const Tensor& x) {
    return sum(cond(
        sum(x) > 0, [&] { return dropout(x, 0.5, true); }, [&] { return x; }));
  };
  const Tensor x = ones({4});
  const std::string error = user_error([&] { value_and_gradients([&] { return loss(x); }, {x}); });
  EXPECT_PRED2(contains, error, "): a region draws random numbers, so it has no gradient; draw them before it");
  // Called as it is, the branch is a part of what is remembered.
  Tensor leaf = x.detach();
  leaf.requires_grad_();
  manual_seed(3);
  const Tensor value = loss(leaf);
  value.backward();
  EXPECT_EQ(value.item(), sum(leaf.grad()).item());
}

// A compiled function in one that is differentiated, or given to control flow, is a part of it.
TEST(ControlFlowGradients, GoThroughCompiledFunctions) {
  const auto twice = compile([](const Tensor& x) { return x * 2; });
  const Tensor x = ones({2});
  EXPECT_EQ(value_and_gradients([&] { return sum(twice(x)); }, {x}).second[0].to_vector(), (Values{2, 2}));
  const auto mapped = [&](const Tensor& t) { return map([&](const Tensor& row) { return twice(row); }, t); };
  EXPECT_EQ(value_and_gradients([&] { return sum(mapped(x)); }, {x}).second[0].to_vector(), (Values{2, 2}));
  EXPECT_EQ(mapped(ones({0, 3})).sizes(), (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(twice.report().calls, 0);
}

// The second derivative of a scan.
TEST(ControlFlowGradients, OfGradients) {
  const auto f = [](const Tensor& x) {
    return scan([](const Tensor& h, const Tensor& t) { return std::pair(h * t, t); }, ones({}), stack({x, x * x, x})).first;  // x^4
  };
  const auto second = [&](const Tensor& x) { return grad(grad(f))(x); };
  const Tensor x = Tensor::full({}, 2);
  EXPECT_NEAR(second(x).item(), 48, 1e-3);
  EXPECT_NEAR(compile(second)(x).item(), 48, 1e-3);
}

}  // namespace
}  // namespace toroid::control

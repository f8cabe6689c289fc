// What control flow refuses, and in which words.
#include <gtest/gtest.h>

#include <regex>

#include "front/control_flow_harness.h"
#include "toroid/custom_op.h"
#include "toroid/grad.h"
#include "toroid/opaque_op.h"

namespace toroid::control {
namespace {

using test::contains;
using test::user_error;

// What compile(fn) says of a call.
template <class F, class... A>
std::string compiled_error(F fn, const A&... arguments) {
  return user_error([&] { compile(fn, {.fullgraph = true})(arguments...); });
}
// With N for the numbers of lines.
std::string without_lines(const std::string& text) { return std::regex_replace(text, std::regex("cpp:[0-9]+"), "cpp:N"); }
#define EXPECT_CONTAINS(text, part) EXPECT_PRED2(contains, without_lines(text), part)

TEST(ControlFlowErrors, PredicatesAreOneTruthValue) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return x; }, [&] { return x + 1; });
  };
  for (const Tensor& p : {test::counting({2}), Tensor::full({2}, 1, DType::Bool), number(1)})
    for (const std::string& error : {user_error([&] { fn(p, p); }), compiled_error(fn, p, p)})
      EXPECT_CONTAINS(error, "the predicate of cond (control_flow_errors_test.cpp:N): expected a bool tensor of one element, got ");
  EXPECT_EQ(fn(Tensor::full({1, 1}, 1, DType::Bool), number(3)).item(), 3);
  EXPECT_EQ(compile(fn)(Tensor::full({1, 1}, 0, DType::Bool), number(3)).item(), 4);
  const auto loop = [](const Tensor& x) {
    return while_loop([](const Tensor& t) { return t < 3; }, [](const Tensor& t) { return t + 1; }, x);
  };
  for (const std::string& error : {user_error([&] { loop(test::counting({2})); }), compiled_error(loop, test::counting({2}))})
    EXPECT_CONTAINS(
        error,
        "the condition of while_loop (control_flow_errors_test.cpp:N): expected a bool tensor of one element, got bool[2]; compare or reduce it");
}

TEST(ControlFlowErrors, BranchesAgree) {
  const auto sizes = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return x * 2; }, [&] { return sum(x); });
  };
  EXPECT_CONTAINS(
      compiled_error(sizes, truth(true), test::counting({3})),
      "cond (control_flow_errors_test.cpp:N): result 0 is f32[3] in the true branch (mul.Tensor at control_flow_errors_test.cpp:N) and f32[] in "
      "the false branch (sum at control_flow_errors_test.cpp:N); expected the same dtype and sizes");
  const auto dtypes = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [](const Tensor& t) { return t; }, [](const Tensor& t) { return t > 0; }, x);
  };
  EXPECT_CONTAINS(compiled_error(dtypes, truth(true), test::counting({3})),
                  "result 0 is f32[3] in the true branch (a tensor that it is given) and bool[3] in the false branch (gt.");
  const auto counts = [](const Tensor& p, const Tensor& x) {
    return cond(
        p,
        [&] {
          return List{x, x};
        },
        [&] { return List{x}; });
  };
  EXPECT_CONTAINS(compiled_error(counts, truth(true), test::counting({3})),
                  "the true branch returns [T, T], the false branch [T] (T is a tensor); expected the same");
}

TEST(ControlFlowErrors, RoundsKeepTypes) {
  const auto grows = [](const Tensor& x) {
    return while_loop([](const Tensor& t) { return sum(t) < 9; }, [](const Tensor& t) { return cat({t, t}); }, x);
  };
  const auto changes = [](const Tensor& x) {
    return scan([](const Tensor& h, const Tensor& t) { return std::pair(h > t, t); }, x[0], x).first;
  };
  for (const std::string& error : {user_error([&] { grows(ones({2})); }), compiled_error(grows, ones({2}))})
    EXPECT_CONTAINS(error, "): tensor 0 that is carried is f32[2], the body of while_loop returns f32[4] for it");
  for (const std::string& error : {user_error([&] { changes(ones({2})); }), compiled_error(changes, ones({2}))})
    EXPECT_CONTAINS(error, "): tensor 0 that is carried is f32[], the function of scan returns bool[] for it");
  const auto fewer = [](const List& x) {
    return while_loop([](const List& t) { return sum(t[0]) < 9; }, [](const List& t) { return List{t[0]}; }, x);
  };
  EXPECT_CONTAINS(user_error([&] { fewer({ones({1}), ones({1})}); }), "[T, T] is carried, the body of while_loop returns [T] for it");
  EXPECT_CONTAINS(compiled_error(
                      [&](const Tensor& x) {
                        return fewer({x, x});
                      },
                      ones({1})),
                  "[T, T] is carried, the body of while_loop returns [T] for it");
}

TEST(ControlFlowErrors, ScansHaveSlices) {
  const auto step = [](const Tensor& h, const std::array<Tensor, 2>& x) { return std::pair(h, x[0]); };
  const auto over = [&](const Tensor& a, const Tensor& b, int64_t dim) {
    const auto fn = [&](const Tensor& x) { return scan(step, x, std::array{a, b}, {.dim = dim}).second; };
    return std::array{user_error([&] { fn(ones({1})); }), compiled_error(fn, ones({1}))};
  };
  for (auto& error : over(ones({2, 3}), ones({2, 4}), 1)) EXPECT_CONTAINS(error, "of the tensors to scan over one has 3 slices, another 4");
  for (auto& error : over(ones({2, 3}), ones({2}), -2)) EXPECT_CONTAINS(error, "along dimension -2 of a tensor of 1 dimensions");
  const auto none = [](const Tensor& x) { return scan([](const Tensor& h, const List&) { return std::pair(h, h); }, x, List{}).second; };
  for (const std::string& error : {user_error([&] { none(ones({1})); }), compiled_error(none, ones({1}))})
    EXPECT_CONTAINS(error, "there is nothing to scan over");
}

TEST(ControlFlowErrors, RegionsReadNoValues) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return x + x.item(); }, [&] { return x; });
  };
  EXPECT_CONTAINS(
      user_error([&] { compile(fn)(truth(true), ones({1})); }),
      "control_flow_errors_test.cpp:N: item() of a tensor in the true branch of cond, which is recorded before any value is known; compute with the tensor, or read it before");
  const auto excluded = [](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return compile_disable([](const Tensor& t) { return t * 2; })(x + 1); }, [&] { return x; });
  };
  EXPECT_CONTAINS(user_error([&] { compile(excluded)(truth(true), ones({1})); }),
                  "a function that compile_disable() excludes is called within one that is recorded as a whole");
}

TEST(ControlFlowErrors, RegionsWriteNothingOutside) {
  const auto expect_refused = [](const auto& fn, const std::string& error, const auto&... arguments) {
    EXPECT_CONTAINS(compiled_error(fn, arguments...), error);
    EXPECT_CONTAINS(user_error([&] { fn(arguments...); }), error);
  };
  const Tensor captured = ones({3});
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    return cond(
        p, [&] { return add_(captured[0], 1); }, [&] { return x[0]; });
  };
  expect_refused(
      fn,
      "add_.Tensor (control_flow_errors_test.cpp:N): the true branch of cond writes in place to a tensor from outside, which it may "
      "only read; return the new contents from it, or write to clone() of the tensor",
      truth(true), ones({3}));
  EXPECT_EQ(captured.to_vector(), (Values{1, 1, 1}));
  const auto operand = [](const Tensor& x) {
    return while_loop([](const Tensor& t) { return sum(t) < 9; }, [](const Tensor& t) { return mul_(t, 2); }, x);
  };
  expect_refused(operand, "the body of while_loop writes in place", ones({3}));
  static const auto scale = custom_op("control::scale_(Tensor(a!) x) -> ()", [](Tensor& x) { mul_(x, 2); });
  const auto custom = [](const Tensor& x) {
    return map(
        [](const Tensor& t) {
          scale(t);
          return t;
        },
        x);
  };
  expect_refused(custom, "the function of scan writes in place", ones({3}));
  static const auto store = opaque_op("control::store(Tensor x, Tensor(a!) out) -> ()",
                                      [](InputMemory x, OutputMemory out) { out.as<float>()[0] = x.as<float>()[0]; });
  const auto opaque = [](const Tensor& p, const Tensor& x, const Tensor& out) {
    return cond(
        p,
        [&](const Tensor& t) {
          store(t, out);
          return t;
        },
        [](const Tensor& t) { return t; }, x);
  };
  expect_refused(opaque, "the true branch of cond writes in place", truth(true), ones({3}), ones({3}));
  // What the function around has made is outside, too; what another region has returned is not.
  const auto around = [](const Tensor& p, const Tensor& x) {
    return map(
        [&](const Tensor& row) {
          const Tensor own = row + 1;
          return cond(
              p, [&] { return add_(own, 1); }, [&] { return row; });
        },
        x);
  };
  expect_refused(around, "the true branch of cond writes in place", truth(true), ones({3}));
  const auto returned = [](const Tensor& p, const Tensor& x) {
    return map(
        [&](const Tensor& row) {
          return add_(cond(
                          p, [&] { return row; }, [&] { return row + 1; }),
                      5);
        },
        x);
  };
  for (bool p : {true, false}) {
    EXPECT_EQ(returned(truth(p), ones({2})).to_vector(), (Values(2, p ? 6 : 7)));
    EXPECT_EQ(compile(returned)(truth(p), ones({2})).to_vector(), (Values(2, p ? 6 : 7)));
  }
  // Tensors that no operation has made are from outside.
  const auto filled = [](const Tensor& x) { return map([](const Tensor& t) { return add_(Tensor::full({2}, 1), t); }, x); };
  expect_refused(filled, "the function of scan writes in place", ones({3}));
}

// An error in a region is that of the operation, with its line.
TEST(ControlFlowErrors, OperationsNameTheirLines) {
  int line = 0;
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    const auto wrong = [&] {
      line = __LINE__ + 1;
      return matmul(x, ones({3, 3}));
    };
    return cond(
        p, [&] { return x; }, wrong);
  };
  for (const std::string& error : {compiled_error(fn, truth(true), ones({2, 2})), user_error([&] {
                                     fn(truth(false), ones({2, 2}));
                                   }),
                                   user_error([&] {
                                     value_and_gradients([&] { return sum(fn(truth(true), ones({2, 2}))); }, {ones({2, 2})});
                                   })})
    EXPECT_PRED2(contains, error, "control_flow_errors_test.cpp:" + std::to_string(line) + ")");
  // So do requirements of sizes that are open.
  const auto open = compile(
      [&](const Tensor& p, const Tensor& x, const Tensor& y) {
        const auto product = [&] {
          line = __LINE__ + 1;
          return dot(x, y);
        };
        return cond(
            p, [&] { return sum(x); }, product);
      },
      {.fullgraph = true, .dynamic = true});
  open(truth(true), ones({4}), ones({4}));
  const std::string error = user_error([&] { open(truth(true), ones({4}), ones({5})); });
  EXPECT_PRED2(contains, error, "dot");
  EXPECT_PRED2(contains, error, "control_flow_errors_test.cpp:" + std::to_string(line) + ")");
}

TEST(ControlFlowErrors, RegionsKeepNothing) {
  Tensor kept;
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    const Tensor y = cond(
        p, [&] { return kept = x * 2; }, [&] { return x; });
    return y + kept;
  };
  EXPECT_CONTAINS(
      compiled_error(fn, truth(true), ones({2})),
      "the true branch of cond keeps the result of mul.Tensor (control_flow_errors_test.cpp:N) beyond its end, in a variable outside of it; return the tensor instead");
  EXPECT_EQ(kept.numel(), 0);
  // So do functions that are differentiated: a buffer that is assigned there would be an empty tensor afterwards.
  const auto differentiated = [&](const Tensor& x) { return value_and_gradients([&] { return sum(kept = x * 2); }, {x}).first; };
  const char* const told =
      "a function that is differentiated keeps the result of mul.Tensor (called at control_flow_errors_test.cpp:N) beyond its end";
  EXPECT_CONTAINS(user_error([&] { differentiated(ones({2})); }), told);
  EXPECT_CONTAINS(compiled_error(differentiated, ones({2})), told);
}

TEST(ControlFlowErrors, ResultsAreDefinedAndOfKnownSizes) {
  const auto undefined = [](const Tensor& p) {
    return cond(
        p, [] { return Tensor(); }, [] { return Tensor(); });
  };
  EXPECT_CONTAINS(user_error([&] { undefined(truth(true)); }), "a branch of cond (control_flow_errors_test.cpp:N): tensor 0 is undefined");
  EXPECT_CONTAINS(compiled_error(undefined, truth(true)), "the true branch of cond returns an undefined tensor as result 0");
  const auto unknown = [](const Tensor& p, const Tensor& x) {
    const auto some = [&] { return masked_select(x, x > 0); };
    return cond(p, some, some);
  };
  EXPECT_CONTAINS(compiled_error(unknown, truth(true), ones({3})), "follows from values within");
}

}  // namespace
}  // namespace toroid::control

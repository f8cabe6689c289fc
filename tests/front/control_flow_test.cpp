// cond(), while_loop(), scan() and map() of C++ functions: called as they are, compiled, and by the reference evaluator.
#include "front/control_flow_harness.h"
#include "tensor/dispatch_layer.h"
#include "toroid/autocast.h"
#include "toroid/checkpoint.h"
#include "toroid/custom_op.h"
#include "toroid/device.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/random.h"

namespace toroid::control {
namespace {

using test::contains;
using test::user_error;

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
      if (length == 4) {  // where the slices are
        EXPECT_EQ(got[2].to_vector(), (Values{12, 15, 18, 21}));
      }
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

// Parts of a composite go the way that the graph around the region has decided.
TEST(ControlFlowFunctions, RegionsKnowWhatIsAssumedOfSizes) {
  struct Sizes {
    std::vector<int64_t> q, k;
  };
  for (auto& s : std::vector<Sizes>{{{2, 8, 5, 4}, {2, 4, 5, 4}}, {{2, 8, 5, 4}, {2, 4, 3, 4}}, {{2, 4, 5, 4}, {2, 4, 5, 4}}}) {
    const auto fn = [](const Tensor& p, const Tensor& q, const Tensor& k, const Tensor& v) {
      return List{cond(
          p, [&] { return scaled_dot_product_attention(q, k, v, {}, 0, false, std::nullopt, true); }, [&] { return q * 2; })};
    };
    const Tensor q = sin(test::counting(s.q)), k = cos(test::counting(s.k)), v = sin(test::counting(s.k) * 2);
    for (bool p : {true, false}) {
      const auto eager = fn(truth(p), q, k, v);
      expect_near(compile(fn, {.fullgraph = true, .dynamic = true})(truth(p), q, k, v), eager, "compiled");
    }
  }
}

// Of each value that a call is given, and of what is captured, the branch that runs sees what it is then.
TEST(ControlFlowFunctions, CapturedVariablesAreReadAtEachCall) {
  Tensor w = test::counting({2});
  const auto compiled = compile(
      [&](const Tensor& p, const Tensor& x) {
        return cond(
            p, [&] { return x + w; }, [&] { return x; });
      },
      {.fullgraph = true});
  EXPECT_EQ(compiled(truth(true), test::counting({2})).to_vector(), (Values{0, 2}));
  w = Tensor::full({2}, 5);
  EXPECT_EQ(compiled(truth(true), test::counting({2})).to_vector(), (Values{5, 6}));
  EXPECT_EQ(compiled(truth(false), test::counting({2})).to_vector(), (Values{0, 1}));
  EXPECT_EQ(compiled.report().compiles, 1);
  EXPECT_EQ(compiled.report().rebinds, 1);
}

// A tensor that is carried and captured is two: the one changes, the other does not.
TEST(ControlFlowFunctions, CarriedAndCapturedTensorsMayBeOne) {
  const auto fn = [](const Tensor& x) {
    const Tensor loop = while_loop([&](const Tensor& y) { return sum(y) < sum(x) + 40; }, [&](const Tensor& y) { return y + x; }, x);
    auto [last, all] = scan([&](const Tensor& h, const Tensor& row) { return std::pair(h + row + x[0], h * x[1]); }, x[0], x);
    return List{loop, last, all,
                cond(
                    sum(x) > 0, [&](const Tensor& a, const Tensor& b) { return a + b + x; },
                    [](const Tensor& a, const Tensor& b) { return a - b; }, x, x)};
  };
  EXPECT_EQ(same_in_all_ways(fn, test::counting({3, 2}))[0].to_vector(), (Values{0, 4, 8, 12, 16, 20}));
}

struct State {
  Tensor mean, count;
};
struct Cell {
  State state;
  std::map<std::string, Tensor> gates;
  std::vector<std::pair<Tensor, std::array<Tensor, 1>>> rest;
};

TEST(ControlFlowFunctions, TakeAndReturnStructures) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    const Cell start{{x, x * 0}, {{"a", x + 1}, {"b", x[0]}}, {{x, {x}}, {x * 2, {x[1]}}}};
    const auto step = [](const Cell& c) {
      Cell next = c;
      next.state = {(c.state.mean + c.gates.at("a")) / 2, c.state.count + 1};
      next.rest[1].second[0] = c.gates.at("b") * 3;
      return next;
    };
    const Cell once = cond(
        p, step, [](const Cell& c) { return c; }, start);
    const Cell often = while_loop([](const Cell& c) { return sum(c.state.count) < 9; }, step, once);
    const auto [last, all] = scan(
        [&](const Cell& c, const State& s) {
          return std::pair(step(c), State{c.state.mean, s.count});
        },
        often, once.state);
    const int factor = 3;  // operands may hold numbers
    const Tensor scaled = cond(
        p, [](const std::tuple<Tensor, int>& t) { return std::get<0>(t) * std::get<1>(t); },
        [](const std::tuple<Tensor, int>& t) { return std::get<0>(t); }, std::tuple(x, factor));
    return List{once.state.mean, often.state.mean, often.rest[1].second[0], last.state.mean, all.mean, all.count, scaled};
  };
  for (bool p : {true, false}) same_in_all_ways(fn, truth(p), test::counting({3}));
}

TEST(ControlFlowFunctions, Nest) {
  const auto fn = [](const Tensor& n, const Tensor& x) {
    const Tensor shift = x * 0.25;
    const auto [i, y] = while_loop(
        [&](const Tensor& i, const Tensor&) { return i < n; },
        [&](const Tensor& i, const Tensor& y) {
          const Tensor z = cond(
              sum(y) > 10,
              [&](const Tensor& a) {
                return scan([&](const Tensor& h, const Tensor& row) { return std::pair(h + row * shift[0], h); }, shift[1], a).second;
              },
              [&](const Tensor& a) {
                return cond(
                    i > 1, [&] { return a * 3; }, [&] { return a + x + shift; });
              },
              y);
          return std::tuple(i + 1, z);
        },
        std::tuple(n * 0, x));
    return List{i, y};
  };
  for (int64_t n : {0, 1, 2, 3, 6}) same_in_all_ways(fn, number(n), test::counting({3, 2}));
}

// The sizes of operands are the regions' sizes: one program serves all of them.
TEST(ControlFlowFunctions, KnowOpenSizes) {
  const Tensor w = sin(test::counting({4, 4}));
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    const Tensor y = cond(
        p,
        [&](const Tensor& a) {
          return matmul(a, w) / static_cast<Tensor>(ones({a.size(0), 1}) * sum(ones({a.size(0)})));
        },
        [&](const Tensor& a) { return cat({a.size(0) > 100 ? a : a + 1}, 0); }, x);
    const auto [last, all] = scan([&](const Tensor& h, const Tensor& row) { return std::pair(tanh(h + row), h); }, w[0], y);
    const Tensor z = while_loop([&](const Tensor& t) { return sum(t) < 100; },
                                [&](const Tensor& t) { return t + arange(x.size(0)).to(DType::F32) + 1; }, sum(y, {1}));
    return List{y, last, all, z};
  };
  const auto compiled = compile(fn, {.fullgraph = true, .dynamic = true});
  for (bool p : {true, false})
    for (int64_t rows : {2, 3, 7}) {
      const Tensor x = sin(test::counting({rows, 4}));
      expect_near(compiled(truth(p), x), fn(truth(p), x), "open sizes");
    }
  EXPECT_EQ(compiled.report().compiles, 1);
}

// What a region decides of sizes is a guard of the function, also where another branch runs.
TEST(ControlFlowFunctions, DecisionsInRegionsAreGuards) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    return List{cond(
        p, [&] { return x.size(0) > 5 ? x * 2 : x * 3; }, [&] { return x + static_cast<int64_t>(x.size(0) % 2 == 0); })};
  };
  const auto compiled = compile(fn, {.fullgraph = true, .dynamic = true});
  for (int64_t rows : {4, 8, 2, 3, 7, 9, 5})
    for (bool p : {true, false}) expect_near(compiled(truth(p), test::counting({rows})), fn(truth(p), test::counting({rows})), "guards");
  EXPECT_EQ(compiled.report().compiles, 4);
}

// That an operation has failed is one, too, though the failed call takes back what it required.
TEST(ControlFlowFunctions, FailuresInRegionsAreGuards) {
  const auto fn = [](const Tensor& p, const Tensor& x, const Tensor& a, const Tensor& b) {
    const auto solved = [&] {
      try {
        ops::call1("_linalg_solve_ex", {a, b, true, true});
        return x * 2;
      } catch (const UserError&) {
        return x.size(0) > 5 ? x * 3 : x * 4;
      }
    };
    return List{cond(p, solved, [&] { return x; })};
  };
  const auto compiled = compile(fn, {.fullgraph = true, .dynamic = true});
  for (int64_t order : {3, 2})
    for (int64_t rows : {4, 8}) {
      const Tensor x = ones({rows}), a = sin(test::counting({2, order, order})), b = ones({2, 4});
      expect_near(compiled(truth(true), x, a, b), fn(truth(true), x, a, b), "guards");
    }
  EXPECT_EQ(compiled.report().compiles, 3);
}

// Branches whose sizes are equal for the call at hand, and not for others.
TEST(ControlFlowFunctions, BranchesAgreeInOpenSizesByGuards) {
  const auto fn = [](const Tensor& p, const Tensor& x, const Tensor& y) {
    return List{cond(
        p, [&] { return x * 2; }, [&] { return y + 1; })};
  };
  const auto compiled = compile(fn, {.fullgraph = true, .dynamic = true});
  for (int64_t n : {3, 5})
    expect_near(compiled(truth(false), test::counting({n}), test::counting({n})),
                fn(truth(false), test::counting({n}), test::counting({n})), "equal");
  EXPECT_EQ(compiled.report().compiles, 1);
  const std::string error = user_error([&] { compiled(truth(true), test::counting({3}), test::counting({4})); });
  EXPECT_TRUE(contains(error, "in the true branch (mul.Tensor at control_flow_test.cpp:")) << error;
}

TEST(ControlFlowFunctions, TruthValuesDecideAtOnce) {
  const auto fn = [](const Tensor& x, bool twice) {
    return List{cond(
                    twice, [](const Tensor& t) { return t * 2; }, [](const Tensor& t) { return t; }, x),
                cond(
                    x.size(0) > 2, [&] { return sum(x); }, [&] { return x; })};
  };
  const auto compiled = compile([&](const Tensor& x) { return fn(x, true); }, {.fullgraph = true, .dynamic = true});
  for (int64_t n : {2, 3, 5}) expect_near(compiled(test::counting({n})), fn(test::counting({n}), true), "at once");
  EXPECT_FALSE(contains(compiled.report().graphs[0], "cond")) << compiled.report().graphs[0];
}

// Results have memory of their own, whoever calls.
TEST(ControlFlowFunctions, ResultsAreNoViews) {
  const auto fn = [](const Tensor& p, const Tensor& given) {
    const Tensor x = given + 0, captured = given * 2;
    const Tensor y = cond(
        p, [](const Tensor& t) { return t; }, [&](const Tensor&) { return captured; }, x);
    const Tensor z = while_loop([](const Tensor& t) { return sum(t) < 0; }, [](const Tensor& t) { return t; }, x);
    const auto [a, b] = cond(
        p,
        [](const Tensor& t) {
          const Tensor u = t + 1;
          return std::pair(u, u);
        },
        [](const Tensor& t) { return std::pair(t[0] + t, t); }, x);
    const Tensor decided = cond(
        true, [](const Tensor& t) { return t; }, [](const Tensor& t) { return t * 2; }, x);
    const auto [last, none] = scan([](const Tensor& c, const Tensor& s) { return std::pair(c + s, s); }, x, zeros({0, 3}));
    for (const Tensor& t : {y, z, a, decided, last}) add_(t, 100);
    return List{x, captured, y, z, a, b, decided, last, none};
  };
  for (bool p : {true, false}) same_in_all_ways(fn, truth(p), test::counting({3}));
}

TEST(ControlFlowFunctions, RegionsWriteToWhatTheyMake) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    return List{cond(
        p,
        [](const Tensor& t) {
          const Tensor own = t + 1;
          add_(own[0], 5);
          mul_(own, t);
          return own;
        },
        [](const Tensor& t) {
          const Tensor own = clone(t);
          copy_(select(own, 0, 1), t[0]);
          return own;
        },
        x)};
  };
  for (bool p : {true, false}) same_in_all_ways(fn, truth(p), test::counting({3, 2}));
}

TEST(ControlFlowFunctions, SizesFromValuesWithinRegions) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    const Tensor some = masked_select(x, x > 2);
    const Tensor y = cond(
        p, [&](const Tensor& t) { return sum(masked_select(t, t < 4)) + some; },
        [&](const Tensor& t) { return some * sum(nonzero(t > 3)).to(DType::F32); }, x);
    const auto [last, all] =
        scan([&](const Tensor& h, const Tensor& e) { return std::pair(h + sum(masked_select(x, x > e)), sum(masked_select(x, x < e))); },
             sum(y), x);
    return List{y, last, all, masked_select(x, x > 5)};
  };
  for (bool p : {true, false}) {
    const Tensor x = test::counting({8});
    const List eager = fn(truth(p), x);
    expect_near(compile(fn, test::by_reference({.fullgraph = true}))(truth(p), x), eager, "by the interpreter");
    expect_near(compile(fn, {.fullgraph = true})(truth(p), x), eager, "compiled");
  }
}

// The stream of random numbers goes through the region that runs.
TEST(ControlFlowFunctions, DrawsAreThoseOfTheCall) {
  const auto fn = [](const Tensor& n, const Tensor& x) {
    const Tensor first = rand({3});
    const auto [i, y] = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                   [](const Tensor& i, const Tensor& y) { return std::tuple(i + 1, dropout(y, 0.25, true) + rand({64})); },
                                   std::tuple(n * 0, x));
    const Tensor z = cond(
        n > 2, [&] { return rand({4}); }, [&] { return zeros({4}); });
    return List{first, y, z, rand({2})};
  };
  const auto seeded = [&](const auto& f, int64_t n) {
    manual_seed(5);
    return f(number(n), test::counting({64}));
  };
  const auto compiled = compile(fn, {.fullgraph = true});
  const auto interpreted = compile(fn, test::by_reference({.fullgraph = true}));
  for (int64_t n : {0, 1, 4}) {
    const List eager = seeded(fn, n);
    const auto offset = default_generator().state().offset;
    expect_near(seeded(interpreted, n), eager, "by the interpreter");
    expect_near(seeded(compiled, n), eager, "compiled");
    EXPECT_EQ(default_generator().state().offset, offset);
  }
}

// A function that reads values is split; sizes of a part before are numbers in the regions of the next.
TEST(ControlFlowFunctions, StandBetweenReads) {
  const auto fn = [](const Tensor& p, const Tensor& x) {
    const SymInt rows = x.size(0);
    const Tensor y = cond(
        p, [&] { return x + 1; }, [&] { return x * 2; });
    const double most = max(y).item();
    return List{cond(
                    p, [&] { return y * most + ones({rows}); }, [&] { return y - static_cast<double>(rows > 3); }),
                ones({rows})};
  };
  for (bool dynamic : {false, true}) {
    const auto compiled = compile(fn, {.dynamic = dynamic});
    for (int64_t n : {2, 3, 5, 4})
      for (bool p : {true, false}) expect_near(compiled(truth(p), test::counting({n})), fn(truth(p), test::counting({n})), "between reads");
  }
}

TEST(ControlFlowFunctions, ModulesAndScopesWork) {
  manual_seed(1);
  nn::Linear layer(4, 4);
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    return List{cond(
        p, [&](const Tensor& t) { return layer.forward(t); },
        [&](const Tensor& t) {
          const autocast halves(DeviceType::Cpu, DType::BF16);
          return matmul(t, t).to(DType::F32);
        },
        x)};
  };
  for (bool p : {true, false}) {
    const List eager = fn(truth(p), sin(test::counting({4, 4})));
    for (const char* freezing : {"0", "1"}) {
      const auto compiled = compile(fn, {.fullgraph = true, .options = {{"freezing", freezing}}});
      const List got = compiled(truth(p), sin(test::counting({4, 4})));
      for (int64_t i = 0; i < 16; ++i)
        EXPECT_NEAR(got[0].to_vector()[static_cast<size_t>(i)], eager[0].to_vector()[static_cast<size_t>(i)], 0.05);
      EXPECT_EQ(got[0].dtype(), DType::F32);
    }
  }
}

TEST(ControlFlowFunctions, AreFoundWithinOthers) {
  static const auto absolute = custom_op("control::absolute(Tensor x) -> Tensor", [](const Tensor& x) {
    return cond(
        sum(x) > 0, [&] { return x * 1; }, [&] { return -x; });
  });
  const auto twice = compile([](const Tensor& x) { return x * 2; });
  const auto fn = [&](const Tensor& p, const Tensor& x) {
    const Tensor y = checkpoint([&] {
      return cond(
          p, [&] { return absolute(x) + 1; }, [&] { return checkpoint([&] { return x * 3; }); });
    });
    return List{y, absolute(y - 100),
                cond(
                    p, [&] { return twice(x); }, [&] { return twice(y); })};
  };
  for (bool p : {true, false}) same_in_all_ways(fn, truth(p), test::counting({3}) - 2);
}

// A layer above is given control flow as it is given other operations.
TEST(ControlFlowFunctions, GoThroughLayers) {
  struct Names : Layer {
    std::vector<std::string> seen;
    List call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
      seen.push_back(op.name);
      return Layer::call(op, std::move(args), where);
    }
  };
  const auto fn = [](const Tensor& x) {
    const Tensor y = map(
        [&](const Tensor& row) {
          return cond(
              sum(row) > 4, [&] { return row * x[0]; }, [&] { return -row; });
        },
        x);
    return while_loop([](const Tensor& t) { return sum(t) < 50; }, [](const Tensor& t) { return t + 1; }, y);
  };
  const Tensor x = test::counting({3, 2});
  const Tensor want = fn(x);
  Names names;
  {
    const Layer::Scope scope(names);
    expect_near({fn(x)}, {want}, "under a layer");
    expect_near({compile(fn)(x)}, {want}, "compiled under a layer");
  }
  EXPECT_EQ(names.seen, (std::vector<std::string>{"scan", "while_loop"}));
}

TEST(ControlFlowFunctions, RunOnGpus) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const auto fn = [](const Tensor& x, const Tensor& w) {
    const auto [i, y] = while_loop([](const Tensor& i, const Tensor& t) { return logical_and(i < 5, sum(t * t) < 100); },
                                   [&](const Tensor& i, const Tensor& t) { return std::tuple(i + 1, matmul(t, w) + x); },
                                   std::tuple(zeros({}, DType::I64, x.device()), x));
    const auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& row) {
          return std::pair(tanh(h + row), cond(
                                              sum(h) > 0, [&] { return h * row; }, [&] { return row; }));
        },
        w[0], y);
    return List{i, y, last, all};
  };
  const auto loss = [&](const Tensor& x, const Tensor& w) {
    const Tensor y = cond(
        sum(x) > 0, [&] { return matmul(x, w); }, [&] { return x * 2; });
    return sum(scan([&](const Tensor& h, const Tensor& row) { return std::pair(tanh(h + row), h * w[1]); }, w[0], y).second);
  };
  const auto gradients = [&](const Tensor& x, const Tensor& w) { return value_and_gradients([&] { return loss(x, w); }, {x, w}).second; };
  const Tensor x = sin(test::counting({6, 4})), w = cos(test::counting({4, 4})) * 0.5;
  const Tensor there = x.to(Device::cuda()), w_there = w.to(Device::cuda());
  const auto on_cpu = [](const List& list) {
    List out;
    for (const Tensor& t : list) {
      EXPECT_TRUE(t.device().is_cuda());
      out.push_back(t.to(Device::cpu()));
    }
    return out;
  };
  expect_near(on_cpu(fn(there, w_there)), fn(x, w), "called on a GPU");
  expect_near(on_cpu(gradients(there, w_there)), gradients(x, w), "gradients of calls on a GPU");
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead})
    for (int call = 0; call < 2; ++call) {
      expect_near(on_cpu(compile(fn, {.mode = mode, .fullgraph = true})(there, w_there)), fn(x, w), "compiled for a GPU");
      expect_near(on_cpu(compile(gradients, {.mode = mode, .fullgraph = true})(there, w_there)), gradients(x, w),
                  "gradients compiled for a GPU");
    }
}

}  // namespace
}  // namespace toroid::control

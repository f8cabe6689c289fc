// Operations over raw memory: eager, interpreted, compiled and replayed alike.
#include "toroid/opaque_op.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>

#include "compile/program_key.h"
#include "front/compile_model.h"
#include "front/harness.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "toroid/autograd.h"
#include "toroid/capture.h"
#include "toroid/control_flow.h"
#include "toroid/custom_gradient.h"
#include "toroid/device_graph.h"
#include "toroid/grad.h"
#include "toroid/ops.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

using test::counting;
using test::graph_of;
using test::user_error;
using Values = std::vector<double>;

// Sums up to each element, of rows, times a number.
auto& cumulate() {
  static auto op = opaque_op(
      "opaque_test::cumulate(Tensor x, float by=1.0) -> Tensor", [](const MemoryType& x, double) { return x; },
      [](InputMemory x, double by, OutputMemory y) {
        const auto from = x.as<float>();
        const auto to = y.as<float>();
        const auto row = static_cast<size_t>(x.size(-1));
        for (size_t begin = 0; begin < from.size(); begin += row) {
          float sum = 0;
          for (size_t i = begin; i < begin + row; ++i) to[i] = sum += static_cast<float>(by) * from[i];
        }
      });
  return op;
}

// Adds n to total and gives what it was times two.
auto& bump() {
  static auto op = opaque_op(
      "opaque_test::bump(Tensor x, Tensor(a!) total, int n=1) -> Tensor",
      [](const MemoryType&, const MemoryType& total, int64_t) { return total; },
      [](InputMemory x, OutputMemory total, int64_t n, OutputMemory before) {
        const auto from = x.as<float>();
        const auto to = total.as<float>(), twice = before.as<float>();
        for (size_t i = 0; i < to.size(); ++i) {
          twice[i] = 2 * to[i];
          to[i] += static_cast<float>(n) * from[i];
        }
      });
  return op;
}

void expect_same(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_EQ(a.dtype(), b.dtype()) << what;
  const Values x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4 * (1 + std::abs(y[i]))) << what << ", element " << i;
}

bool has_all(const std::string& text, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const char* part) { return text.find(part) != std::string::npos; });
}

TEST(OpaqueOp, AgreesWithWhatItComputesAtRandomSizes) {
  const auto body = [](auto&& sums, const Tensor& x) { return relu(sums(transpose(x, 0, 1) * 2.0) - 1.0) * 3.0; };
  const auto opaque = [&](const Tensor& x) { return body([](const Tensor& t) { return cumulate()(t, 0.5); }, x); };
  const auto plain = [&](const Tensor& x) { return body([](const Tensor& t) { return cumsum(t * 0.5, -1); }, x); };
  std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> ways;
  ways.emplace_back("compiled", compile(opaque, {.fullgraph = true}));
  ways.emplace_back("open sizes", compile(opaque, {.fullgraph = true, .dynamic = true}));
  ways.emplace_back("replayed", compile(opaque, {.mode = Mode::ReduceOverhead, .fullgraph = true, .dynamic = true}));
  ways.emplace_back("by the reference", compile(opaque, test::by_reference({.fullgraph = true})));
  std::mt19937 draw(7);
  for (int sample = 0; sample < 6; ++sample) {
    const int64_t rows = 1 + static_cast<int64_t>(draw() % 9), columns = 1 + static_cast<int64_t>(draw() % 33);
    const Tensor x = counting({rows, columns}) - 0.3 * static_cast<double>(rows * columns), expected = plain(x);
    expect_same(opaque(x), expected, "eager");
    for (auto& [name, f] : ways)
      for (int repeat = 0; repeat < 3; ++repeat) expect_same(f(x), expected, name);
  }
}

TEST(OpaqueOp, IsOneStepAndItsNeighboursFuse) {
  auto g = graph_of([](auto& in) { return relu(cumulate()(in[0] * 2.0 + 1.0) - 1.0) * 3.0; }, {counting({4, 8})});
  const auto again = graph::parse(graph::to_string(*g));
  auto model = front::compile_model(std::move(g));
  EXPECT_EQ(model.report().kernels, 2u);
  EXPECT_EQ(model.report().host_calls, 1u);
  expect_same(model.run({{counting({4, 8})}}).at(0), graph::interpret(*again, {{counting({4, 8})}}).at(0), "compiled");
}

// Another process may have another function of that name.
TEST(OpaqueOp, IsInNoProgramThatIsKept) {
  const auto with = [](bool opaque) {
    const auto g = graph_of([&](auto& in) { return opaque ? cumulate()(in[0]) : relu(in[0]); }, {counting({4, 8})});
    return compiler::refusal_to_keep(*g, Device::cpu(), {});
  };
  EXPECT_EQ(with(false), "");
  EXPECT_TRUE(has_all(with(true), {"custom operation"}));
}

TEST(OpaqueOp, HasSeveralResultsListsAndTexts) {
  const auto halves = opaque_op(
      "opaque_test::halves(Tensor[] list, str order, bool swap) -> (Tensor, Tensor)",
      [](const std::vector<MemoryType>& list, const std::string&, bool) {
        MemoryType sum{DType::F64, {0}}, count{DType::I64, {}};
        for (auto& t : list) sum.sizes[0] = sum.sizes[0] + t.sizes.at(0);
        return std::pair(sum, count);
      },
      [](const std::vector<InputMemory>& list, const std::string& order, bool swap, OutputMemory all, OutputMemory count) {
        size_t next = 0;
        for (size_t k = 0; k < list.size(); ++k)
          for (float v : list[(order == "back") != swap ? list.size() - 1 - k : k].as<float>()) all.as<double>()[next++] = v;
        count.as<int64_t>()[0] = static_cast<int64_t>(next);
      });
  const Tensor a = counting({2}), b = counting({3});
  const auto both = [&](const Tensor& a, const Tensor& b) {
    const auto [all, count] = halves(std::vector<Tensor>{a, b + 10.0}, "back", false);
    return cat({all, unsqueeze(to(count, DType::F64), 0)}, 0);
  };
  const Values expected{10, 11, 12, 0, 1, 5};
  EXPECT_EQ(both(a, b).to_vector(), expected);
  EXPECT_EQ(compile(both, {.fullgraph = true, .dynamic = true})(a, b).to_vector(), expected);
}

// What is read before a write has the old contents, and what is read behind it the new ones, also through views.
TEST(OpaqueOp, WritesInOrder) {
  const auto body = [](const Tensor& x, const Tensor& total) {
    const Tensor view = narrow(total, 0, 1, 2), early = view * 1.0;
    const Tensor twice = bump()(x, total, 3);
    const Tensor late = view * 100.0;
    add_(total, 1.0);
    bump()(x * 2.0, total);
    return cat({early, twice, late, total * 1.0}, 0);
  };
  const auto plain = [](const Tensor& x, const Tensor& total) {
    const Tensor first = total + x * 3.0, second = first + 1.0 + x * 2.0;
    return std::pair(cat({narrow(total, 0, 1, 2), total * 2.0, narrow(first, 0, 1, 2) * 100.0, second}, 0), second);
  };
  for (const CompileConfig& config :
       {CompileConfig{.fullgraph = true}, CompileConfig{.fullgraph = true, .dynamic = true},
        CompileConfig{.mode = Mode::ReduceOverhead, .fullgraph = true}, test::by_reference({.fullgraph = true})}) {
    auto f = compile(body, config);
    const Tensor eager = counting({3}), compiled = counting({3});
    for (int repeat = 0; repeat < 4; ++repeat) {
      const Tensor x = counting({3}) + repeat;
      const auto [result, total] = plain(x, clone(eager));
      expect_same(body(x, eager), result, "eager");
      expect_same(eager, total, "eager, written");
      expect_same(f(x, compiled), result, "compiled");
      expect_same(compiled, total, "compiled, written");
    }
  }
}

// Arguments that share memory with a written one are seen as they were before the call, whichever way it runs.
TEST(OpaqueOp, ArgumentsThatShareMemoryKeepTheirContents) {
  const auto body = [](const Tensor& t) {
    bump()(narrow(t, 0, 0, 4), narrow(t, 0, 1, 4));
    return t * 1.0;
  };
  const Tensor eager = counting({5}), compiled = counting({5});
  const Values expected{0, 1, 3, 5, 7};
  EXPECT_EQ(body(eager).to_vector(), expected);
  EXPECT_EQ(compile(body, {.fullgraph = true})(compiled).to_vector(), expected);
  EXPECT_EQ(compiled.to_vector(), expected);
}

// A cache that a step writes a row of is not copied.
TEST(OpaqueOp, WritesWhereTheArgumentLies) {
  static std::atomic<const void*> seen{nullptr};
  static auto put =
      opaque_op("opaque_test::put(Tensor(a!) cache, Tensor row, SymInt at) -> ()", [](OutputMemory cache, InputMemory row, int64_t at) {
        seen = cache.data();
        std::copy_n(row.as<float>().data(), row.numel(), cache.as<float>().data() + at * row.numel());
      });
  const auto body = [](const Tensor& cache, const Tensor& row) {
    put(cache, row * 2.0, 1);
    return sum(row);
  };
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    auto f = compile(body, {.mode = mode, .fullgraph = true});
    const Tensor cache = counting({3, 2}), row = Tensor::of({50, 60}, {2});
    for (int repeat = 0; repeat < 3; ++repeat) {
      EXPECT_EQ(f(cache, row).item(), 110);
      EXPECT_EQ(cache.to_vector(), (Values{0, 1, 100, 120, 4, 5}));
      EXPECT_EQ(seen, cache.raw_data()) << "the cache is copied";
    }
  }
  const Tensor cache = counting({3, 2});
  body(cache, counting({2}));
  EXPECT_EQ(seen, cache.raw_data());
}

TEST(OpaqueOp, WritesToCapturedTensors) {
  const Tensor total = counting({3});
  auto f = compile([&](const Tensor& x) { return bump()(x, total) + 1.0; }, {.fullgraph = true});
  const Tensor x = counting({3});
  EXPECT_EQ(f(x).to_vector(), (Values{1, 3, 5}));
  EXPECT_EQ(f(x).to_vector(), (Values{1, 5, 9}));
  EXPECT_EQ(total.to_vector(), (Values{0, 3, 6}));
}

// Calls without an effect are made once where two are equal, and not at all where nothing needs them; those with one as they are written.
TEST(OpaqueOp, EffectsAreKeptInOrder) {
  static std::mutex mutex;
  static std::vector<int64_t> log;
  static const auto note = [](int64_t what) {
    const std::lock_guard lock(mutex);
    log.push_back(what);
  };
  static auto pure = opaque_op(
      "opaque_test::pure(Tensor x, int what) -> Tensor", [](const MemoryType& x, int64_t) { return x; },
      [](InputMemory x, int64_t what, OutputMemory y) {
        note(what);
        std::copy_n(x.as<float>().data(), x.numel(), y.as<float>().data());
      });
  static auto says =
      opaque_op("opaque_test::says(Tensor x, int what) -> ()", [](InputMemory, int64_t what) { note(what); }, {.effect = true});
  auto f = compile(
      [](const Tensor& x) {
        pure(x, 1);
        says(x * 5.0, 10);
        const Tensor y = pure(x, 2) + pure(x, 2);
        for (int i = 0; i < 2; ++i) says(x, 11);
        says(y, 12);
        return y;
      },
      {.fullgraph = true});
  const Tensor x = counting({4});
  EXPECT_EQ(f(x).to_vector(), (Values{0, 2, 4, 6}));
  EXPECT_EQ(std::count(log.begin(), log.end(), 1), 0);
  EXPECT_EQ(std::count(log.begin(), log.end(), 2), 1);
  std::erase_if(log, [](int64_t what) { return what < 10; });
  EXPECT_EQ(log, (std::vector<int64_t>{10, 11, 11, 12}));
}

// Two loops over the same elements would be one, and the second call before the first, if there were no order.
TEST(OpaqueOp, FusionKeepsTheOrderOfEffects) {
  static std::vector<int64_t> log;
  static auto tells = opaque_op(
      "opaque_test::tells(Tensor x, int what) -> Tensor", [](const MemoryType& x, int64_t) { return x; },
      [](InputMemory x, int64_t what, OutputMemory y) {
        log.push_back(what);
        std::copy_n(x.as<float>().data(), x.numel(), y.as<float>().data());
      },
      {.effect = true});
  auto f = compile(
      [](const Tensor& x) {
        const Tensor first = tells(x * 2.0, 1), second = tells(x, 2);
        return std::pair(first, second * 3.0 + x);
      },
      {.fullgraph = true});
  const auto [first, second] = f(counting({64, 64}));
  EXPECT_EQ(log, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(first.to_vector()[5], 10);
  EXPECT_EQ(second.to_vector()[5], 20);
}

// Also where one of the two is called in a branch.
TEST(OpaqueOp, FusionKeepsTheOrderOfEffectsInBranches) {
  static std::vector<int64_t> log;
  static auto tells = opaque_op(
      "opaque_test::tells_in_branches(Tensor x, int what) -> Tensor", [](const MemoryType& x, int64_t) { return x; },
      [](InputMemory x, int64_t what, OutputMemory y) {
        log.push_back(what);
        std::copy_n(x.as<float>().data(), x.numel(), y.as<float>().data());
      },
      {.effect = true});
  auto f = compile(
      [](const Tensor& p, const Tensor& x) {
        const Tensor first = cond(
            p, [](const Tensor& t) { return tells(t, 1); }, [](const Tensor& t) { return t + 1.0; }, x * 2.0);
        const Tensor second = tells(x, 2);
        return std::pair(first, second * 3.0 + x);
      },
      {.fullgraph = true});
  f(Tensor::full(std::vector<int64_t>{}, 1, DType::Bool), counting({64, 64}));
  EXPECT_EQ(log, (std::vector<int64_t>{1, 2}));
}

TEST(OpaqueOp, ExceptionsNameTheOperationAndTheCall) {
  static auto fails = opaque_op(
      "opaque_test::fails(Tensor x) -> Tensor", [](const MemoryType& x) { return x; },
      [](InputMemory x, OutputMemory y) {
        if (x.as<float>()[0] > 0) throw std::runtime_error("the disk is on fire");
        std::copy_n(x.as<float>().data(), x.numel(), y.as<float>().data());
      });
  const auto body = [](const Tensor& x) { return fails(x * 1.0) + 1.0; };
  const Tensor good = Tensor::of({-1, 2}, {2}), bad = Tensor::of({1, 2}, {2});
  const auto expect_named = [&](const auto& f) {
    const std::string error = user_error([&] { f(bad); });
    EXPECT_TRUE(
        has_all(error, {"opaque_test::fails: its function threw an exception: the disk is on fire", "(called at ", "opaque_op_test.cpp:"}))
        << error;
    EXPECT_EQ(error.find("called at"), error.rfind("called at")) << error;
    EXPECT_EQ(f(good).to_vector(), (Values{0, 3})) << "after an error";
  };
  expect_named(body);
  expect_named(compile(body, {.fullgraph = true}));
  expect_named(compile(body, {.mode = Mode::ReduceOverhead, .fullgraph = true}));
  static auto missing = opaque_op("opaque_test::missing(Tensor(a!) x) -> ()", [](OutputMemory) { throw EnvironmentError("no licence"); });
  EXPECT_THROW(missing(counting({2})), EnvironmentError);
}

TEST(OpaqueOp, WhatIsNoExceptionAndNumbersThatDoNotFitAreErrors) {
  static auto thrower = opaque_op("opaque_test::thrower(Tensor(a!) x) -> ()", [](OutputMemory) { throw 1; });
  EXPECT_TRUE(has_all(user_error([] { thrower(counting({2})); }), {"opaque_test::thrower: its function threw what is no std::exception"}));
  static auto takes_int =
      opaque_op("opaque_test::takes_int(Tensor(a!) x, int n) -> ()", [](OutputMemory x, int n) { x.as<float>()[0] = n; });
  const Tensor x = counting({2});
  takes_int(x, int64_t{-7});
  EXPECT_EQ(x.to_vector()[0], -7);
  EXPECT_TRUE(has_all(user_error([&] { takes_int(x, int64_t{1} << 40); }), {"1099511627776 does not fit"}));
}

TEST(OpaqueOp, OtherElementsThanItTakesAreRefused) {
  const Tensor x = to(counting({2}), DType::F64);
  for (const std::string& error :
       {user_error([&] { cumulate()(x); }), user_error([&] { compile([](const Tensor& x) { return cumulate()(x) + 1.0; })(x); })})
    EXPECT_TRUE(has_all(error, {"opaque_test::cumulate: ", "T = float", "f64", "(called at "})) << error;
  static auto strict = opaque_op(
      "opaque_test::strict(Tensor x) -> Tensor",
      [](const MemoryType& x) {
        if (x.dtype != DType::F32) throw UserError("x must be f32");
        return x;
      },
      [](InputMemory, OutputMemory) {});
  auto f = compile([](const Tensor& x) { return strict(x) + 1.0; });
  const std::string error = user_error([&] { f(x); });
  EXPECT_TRUE(has_all(error, {"opaque_test::strict: x must be f32", "(called at ", "opaque_op_test.cpp:"})) << error;
}

// A comparison of sizes in a type rule is a guard: the program is made anew where it turns out otherwise.
TEST(OpaqueOp, TypeRulesMayCompareSizes) {
  static auto half = opaque_op(
      "opaque_test::half(Tensor x) -> Tensor",
      [](const MemoryType& x) {
        if (x.sizes.at(0) < 2) throw UserError("x must have 2 elements or more");
        return MemoryType{x.dtype, {x.sizes[0] > 8 ? x.sizes[0] / 2 : x.sizes[0]}};
      },
      [](InputMemory x, OutputMemory y) { std::copy_n(x.as<float>().data(), y.numel(), y.as<float>().data()); });
  auto f = compile([](const Tensor& x) { return half(x) + 1.0; }, {.fullgraph = true, .dynamic = true});
  for (int64_t n : {20, 4, 33, 8, 9}) EXPECT_EQ(f(counting({n})).numel(), n > 8 ? n / 2 : n) << n;
  const std::string error = user_error([&] { f(counting({1})); });
  EXPECT_TRUE(has_all(error, {"opaque_test::half: x must have 2 elements or more", "(called at "})) << error;
  static auto fixed = opaque_op(
      "opaque_test::fixed(Tensor x) -> Tensor",
      [](const MemoryType& x) {
        return MemoryType{x.dtype, {static_cast<int64_t>(x.sizes[0]) + 1}};
      },
      [](InputMemory, OutputMemory) {});
  auto g = compile([](const Tensor& x) { return fixed(x) + 1.0; }, {.fullgraph = true, .dynamic = true});
  const std::string number = user_error([&] { g(counting({5})); });
  EXPECT_TRUE(has_all(number, {"opaque_test::fixed", "compute with SymInt"})) << number;
}

// A size that only the run tells is known when the function runs.
TEST(OpaqueOp, TakesSizesThatDependOnData) {
  const auto body = [](const Tensor& x, const Tensor& total) {
    bump()(x, total, 2);
    return cumulate()(masked_select(total, gt(x, 1.0)) * 2.0) + 1.0;
  };
  auto f = compile(body, {.fullgraph = true});
  for (const double start : {0.0, 2.0, -9.0}) {
    const Tensor x = counting({5}) + start, eager = counting({5}), compiled = counting({5});
    EXPECT_EQ(f(x, compiled).to_vector(), body(x, eager).to_vector()) << start;
    EXPECT_EQ(compiled.to_vector(), eager.to_vector()) << start;
  }
}

// The sizes that a program has made room for are those that its function sees, or it does not run.
TEST(OpaqueOp, TypeRulesThatContradictThemselvesAreRefused) {
  static std::atomic<int64_t> more{0};
  static std::atomic<int> runs{0};
  static auto moody = opaque_op(
      "opaque_test::moody(Tensor x) -> Tensor",
      [](const MemoryType& x) {
        return MemoryType{x.dtype, {x.sizes[0] + more.load()}};
      },
      [](InputMemory, OutputMemory y) {
        ++runs;
        std::fill_n(y.as<float>().data(), y.numel(), 1.f);
      });
  auto f = compile([](const Tensor& x) { return moody(x) * 2.0; }, {.fullgraph = true});
  EXPECT_EQ(f(counting({3})).to_vector(), (Values{2, 2, 2}));
  more = 1;
  const std::string error = user_error([&] { f(counting({3})); });
  EXPECT_TRUE(has_all(error, {"opaque_test::moody", "f32[4]", "f32[3]", "its arguments alone"})) << error;
  EXPECT_EQ(runs, 1);
  more = -5;
  const std::string negative = user_error([&] { moody(counting({3})); });
  EXPECT_TRUE(has_all(negative, {"opaque_test::moody", "-2", "not negative"})) << negative;
  static auto many = opaque_op(
      "opaque_test::many(Tensor x) -> (Tensor, Tensor)", [](const MemoryType& x) { return std::vector<MemoryType>(3, x); },
      [](InputMemory, OutputMemory, OutputMemory) {});
  const std::string count = user_error([&] { many(counting({3})); });
  EXPECT_TRUE(has_all(count, {"opaque_test::many", "gives 3 types", "returns 2 tensors"})) << count;
}

TEST(OpaqueOp, WrongRegistrationsAreRefused) {
  const auto same = [](const MemoryType& x) { return x; };
  const auto copies = [](InputMemory, OutputMemory) {};
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::untyped(Tensor x) -> Tensor", copies); }),
                      {"opaque_op: opaque_test::untyped returns 1 tensors", "of which types", "MemoryType"}));
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::few(Tensor x) -> (Tensor, Tensor)", same, copies); }),
                      {"opaque_test::few", "returns 2 tensors in its schema, its function returns 1"}));
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::other(Tensor x) -> Tensor", same, [](InputMemory, int64_t) {}); }),
                      {"opaque_test::other", "OutputMemory"}));
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::unwritten(Tensor x) -> ()", [](OutputMemory) {}); }),
                      {"opaque_test::unwritten", "\"x\"", "a tensor that it writes to"}));
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::nothing(Tensor x) -> ()", [](InputMemory) {}); }),
                      {"opaque_test::nothing", "effect"}));
  EXPECT_TRUE(has_all(user_error([&] {
                        opaque_op(
                            "opaque_test::kinds(Tensor x, int n) -> Tensor", [](const MemoryType& x, double) { return x; },
                            [](InputMemory, int64_t, OutputMemory) {});
                      }),
                      {"opaque_test::kinds", "argument 1"}));
  cumulate();
  EXPECT_TRUE(has_all(user_error([&] { opaque_op("opaque_test::cumulate(Tensor x) -> Tensor", same, copies); }), {"already"}));
  EXPECT_TRUE(has_all(user_error([&] { register_custom_op_autotuning(cumulate(), std::vector<CustomOpConfig>{}); }), {"opaque"}));
}

// Arguments with gaps are made row-major for it, unless it asks for them as they are.
TEST(OpaqueOp, GetsTheStridesThatItTakes) {
  static std::vector<int64_t> seen;
  const auto first = [](InputMemory x, OutputMemory y) {
    seen = x.strides();
    y.as<float>()[0] = static_cast<const float*>(x.data())[x.strides()[0]];
  };
  const auto one = [](const MemoryType& x) { return MemoryType{x.dtype, {1}}; };
  const auto dense = opaque_op("opaque_test::dense(Tensor x) -> Tensor", one, first);
  const auto strided = opaque_op("opaque_test::strided(Tensor x) -> Tensor", one, first, {.strided = true});
  const auto whole =
      opaque_op("opaque_test::whole(Tensor x) -> Tensor", one, [](InputMemory x, OutputMemory) { x.as<float>(); }, {.strided = true});
  const Tensor x = counting({2, 3});
  for (bool compiles : {false, true}) {
    const auto call = [&](auto& op) {
      const auto f = [&](const Tensor& x) { return op(transpose(x, 0, 1)); };
      return (compiles ? compile(f, {.fullgraph = true})(x) : f(x)).item();
    };
    EXPECT_EQ(call(dense), 1);
    EXPECT_EQ(seen, (std::vector<int64_t>{2, 1}));
    EXPECT_EQ(call(strided), 1);
    EXPECT_EQ(seen, (std::vector<int64_t>{1, 3}));
    EXPECT_TRUE(has_all(user_error([&] { call(whole); }), {"opaque_test::whole", "opaque_op_test.cpp:", "strides()"}));
  }
}

TEST(OpaqueOp, HasTheGradientThatIsRegistered) {
  static const auto& square = *[] {
    auto* made = new auto(opaque_op(
        "opaque_test::square(Tensor x, float by) -> Tensor", [](const MemoryType& x, double) { return x; },
        [](InputMemory x, double by, OutputMemory y) {
          for (size_t i = 0; i < y.as<float>().size(); ++i) y.as<float>()[i] = static_cast<float>(by) * x.as<float>()[i] * x.as<float>()[i];
        }));
    register_custom_op_gradient(*made, [](const CustomGradientCall& c) {
      return std::vector<Tensor>{c.cotangents[0] * c.inputs[0] * (2 * std::get<double>(c.arguments[1].value))};
    });
    return made;
  }();
  const Values expected{3, 6};
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_(), plain = x.detach();
  sum(square(x * 1.0, 1.5)).backward();
  EXPECT_EQ(x.grad().to_vector(), expected);
  EXPECT_EQ(value_and_gradients([&] { return sum(square(plain, 1.5)); }, {plain}).second[0].to_vector(), expected);
  auto step =
      compile([](const Tensor& x) { return value_and_gradients([&] { return sum(square(x, 1.5)); }, {x}).second[0]; }, {.fullgraph = true});
  EXPECT_EQ(step(plain).to_vector(), expected);
  auto f = compile([](const Tensor& x) { return sum(square(x, 1.5)); }, {.fullgraph = true});
  x.zero_grad();
  f(x).backward();
  EXPECT_EQ(x.grad().to_vector(), expected);
}

// Gradients go past a call that takes no part in them.
TEST(OpaqueOp, WritesBesideGradients) {
  const auto body = [](const Tensor& x, const Tensor& total) {
    bump()(x.detach(), total);
    return sum(x * x * total);
  };
  for (const bool compiles : {false, true}) {
    auto f = compile(body, {.fullgraph = true});
    const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_(), total = counting({2});
    const Tensor loss = compiles ? f(x, total) : body(x, total);
    loss.backward();
    EXPECT_EQ(total.to_vector(), (Values{1, 3}));
    EXPECT_EQ(x.grad().to_vector(), (Values{2, 12})) << (compiles ? "compiled" : "eager");
  }
}

TEST(OpaqueOp, StandsWithinCustomOperations) {
  static const auto twice = custom_op("opaque_test::twice(Tensor x, Tensor(a!) total) -> Tensor", [](const Tensor& x, Tensor& total) {
    const Tensor first = bump()(x, total);
    return first + bump()(x, total, 2);
  });
  const auto body = [](const Tensor& x, const Tensor& total) { return twice(x + 1.0, total) * 1.0; };
  auto f = compile(body, {.fullgraph = true});
  const Tensor x = counting({3}), eager = counting({3}), compiled = counting({3});
  EXPECT_EQ(body(x, eager).to_vector(), (Values{2, 8, 14}));
  EXPECT_EQ(f(x, compiled).to_vector(), (Values{2, 8, 14}));
  EXPECT_EQ(eager.to_vector(), (Values{3, 7, 11}));
  EXPECT_EQ(compiled.to_vector(), eager.to_vector());
}

TEST(OpaqueOp, GradientsThatNobodyRegisteredAreRefused) {
  const Tensor x = Tensor::of({1, 2}, {2}).requires_grad_();
  EXPECT_TRUE(has_all(user_error([&] { sum(cumulate()(x)).backward(); }), {"opaque_test::cumulate"}));
  auto f = compile([](const Tensor& x) { return sum(cumulate()(x)); }, {.fullgraph = true});
  EXPECT_TRUE(has_all(user_error([&] { f(x).backward(); }), {"opaque_test::cumulate"}));
  // Behind a detach() no gradient is asked for.
  const Tensor plain = x.detach();
  EXPECT_EQ(value_and_gradients([&] { return sum(plain * cumulate()(plain.detach())); }, {plain}).second[0].to_vector(), (Values{1, 3}));
  const Tensor total = counting({2});
  EXPECT_TRUE(has_all(user_error([&] { bump()(x, total); }), {"opaque_test::bump", "\"x\"", "detach()"}));
  EXPECT_EQ(total.to_vector(), (Values{0, 1})) << "a refused call has written";
  {
    const NoGrad off;
    bump()(x, total);
  }
  EXPECT_EQ(total.to_vector(), (Values{1, 3}));
  // What a gradient needs was written.
  const Tensor factor = counting({2});
  const Tensor loss = sum(x * factor);
  bump()(x.detach(), factor);
  EXPECT_TRUE(has_all(user_error([&] { loss.backward(); }), {"written"}));
}

TEST(OpaqueOp, ThreadsCallItAtOnce) {
  auto f = compile([](const Tensor& x, const Tensor& total) { return cumulate()(x) + bump()(x, total); }, {.fullgraph = true});
  std::vector<std::thread> threads;
  std::vector<Values> results(4);
  for (size_t t = 0; t < results.size(); ++t)
    threads.emplace_back([&, t] {
      const Tensor x = Tensor::full({16}, static_cast<double>(t)), total = Tensor::full({16}, 0);
      for (int i = 0; i < 50; ++i) f(x, total);
      results[t] = {f(x, total).to_vector()[1], total.to_vector()[15]};
    });
  for (auto& t : threads) t.join();
  for (size_t t = 0; t < results.size(); ++t) {
    const double v = static_cast<double>(t);
    EXPECT_EQ(results[t], (Values{2 * v + 2 * 50 * v, 51 * v}));
  }
}

TEST(OpaqueOp, IsReplayedByGraphsThatAreMadeByHand) {
  for (bool compiles : {false, true}) {
    const auto body = [](const Tensor& x, const Tensor& total) { return cumulate()(x) + bump()(x, total) * 10.0; };
    auto f = compile(body, {.fullgraph = true});
    const Tensor x = counting({3}), total = Tensor::full({3}, 0);
    if (compiles) f(x, clone(total));
    Tensor y;
    CudaGraph g(Device::cpu());
    g.capture([&] { y = compiles ? f(x, total) : body(x, total); });
    EXPECT_EQ(total.to_vector(), (Values{0, 0, 0})) << "a capture runs nothing";
    for (double add : {1.0, 2.0}) {
      copy_async(x, counting({3}) + add);
      const Tensor expected = body(x, clone(total));
      g.replay();
      EXPECT_EQ(y.to_vector(), expected.to_vector()) << (compiles ? "compiled" : "eager");
    }
    EXPECT_EQ(total.to_vector(), (Values{3, 5, 7}));
  }
}

// Steps of the host run between the parts that are recorded, and reports say so.
TEST(OpaqueOp, StandsBetweenRecordedParts) {
  auto f = compile([](const Tensor& x) { return cumulate()(x * 2.0) + 1.0; },
                   {.mode = Mode::ReduceOverhead, .fullgraph = true, .options = {{"capture_require", "1"}}});
  const std::string error = user_error([&] {
    for (int i = 0; i < 3; ++i) f(counting({4}));
  });
  EXPECT_TRUE(has_all(error, {"opaque_test::cumulate", "opaque_op_test.cpp:", "function on the host"})) << error;
}

}  // namespace
}  // namespace toroid

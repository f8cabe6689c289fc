// Programs compiled with open sizes, run at sizes that an operation refuses: they say so with its name and source line, as the interpreter
// does, and touch no memory but their operands'. TOROID_FUZZ_BAD_SIZES and TOROID_FUZZ_SEED choose how many random graphs and from where.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/options.h"
#include "compile/index_operands.h"
#include "errors.h"
#include "exec/stored.h"
#include "front/compile_model.h"
#include "fuzz_compiled/from_environment.h"
#include "graph/interpreter.h"
#include "graph/passes/passes.h"
#include "graph/random_graph.h"
#include "graph/recorder.h"
#include "toroid/compile.h"

namespace toroid {
namespace {

using ops::call;
using ops::call1;
using Sizes = std::vector<int64_t>;
using Tensors = std::vector<Tensor>;

struct SizedCall {
  const char* op;
  std::vector<Sizes> sizes;  // of the operands, which fit together
  std::function<Tensor(const Tensors&)> f;
  std::vector<size_t> indices = {};  // operands that hold indices, which are all 0
};

Arg<Tensor> n(int64_t v) { return Expr(v); }
Arg<Tensor> ns(const Sizes& v) { return std::vector<Expr>(v.begin(), v.end()); }

std::vector<SizedCall> sized_calls() {
  std::vector<SizedCall> out;
  const auto add = [&](const char* op, std::vector<Sizes> sizes, std::function<Tensor(const Tensors&)> f,
                       std::vector<size_t> indices = {}) {
    out.push_back({op, std::move(sizes), std::move(f), std::move(indices)});
  };
  add("unfold", {{3, 6}}, [](auto& t) { return call1("unfold", {t[0], n(1), n(4), n(2)}); });
  add("topk", {{3, 6}}, [](auto& t) { return call("topk", {t[0], n(4)}).at(0); });
  add("kthvalue", {{3, 6}}, [](auto& t) { return call("kthvalue", {t[0], n(4)}).at(0); });
  for (const char* op : {"max.dim", "min.dim", "median.dim", "mode"})
    add(op, {{3, 4}}, [=](auto& t) { return call(op, {t[0], n(0)}).at(0); });
  for (const char* op : {"amax", "amin"}) add(op, {{3, 4}}, [=](auto& t) { return call1(op, {t[0], ns({1})}); });
  for (const char* op : {"argmax", "argmin"}) add(op, {{3, 4}}, [=](auto& t) { return call1(op, {t[0], n(1)}); });
  add("reflection_pad1d", {{2, 5}}, [](auto& t) { return call1("reflection_pad1d", {t[0], ns({3, 2})}); });
  add("reflection_pad2d", {{2, 5, 4}}, [](auto& t) { return call1("reflection_pad2d", {t[0], ns({3, 2, 1, 3})}); });
  add("replication_pad1d", {{2, 5}}, [](auto& t) { return call1("replication_pad1d", {t[0], ns({3, 2})}); });
  add("_pad_circular", {{1, 2, 5}}, [](auto& t) { return call1("_pad_circular", {t[0], ns({3, 2})}); });
  add("constant_pad_nd", {{2, 5}}, [](auto& t) { return call1("constant_pad_nd", {t[0], ns({-2, -2})}); });
  add("narrow", {{3, 6}}, [](auto& t) { return call1("narrow", {t[0], n(1), n(2), n(3)}); });
  add("narrow", {{3, 6}}, [](auto& t) { return call1("narrow", {t[0], n(1), n(-4), n(3)}); });
  add("select", {{3, 6}}, [](auto& t) { return call1("select.int", {t[0], n(1), n(4)}); });
  add("select", {{3, 6}}, [](auto& t) { return call1("select.int", {t[0], n(1), n(-5)}); });
  add("select_scatter", {{3, 6}, {3}}, [](auto& t) { return call1("select_scatter", {t[0], t[1], n(1), n(4)}); });
  add("slice_scatter", {{3, 6}, {3, 2}}, [](auto& t) { return call1("slice_scatter", {t[0], t[1], n(1), n(1), n(3)}); });
  add("as_strided", {{3, 6}}, [](auto& t) { return call1("as_strided", {t[0], ns({2, 3}), ns({7, 2}), n(1)}); });
  for (const char* op : {"scatter.src", "scatter_add"})
    add(op, {{3, 6}, {2, 4}, {3, 4}}, [=](auto& t) { return call1(op, {t[0], n(1), t[1], t[2]}); }, {1});
  add("gather", {{3, 6}, {2, 4}}, [](auto& t) { return call1("gather", {t[0], n(1), t[1]}); }, {1});
  add("index_put", {{3, 6}, {4}, {4, 6}}, [](auto& t) { return call1("index_put", {t[0], Tensors{t[1]}, t[2], true}); }, {1});
  add("mm", {{3, 4}, {4, 5}}, [](auto& t) { return call1("mm", {t[0], t[1]}); });
  add("bmm", {{2, 3, 4}, {2, 4, 5}}, [](auto& t) { return call1("bmm", {t[0], t[1]}); });
  add("add", {{3, 4}, {3, 4}}, [](auto& t) { return call1("add.Tensor", {t[0], t[1]}); });
  add("cat", {{3, 4}, {2, 4}}, [](auto& t) { return call1("cat", {Tensors{t[0], t[1]}, n(0)}); });
  add("view", {{3, 4}}, [](auto& t) { return call1("view", {t[0], ns({2, 6})}); });
  add("expand", {{3, 4}}, [](auto& t) { return call1("expand", {t[0], ns({2, 3, 4})}); });
  add("split_with_sizes", {{2, 5}}, [](auto& t) { return call("split_with_sizes", {t[0], ns({2, 3}), n(1)}).at(1); });
  add("glu", {{3, 6}}, [](auto& t) { return call1("glu", {t[0], n(1)}); });
  add("max_pool2d", {{1, 2, 5, 6}}, [](auto& t) { return call1("max_pool2d", {t[0], ns({3, 4})}); });
  add("avg_pool2d", {{1, 2, 5, 6}}, [](auto& t) { return call1("avg_pool2d", {t[0], ns({3, 4})}); });
  add("adaptive_avg_pool2d", {{1, 2, 5, 6}}, [](auto& t) { return call1("adaptive_avg_pool2d", {t[0], ns({2, 2})}); });
  add("upsample_bilinear2d", {{1, 2, 5, 6}}, [](auto& t) { return call1("upsample_bilinear2d", {t[0], ns({3, 3}), false}); });
  add("pixel_shuffle", {{1, 8, 3, 3}}, [](auto& t) { return call1("pixel_shuffle", {t[0], n(2)}); });
  add("pixel_unshuffle", {{1, 2, 4, 6}}, [](auto& t) { return call1("pixel_unshuffle", {t[0], n(2)}); });
  add("conv1d", {{1, 2, 6}, {3, 2, 4}}, [](auto& t) { return call1("conv1d", {t[0], t[1]}); });
  return out;
}

// Each dimension of each operand is a size of its own.
std::unique_ptr<graph::Graph> open_graph(const SizedCall& c) {
  auto g = std::make_unique<graph::Graph>();
  graph::Recorder recorder(*g);
  Tensors operands;
  for (size_t i = 0; i < c.sizes.size(); ++i) {
    const bool is_index = std::find(c.indices.begin(), c.indices.end(), i) != c.indices.end();
    TensorType type{is_index ? DType::I64 : DType::F32, {}, {}};
    for (size_t d = 0; d < c.sizes[i].size(); ++d) {
      type.sizes.push_back(sym::symbol("s" + std::to_string(i) + std::to_string(d), 0, 16));
      g->symbols.push_back({type.sizes.back(), false});
    }
    operands.push_back(recorder.proxy(g->add_input(type, graph::InputKind::User, "x" + std::to_string(i))));
  }
  recorder.set_where("model.py:12");
  DispatchScope scope(recorder);
  g->outputs.push_back({recorder.value_of(c.f(operands)), {}, -1});
  return g;
}

Tensors operands_of(const SizedCall& c, const std::vector<Sizes>& sizes) {
  Tensors out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool is_index = std::find(c.indices.begin(), c.indices.end(), i) != c.indices.end();
    std::vector<double> values(static_cast<size_t>(product(sizes[i])));
    for (size_t k = 0; !is_index && k < values.size(); ++k) values[k] = static_cast<double>(k % 7) / 4;
    out.push_back(Tensor::of(values, sizes[i], is_index ? DType::I64 : DType::F32));
  }
  return out;
}

Tensors guarded_copies(const Tensors& tensors, bool behind) {
  Tensors out;
  for (auto& t : tensors) out.push_back(test::guarded(t, behind));
  return out;
}

// Sizes that an operation may take, and the program does not.
bool is_for_others(const std::string& said) {
  return test::contains(said, "outside of what the program") || test::contains(said, "which the program") ||
         test::contains(said, "the program takes the sizes");
}

// The graph without what its operations refuse, for an interpreter that nothing but their rules tells that.
std::unique_ptr<graph::Graph> without_requirements(const graph::Graph& g) {
  auto out = graph::clone(g);
  std::erase_if(out->guards, [](const sym::Guard& r) { return r.is_requirement() && !is_for_others(r.error); });
  return out;
}

std::string sizes_of(const std::vector<Sizes>& all) {
  std::string out;
  for (auto& sizes : all) out += fmt::format("[{}]", fmt::join(sizes, ", "));
  return out;
}

class BadSizes : public testing::TestWithParam<SizedCall> {};

TEST_P(BadSizes, AreRefusedByTheOperation) {
  const SizedCall& c = GetParam();
  const std::string name = std::string(c.op).substr(0, std::string_view(c.op).find('.'));
  auto g = open_graph(c);
  const auto alone = without_requirements(*g);
  const exec::Loadable made = compiler::loadable(graph::clone(*g), front::setup_of({}));
  const exec::Loadable stored = test::through_text_and_bytes(made);
  const std::string text = graph::to_string(*g);
  EXPECT_EQ(graph::to_string(*graph::parse(text)), text);
  // A graph that lost its requirements on the way: lowering finds those that keep kernels inside of their operands.
  auto bare = front::compile_model(without_requirements(*g));
  const std::vector<std::unique_ptr<exec::Executable>> programs = [&] {
    std::vector<std::unique_ptr<exec::Executable>> out;
    for (auto* l : {&made, &stored}) out.push_back(exec::load(l->plan, l->store, Device::cpu()));
    return out;
  }();
  int refused = 0, taken = 0;
  const auto look = [&](const std::vector<Sizes>& sizes) {
    const Tensors operands = operands_of(c, sizes);
    const std::string expected = test::user_error([&] { graph::interpret(*alone, operands); });
    refused += expected != "no error";
    taken += expected == "no error";
    const std::string interpreted = test::user_error([&] { graph::interpret(*g, operands); });
    EXPECT_EQ(interpreted == "no error", expected == "no error") << sizes_of(sizes) << "\n" << interpreted << "\n" << expected;
    const std::string bare_said = test::user_error([&] { bare.run(guarded_copies(operands, true)); });
    EXPECT_TRUE(expected == "no error" || bare_said != "no error") << sizes_of(sizes) << "\n" << text;
    for (bool behind : {false, true})
      for (auto& program : programs) {
        const std::string said = test::user_error([&] { program->run(guarded_copies(operands, behind)); });
        if (expected == "no error") {
          EXPECT_TRUE(said == expected || is_for_others(said)) << sizes_of(sizes) << "\n" << said;
        } else {
          EXPECT_TRUE(test::contains(said, name) && test::contains(said, "(called at model.py:12)"))
              << sizes_of(sizes) << "\n"
              << said << "\nexpected: " << expected << "\n"
              << graph::to_string(*g);
        }
      }
  };
  look(c.sizes);
  EXPECT_EQ(taken, 1) << "the sizes of the sample";
  for (size_t i = 0; i < c.sizes.size(); ++i)
    for (size_t d = 0; d < c.sizes[i].size(); ++d)
      for (int64_t size = 0; size <= c.sizes[i][d] + 2; ++size) {
        auto sizes = c.sizes;
        sizes[i][d] = size;
        look(sizes);
      }
  EXPECT_GT(refused, 0);
}

INSTANTIATE_TEST_SUITE_P(All, BadSizes, testing::ValuesIn(sized_calls()), [](const auto& info) {
  std::string name = info.param.op + std::to_string(info.index);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(BadSizesOfRandomGraphs, AreRefusedByAllOrByNone) {
  ScopedOption no_cache("cache", "0");
  const uint64_t count = test::from_environment("TOROID_FUZZ_BAD_SIZES", 200), first = test::from_environment("TOROID_FUZZ_SEED", 1);
  int failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const auto g = graph::random_graph(
        seed, {.nodes = 2 + static_cast<int>(seed % 4), .in_place = false, .data_dependent = false, .degenerate = seed % 2 == 1});
    if (g->guards.empty()) continue;
    const auto alone = without_requirements(*g);
    std::optional<compiler::CompiledModel> model;
    for (uint64_t k = 0; k < 6; ++k) {
      const Tensors inputs = graph::random_inputs(*g, seed * 8 + k);
      const std::string expected = test::user_error([&] { graph::interpret(*alone, inputs); });
      if (!model) model = front::compile_model(graph::clone(*g));
      const std::string said = test::user_error([&] { model->run(guarded_copies(inputs, k % 2)); });
      const bool fine = expected == "no error" ? said == "no error" : is_for_others(expected) || test::contains(said, "(called at ");
      failures += !fine;
      EXPECT_TRUE(fine) << "seed " << seed << "\n" << said << "\nexpected: " << expected << "\n" << graph::to_string(*g);
    }
  }
}

// The error is the operation's, at its line, and does not cost a compile; what was compiled goes on serving.
TEST(BadSizesOfFunctions, AreErrorsOfTheOperation) {
  auto f = compile([](const Tensor& x) { return call1("unfold", {x, n(0), n(5), n(1)}) * 2; });
  const auto ramp = [](int64_t size) { return Tensor::of(std::vector<double>(static_cast<size_t>(size), 1), Sizes{size}); };
  for (int64_t size : {8, 9, 10}) EXPECT_EQ(f(ramp(size)).sizes(), (Sizes{size - 4, 5}));
  const int64_t compiles = f.report().compiles;
  for (int64_t size : {4, 3, 2}) {
    const std::string said = test::user_error([&] { f(test::guarded(ramp(size), true)); });
    EXPECT_TRUE(test::contains(said, "unfold: a window of 5 does not fit") && test::contains(said, "bad_sizes_test.cpp:")) << said;
  }
  EXPECT_EQ(f(ramp(7)).sizes(), (Sizes{3, 5}));
  EXPECT_EQ(f.report().compiles, compiles);
}

bool are_close(const Tensor& a, const Tensor& b) {
  const Tensor x = a.contiguous(), y = b.contiguous();
  const auto *p = reinterpret_cast<const float*>(x.raw_data()), *q = reinterpret_cast<const float*>(y.raw_data());
  return std::equal(p, p + x.numel(), q, q + y.numel(), [](float u, float v) { return std::abs(u - v) < 1e-4F; });
}

// What an operation asks to be a multiple stays open: the program serves all multiples.
TEST(BadSizesOfFunctions, MayBeAskedToBeMultiples) {
  struct Multiple {
    const char* name;
    int64_t unit;
    std::function<Sizes(int64_t)> sizes;  // of an operand with so many channels
    std::function<Tensor(const Tensor&)> f;
  };
  const std::vector<Multiple> cases{
      {"glu", 2, [](int64_t k) { return Sizes{k}; },
       [](const Tensor& x) {
         return call1("glu", {x, n(0)});
       }},
      {"group_norm", 4,
       [](int64_t k) {
         return Sizes{2, k, 3};
       },
       [](const Tensor& x) {
         return call1("group_norm", {x, n(4)});
       }},
      {"pixel_shuffle", 4,
       [](int64_t k) {
         return Sizes{2, k, 3, 2};
       },
       [](const Tensor& x) {
         return call1("pixel_shuffle", {x, n(2)});
       }},
      {"pixel_unshuffle", 3,
       [](int64_t k) {
         return Sizes{2, 2, k, 6};
       },
       [](const Tensor& x) {
         return call1("pixel_unshuffle", {x, n(3)});
       }},
      {"channel_shuffle", 3,
       [](int64_t k) {
         return Sizes{2, k, 3, 2};
       },
       [](const Tensor& x) {
         return call1("channel_shuffle", {x, n(3)});
       }},
      {"scaled_dot_product_attention", 2,
       [](int64_t k) {
         return Sizes{1, k, 3, 4};
       },
       [](const Tensor& q) {
         const Tensor kv = call1("slice.Tensor", {q, n(1), n(0), n(2)});
         return call1("scaled_dot_product_attention", {q, kv, kv, Tensor(), 0.0, false, std::monostate{}, true});
       }},
  };
  for (auto& c : cases) {
    auto f = compile(c.f);
    const auto ramp = [&](int64_t size) {
      const Sizes sizes = c.sizes(size);
      std::vector<double> values(static_cast<size_t>(product(sizes)));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 11) / 4;
      return Tensor::of(values, sizes);
    };
    for (int64_t groups : {4, 5, 6, 7, 3}) {
      const Tensor x = ramp(groups * c.unit), y = f(x), expected = c.f(x);
      ASSERT_EQ(y.sizes(), expected.sizes()) << c.name;
      EXPECT_TRUE(are_close(y, expected)) << c.name << " of " << groups << " groups";
    }
    EXPECT_LE(f.report().compiles, 2) << c.name << ": " << fmt::format("{}", fmt::join(f.report().recompile_reasons, "\n"));
    const std::string said = test::user_error([&] { f(ramp(4 * c.unit + 1)); });
    EXPECT_TRUE(test::contains(said, c.name) && test::contains(said, "bad_sizes_test.cpp:")) << said;
    EXPECT_EQ(f(ramp(8 * c.unit)).sizes(), c.f(ramp(8 * c.unit)).sizes());
    EXPECT_LE(f.report().compiles, 2) << c.name;
  }
}

// A function may catch an operation's error and go another way. It does so in whichever order the sizes come, with a program for each way.
TEST(BadSizesOfFunctions, ThatCatchTheErrorGoTheOtherWay) {
  const auto body = [](const Tensor& x) {
    try {
      return call1("unfold", {x, n(0), n(5), n(1)}) * 2;
    } catch (const UserError&) {
      return x + 1;
    }
  };
  const auto ramp = [](int64_t size) { return Tensor::of(std::vector<double>(static_cast<size_t>(size), 1), Sizes{size}); };
  for (const Sizes& order : {Sizes{8, 9, 10, 4, 3, 12, 2, 5}, Sizes{4, 3, 2, 8, 9, 4, 12}, Sizes{8, 4, 9, 3, 10, 2}}) {
    auto f = compile(body);
    for (int64_t size : order) {
      const Tensor y = f(ramp(size)), expected = body(ramp(size));
      ASSERT_EQ(y.sizes(), expected.sizes()) << "of " << size;
      EXPECT_TRUE(are_close(y, expected));
    }
    EXPECT_LE(f.report().compiles, 3) << fmt::format("{}", fmt::join(f.report().recompile_reasons, "\n"));
  }
}

// Sizes that only the run tells are looked at as soon as it does.
TEST(BadSizesOfData, AreRefusedBeforeTheyAreUsed) {
  graph::Graph g;
  graph::Recorder recorder(g);
  const Tensor x = recorder.proxy(g.add_input({DType::F32, {sym::symbol("s", 0, 64)}, {}}, graph::InputKind::User, "x"));
  g.symbols.push_back({sym::symbol("s", 0, 64), false});
  recorder.set_where("model.py:12");
  {
    DispatchScope scope(recorder);
    const Tensor found = call1("masked_select", {x, call1("gt.Scalar", {x, 0.0})});
    g.outputs.push_back({recorder.value_of(call1("unfold", {found, n(0), n(3), n(1)})), {}, -1});
  }
  auto model = front::compile_model(graph::clone(g));
  const auto run = [&](std::vector<double> values) {
    const Tensors in{Tensor::of(values, Sizes{static_cast<int64_t>(values.size())})};
    const std::string expected = test::user_error([&] { graph::interpret(g, in); });
    const std::string said = test::user_error([&] { model.run(in); });
    EXPECT_EQ(said == "no error", expected == "no error") << said << "\n" << expected;
    return said;
  };
  EXPECT_EQ(run({1, 2, 0, 3}), "no error");
  const std::string said = run({1, 0, 0, 3});
  EXPECT_TRUE(test::contains(said, "unfold: a window of 3 does not fit") && test::contains(said, "model.py:12")) << said;
}

}  // namespace
}  // namespace toroid

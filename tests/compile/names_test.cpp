// What a file calls its dimensions changes nothing: programs over sizes that are called like loop variables, values, names in kernels,
// keywords, or like no name at all.
#include <gtest/gtest.h>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/recorder.h"
#include "jit/nvrtc.h"
#include "ops/table.h"

namespace toroid {
namespace {

std::vector<std::string> hostile_names() {
  std::vector<std::string> names = {"n"};
  for (const char* stem : {"i", "r", "v"})
    for (int k = 0; k < 8; ++k) names.push_back(stem + std::to_string(k));
  for (const char* name : {"u0",     "s0",  "part",  "within", "half", "pixel",      "channel", "group",       "copy0",  "split", "split0",
                           "merge0", "run", "place", "row",    "m",    "n0",         "n1",      "batch",       "params", "bufs",  "begin",
                           "end",    "int", "for",   "idx",    "dim0", "size0",      "b0",      "acc",         "acc0",   "i64",   "main",
                           "none",   "f32", "inf",   "max",    "",     "batch size", "größe",   "*/ { \"'\\\n"})
    names.push_back(name);
  names.push_back(std::string(3000, 'x'));
  return names;
}

// x [size, 3], at [2]: reversals, shifts, scans, gathers, reductions, products and what depends on both positions and sizes.
std::unique_ptr<graph::Graph> program(const std::string& name) {
  using ops::call1;
  using List = std::vector<Expr>;
  auto g = std::make_unique<graph::Graph>();
  const Expr size = sym::symbol(name, 2, 1000);
  g->symbols.push_back({size, false});
  graph::Recorder recorder(*g);
  const Tensor x = recorder.proxy(g->add_input({DType::F32, {size, 3}, {}}, graph::InputKind::User, name));
  const Tensor at = recorder.proxy(g->add_input({DType::I64, {2}, {}}, graph::InputKind::User, "at"));
  DispatchScope scope(recorder);
  const Tensor turned = call1("permute", {x, List{1, 0}}), product = call1("mm", {turned, x});
  const Tensor outputs[] = {
      call1("flip", {call1("cumsum", {call1("flip", {x, List{0}}), Expr(0)}), List{0}}),
      call1("roll", {x, List{1}, List{0}}),
      call1("relu", {call1("index_select", {turned, Expr(1), at})}),
      call1("mul.Tensor", {call1("index_select", {x, Expr(0), at}), call1("index_select", {call1("flip", {x, List{0}}), Expr(0), at})}),
      call1("_softmax", {turned, Expr(-1), false}),
      call1("sum.dim_IntList", {call1("add.Tensor", {x, call1("flip", {x, List{0}})}), List{0}, false}),
      call1("add.Tensor", {product, call1("flip", {product, List{1}})}),
      call1("mm", {x, call1("flip", {product, List{0}})}),
      call1("view", {call1("cat", {std::vector<Tensor>{x, call1("flip", {x, List{0}})}, Expr(0)}), List{Expr(6) * size}}),
  };
  for (auto& t : outputs) g->outputs.push_back({recorder.value_of(t), {}, -1});
  return g;
}

std::vector<Tensor> inputs(int64_t size) {
  return {test::counting({size, 3}), Tensor::of({static_cast<double>(size) - 1, 0}, {2}, DType::I64)};
}

TEST(Names, OfSizesDoNotChangeResults) {
  for (auto& name : hostile_names()) {
    const auto reference = program(name);
    auto model = front::compile_model(graph::clone(*reference));
    for (int64_t size : {2, 4, 37}) {
      const auto got = model.run(inputs(size)), want = graph::interpret(*reference, inputs(size));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].sizes(), want[i].sizes()) << name << ", output " << i;
        const auto x = got[i].to_vector(), y = want[i].to_vector();
        for (size_t k = 0; k < x.size(); ++k)
          ASSERT_NEAR(x[k], y[k], 1e-4 * (1 + std::abs(y[k]))) << name << ", size " << size << ", output " << i << ", element " << k;
      }
    }
  }
}

std::vector<std::string> sources(const std::string& name) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_80";
  std::vector<std::string> out;
  for (auto& k : front::kernels_for_gpu(program(name), gpu)) out.push_back(k.source);
  return out;
}

TEST(Names, OfSizesAreNotInKernels) {
  const auto plain = sources("n");
  ASSERT_GT(plain.size(), 3u);
  for (auto& name : hostile_names()) EXPECT_TRUE(sources(name) == plain) << name;
  try {
    for (auto& source : plain) jit::nvrtc_check(source, "sm_80", "names");
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
}

TEST(Names, OfSizesAreReadFromTheGraphsText) {
  for (auto& name : hostile_names()) {
    const std::string text = graph::to_string(*program(name));
    const auto again = graph::parse(text);
    EXPECT_EQ(graph::to_string(*again), text);
    ASSERT_EQ(again->symbols.size(), 1u);
    EXPECT_EQ(again->symbols[0].expr, sym::symbol(name, 2, 1000));
  }
}

// A variable's number is of this process; texts are not.
TEST(Names, EqualLayersHaveEqualKernelsWherever) {
  const auto alone = sources("n");
  for (int k = 0; k < 100; ++k) sym::loop_symbol("i0", 4);
  EXPECT_TRUE(sources("n") == alone);
}

}  // namespace
}  // namespace toroid

// What becomes of quantized layers in QDQ form, and that the numbers stay within a step of what floats give.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/recorder.h"
#include "ops/op.h"

namespace toroid::graph {
namespace {

using ops::call1;
using Sizes = std::vector<Expr>;

Tensor of(double value) { return Tensor::of({value}, {}, DType::F32); }

Tensor some(const std::vector<int64_t>& sizes, DType t, int seed) {
  Tensor out = Tensor::empty(sizes, t);
  auto* bytes = static_cast<uint8_t*>(static_cast<void*>(out.raw_data()));
  for (int64_t i = 0; i < out.numel(); ++i) bytes[i] = static_cast<uint8_t>((i * 37 + seed * 101) % 251);
  return out;
}

Tensor cast(const Tensor& t, DType to) { return call1("to.dtype", {t, to}); }

// As the ONNX importer writes them.
Tensor dequantize(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  return call1("mul.Tensor", {cast(call1("sub.Tensor", {cast(x, DType::I32), cast(zero, DType::I32)}), DType::F32), scale});
}
Tensor quantize(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  Tensor whole = call1("add.Tensor", {call1("round", {call1("div.Tensor", {x, scale})}), cast(zero, DType::F32)});
  const bool sign = zero.dtype() == DType::I8;
  return cast(call1("clamp", {whole, sign ? -128.0 : 0.0, sign ? 127.0 : 255.0}), zero.dtype());
}
Tensor zero_of(DType t, double value) { return Tensor::of({value}, {}, t); }

struct Case {
  Graph graph;
  Recorder recorder{graph};
  DispatchScope scope{recorder};
  std::vector<Tensor> given;

  Tensor input(const Tensor& t) {
    given.push_back(t);
    Sizes sizes(t.sizes().begin(), t.sizes().end());
    return recorder.proxy(graph.add_input({t.dtype(), sizes, {}}, InputKind::User, "x"));
  }
  void output(const Tensor& t) { graph.outputs.push_back({recorder.value_of(t), {}, -1}); }
};

int count(const Graph& g, std::string_view name) {
  int n = 0;
  for (auto& node : g.nodes) n += node->op->name == name;
  return n;
}

// The graph after the pass and dce, whose results differ from those before by at most `most`.
std::unique_ptr<Graph> rewritten(const Case& c, double most) {
  auto after = integer_products(c.graph);
  if (!after) return nullptr;
  verify(*after, "after integer_products");
  if (auto clean = dce(*after)) after = std::move(clean);
  const auto want = interpret(c.graph, c.given), got = interpret(*after, c.given);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(want[i].dtype(), got[i].dtype());
    const auto w = want[i].to_vector(), g = got[i].to_vector();
    for (size_t k = 0; k < w.size(); ++k) EXPECT_NEAR(w[k], g[k], most) << "element " << k;
  }
  return after;
}

TEST(IntegerProducts, MatMulWithScalesOfColumns) {
  Case c;
  const Tensor x = c.input(some({2, 3, 40}, DType::U8, 1));
  const Tensor w = dequantize(some({40, 5}, DType::I8, 2), Tensor::of({0.01, 0.02, 0.005, 0.03, 0.01}, {5}, DType::F32),
                              Tensor::of({0, 0, 0, 0, 0}, {5}, DType::I8));
  const Tensor y = call1("add.Tensor", {call1("matmul", {dequantize(x, of(0.05), zero_of(DType::U8, 130)), w}), of(0.5)});
  c.output(quantize(call1("relu", {y}), of(0.37), zero_of(DType::U8, 3)));
  auto after = rewritten(c, 1);
  ASSERT_TRUE(after);
  EXPECT_EQ(count(*after, "_int_mm"), 1);
  EXPECT_EQ(count(*after, "matmul") + count(*after, "div.Tensor"), 0);
}

// What looks like a quantization and is none stays a sum of floats.
TEST(IntegerProducts, OtherZeroPointsAndTypesStay) {
  const auto kept = [](const std::function<Tensor(const Tensor&)>& real) {
    Case c;
    const Tensor x = c.input(some({4, 8}, DType::U8, 1)), w = dequantize(some({8, 5}, DType::I8, 2), of(0.01), zero_of(DType::I8, 0));
    c.output(call1("matmul", {real(x), w}));
    auto after = integer_products(c.graph);
    return !after || count(*after, "_int_mm") == 0;
  };
  const auto less = [](const Tensor& x, DType type, double zero) {
    const Tensor whole = call1("sub.Tensor", {cast(x, type), Tensor::of({zero}, {}, type)});
    return call1("mul.Tensor", {cast(whole, DType::F32), of(0.05)});
  };
  EXPECT_FALSE(kept([&](const Tensor& x) { return less(x, DType::I32, 255); }));
  EXPECT_TRUE(kept([&](const Tensor& x) { return less(x, DType::I32, 300); })) << "beyond the type";
  EXPECT_TRUE(kept([&](const Tensor& x) { return less(x, DType::I32, -5); }));
  EXPECT_TRUE(kept([&](const Tensor& x) { return less(x, DType::F32, 2.5); })) << "not whole";
  EXPECT_TRUE(kept([&](const Tensor& x) { return less(x, DType::I8, 3); })) << "differences wrap";
  EXPECT_TRUE(kept([&](const Tensor& x) {
    return call1("reshape",
                 {call1("mul.Tensor", {cast(cast(x, DType::I32), DType::F32), Tensor::of({0.05}, {1, 1, 1}, DType::F32)}), Sizes{4, 8}});
  })) << "the scale adds a dimension";
}

TEST(IntegerProducts, BoundsKnowNegativeScalesAndLimits) {
  for (double scale : {-1e30, 1e-3}) {
    Case c;
    const Tensor x = c.input(some({4, 8}, DType::U8, 1)), w = dequantize(some({8, 5}, DType::I8, 2), of(scale), zero_of(DType::I8, 0));
    Tensor y = call1("matmul", {dequantize(x, of(0.05), zero_of(DType::U8, 7)), w});
    if (scale > 0) y = call1("clamp", {call1("relu", {y}), 1e12, 1e13});
    c.output(quantize(y, of(0.1), zero_of(DType::U8, 0)));
    auto after = rewritten(c, 1);
    ASSERT_TRUE(after);
    EXPECT_EQ(count(*after, "_int_mm"), 1);
  }
}

TEST(IntegerProducts, ConvolutionsInAChainStayWhole) {
  Case c;
  const Tensor in = c.input(some({1, 8, 9, 9}, DType::I8, 1)), zero = zero_of(DType::I8, -4), scale = of(0.05);
  Tensor x = dequantize(in, scale, zero);
  x = call1("max_pool2d", {x, Sizes{3, 3}, Sizes{2, 2}, Sizes{1, 1}, Sizes{1, 1}, false});
  x = dequantize(quantize(x, scale, zero), scale, zero);
  x = call1("constant_pad_nd", {x, Sizes{0, 1, 0, 1}, Expr(0)});
  const Tensor w = dequantize(some({6, 8, 3, 3}, DType::U8, 2), of(0.01), zero_of(DType::U8, 128));
  const Tensor bias = dequantize(some({6}, DType::I8, 3), of(0.1), zero_of(DType::I8, 0));
  c.output(call1("convolution", {x, w, bias, Sizes{1, 1}, Sizes{1, 1}, Sizes{1, 1}, false, Sizes{0, 0}, Expr(1)}));
  auto after = rewritten(c, 1e-3);
  ASSERT_TRUE(after);
  EXPECT_EQ(count(*after, "_int_convolution"), 1);
  EXPECT_EQ(count(*after, "round"), 0) << "what was quantized as it already is stays as it is";
  for (auto& n : after->nodes) {
    const bool moves = n->op->name == "max_pool2d" || n->op->name == "constant_pad_nd";
    EXPECT_TRUE(!moves || n->results[0]->type.dtype == DType::I8) << n->op->name;
  }
}

TEST(IntegerProducts, TransposedWeightsOfReals) {
  Case c;
  const Tensor x = c.input(some({4, 10}, DType::U8, 1));
  Tensor real = Tensor::empty({6, 10}, DType::F32);
  for (int64_t i = 0; i < real.numel(); ++i) real.data<float>()[i] = std::sin(static_cast<float>(i));
  const Tensor scale = of(1 / 127.0), zero = zero_of(DType::I8, 0);
  const Tensor w = dequantize(quantize(real, scale, zero), scale, zero);
  c.output(call1("matmul", {dequantize(x, of(0.02), zero_of(DType::U8, 0)), call1("permute", {w, Sizes{1, 0}})}));
  auto after = rewritten(c, 1e-4);
  ASSERT_TRUE(after);
  EXPECT_EQ(count(*after, "_int_mm"), 1);
}

TEST(IntegerProducts, WeightsThatDoNotFitLessTheirZeroPoint) {
  for (double zero : {0.0, 100.0, 255.0}) {
    Case c;
    const Tensor x = c.input(some({3, 20}, DType::U8, 1)), image = c.input(some({1, 5, 9}, DType::U8, 2));
    const Tensor w = dequantize(some({20, 6}, DType::U8, 3), of(0.1), zero_of(DType::U8, zero));
    c.output(call1("matmul", {dequantize(x, of(0.02), zero_of(DType::U8, 9)), w}));
    const Tensor filters = dequantize(some({6, 5, 3}, DType::U8, 4), of(0.1), zero_of(DType::U8, zero));
    c.output(call1("convolution", {dequantize(image, of(0.02), zero_of(DType::U8, 9)), filters, Tensor(), Sizes{2}, Sizes{1}, Sizes{1},
                                   false, Sizes{0}, Expr(1)}));
    auto after = rewritten(c, 1e-2);
    ASSERT_TRUE(after);
    EXPECT_GE(count(*after, "_int_mm"), 2);
    EXPECT_GE(count(*after, "_int_convolution"), 2);
  }
}

// x * (erf(x / 2) + 1), quantized after each step, is a table of what the product is quantized to.
TEST(IntegerProducts, FunctionsOfQuantizedNumbersAreTables) {
  for (DType type : {DType::U8, DType::I8}) {
    Case c;
    const Tensor in = c.input(some({3, 20}, DType::U8, 1)), zero = zero_of(type, type == DType::U8 ? 128 : 0);
    const auto step = [&](const Tensor& x, double scale) { return dequantize(quantize(x, of(scale), zero), of(scale), zero); };
    const Tensor w = dequantize(some({20, 7}, DType::I8, 2), of(0.01), zero_of(DType::I8, 0));
    const Tensor x = step(call1("matmul", {dequantize(in, of(0.02), zero_of(DType::U8, 100)), w}), 0.05);
    Tensor y = step(call1("erf", {step(call1("div.Tensor", {x, 2.0}), 0.03)}), 0.008);
    y = step(call1("add.Tensor", {y, Tensor::of({1}, {1}, DType::F32)}), 0.016);
    c.output(quantize(call1("mul.Tensor", {x, y}), of(0.1), zero));
    auto after = rewritten(c, 1);
    ASSERT_TRUE(after);
    EXPECT_EQ(count(*after, "index.Tensor"), 1);
    EXPECT_EQ(count(*after, "erf") + count(*after, "round"), 1) << "of the product alone";
  }
}

// Nothing is changed where it is not sure that it would be the same.
TEST(IntegerProducts, WhatIsNotSureStays) {
  enum { kScaleIsInput, kScaleOfRows, kNarrowClamp };
  for (int which : {kScaleIsInput, kScaleOfRows, kNarrowClamp}) {
    Case c;
    const Tensor x = c.input(some({2, 4}, DType::U8, 1));
    const Tensor scale = which == kScaleIsInput ? c.input(of(0.1)) : of(0.1);
    const Tensor of_w = which == kScaleOfRows ? Tensor::of({0.1, 0.2, 0.3, 0.4}, {4, 1}, DType::F32) : of(0.2);
    const Tensor w = dequantize(some({4, 3}, DType::U8, 2), of_w, zero_of(DType::U8, 128));
    Tensor y = dequantize(x, scale, zero_of(DType::U8, 7));
    if (which == kNarrowClamp)  // no product with known weights
      y = cast(cast(call1("clamp", {call1("round", {call1("div.Tensor", {y, scale})}), 0.0, 100.0}), DType::U8), DType::F32);
    c.output(call1("matmul", {y, w}));
    EXPECT_EQ(integer_products(c.graph), nullptr) << which;
  }
}

TEST(IntegerProducts, RunWhereTheTargetHasThem) {
  const auto has = [](bool int8) {
    for (auto& row : pipeline(int8 ? kFrozenInt8 : kFrozen))
      if (std::string_view(row.name) == "integer_products") return true;
    return false;
  };
  EXPECT_TRUE(has(true));
  EXPECT_FALSE(has(false));
}

}  // namespace
}  // namespace toroid::graph

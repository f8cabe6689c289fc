// Sizes that an exported program leaves open: they follow the input, and what the file states of them is required.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "import/pt2_programs.h"
#include "ops/reference.h"
#include "toroid/error.h"

namespace toroid::import {
namespace {

Program symbolic() {
  Program p;
  p.ranges = R"("s0":{"min_val":2,"max_val":64})";
  p.sym_ints = R"("n":)" + expr_size("Mul(Integer(2), " + kS0 + ")", 10);
  p.nodes = node("sym_size.int", arg("self", tensor_arg("x")) + "," + arg("dim", R"({"as_int":0})"), R"({"as_sym_int":{"as_name":"n"}})") +
            "," +
            node("view.default", arg("self", tensor_arg("x")) + "," + arg("size", R"({"as_sym_ints":[{"as_name":"n"}]})"), tensor_arg("y"));
  p.values =
      R"("x":)" + meta(expr_size(kS0, 5) + "," + int_size(2), 2) + R"(,"y":)" + meta(expr_size("Mul(Integer(2), " + kS0 + ")", 10), 1);
  return p;
}

TEST(Pt2Importer, SymbolicSizesFollowTheInput) {
  auto g = symbolic().load();
  ASSERT_EQ(g->symbols.size(), 1u);
  EXPECT_EQ(g->symbols[0].expr.node()->hi, 64);
  EXPECT_EQ(g->symbols[0].hint, 5) << "the size of the example that was exported";
  Tensor x = Tensor::full(std::vector<int64_t>{7, 2}, 1.0);
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].sizes(), (std::vector<int64_t>{14}));
  Tensor too_long = Tensor::full(std::vector<int64_t>{65, 2}, 1.0);
  EXPECT_THROW(graph::interpret(*g, std::span(&too_long, 1)), UserError);
}

// PyTorch knows sizes by guards of the example that are not in the file: what it states of results is required of other inputs.
TEST(Pt2Importer, StatedSizesAreRequired) {
  const std::string rows = "FloorDiv(Add(" + kS0 + ", Integer(1)), Integer(3))";
  Program p;
  p.ranges = R"("s0":{"min_val":2,"max_val":64})";
  p.nodes = node("slice.Tensor",
                 arg("self", tensor_arg("x")) + "," + arg("dim", R"({"as_int":0})") + "," + arg("start", R"({"as_int":1})") + "," +
                     arg("end", R"({"as_int":9223372036854775807})") + "," + arg("step", R"({"as_int":3})"),
                 tensor_arg("z")) +
            "," + node("mul.Tensor", arg("self", tensor_arg("z")) + "," + arg("other", R"({"as_int":2})"), tensor_arg("y"), "mul_3");
  const auto stating = [&](const std::string& y) {
    p.values = R"("x":)" + meta(expr_size(kS0, 3) + "," + int_size(2), 2) + R"(,"z":)" + meta(expr_size(rows, 1) + "," + int_size(2), 2) +
               R"(,"y":)" + meta(y + "," + int_size(2), 2);
    return p.load();
  };
  const auto run = [](const graph::Graph& g, int64_t n) {
    const Tensor x = Tensor::full(std::vector<int64_t>{n, 2}, 1.5);
    return graph::interpret(g, std::span(&x, 1))[0].sizes();
  };
  auto g = stating(int_size(1));
  for (int64_t n : {2, 3, 4}) EXPECT_EQ(run(*g, n), (std::vector<int64_t>{1, 2})) << n;
  const std::string said = test::user_error([&] { run(*g, 7); });
  for (const char* part : {"mul.Tensor: dimension 0 of \"y\" is 1 in the exported program", "s0 is dimension 0 of the input \"x\"",
                           "does not hold with s0=7", "called at mul_3"})
    EXPECT_TRUE(test::contains(said, part)) << said;
  // Equal expressions of which Toroid may not know that they are; some divide by negative numbers, as sizes of what counts down do.
  const std::string fewer = "Add(Mul(Integer(-1), " + kS0 + "), Integer(1))", negative = "Mul(Integer(-1), Add(" + kS0 + ", Integer(1)))";
  for (const std::string& same :
       {"CeilToInt(FloatTrueDiv(ToFloat(" + fewer + "), Float('-3.0', precision=53)))", "CeilDiv(" + fewer + ", Integer(-3))",
        "FloorToInt(FloatTrueDiv(ToFloat(" + negative + "), Float('-3.0', precision=53)))",
        "TruncToInt(IntTrueDiv(" + negative + ", Integer(-3)))", "Add(" + rows + ", Mod(" + kS0 + ", Integer(1)))",
        "CeilDiv(Add(" + kS0 + ", Integer(-1)), Integer(3))",
        "Add(" + kS0 + ", Mul(Integer(-1), FloorDiv(Add(Mul(Integer(2), " + kS0 + "), Integer(1)), Integer(3))))"}) {
    g = stating(expr_size(same, 1));
    for (int64_t n = 2; n < 20; ++n) EXPECT_EQ(run(*g, n), (std::vector<int64_t>{(n + 1) / 3, 2})) << same;
  }
  EXPECT_THROW(stating(int_size(2)), InternalError) << "not even the example has it";
}

// Sizes of 0 and 1, which PyTorch's rules leave out, are computed all the same: x[-2:] has 2 rows by the file.
TEST(Pt2Importer, StatedSizesAreOfTwoAndMore) {
  Program p;
  p.ranges = R"("s0":{"min_val":0,"max_val":64})";
  p.nodes = node("slice.Tensor",
                 arg("self", tensor_arg("x")) + "," + arg("dim", R"({"as_int":0})") + "," + arg("start", R"({"as_int":-2})") + "," +
                     arg("end", R"({"as_int":9223372036854775807})"),
                 tensor_arg("y"));
  p.values = R"("x":)" + meta(expr_size(kS0, 5), 1) + R"(,"y":)" + meta(int_size(2), 1);
  const auto g = p.load();
  for (int64_t n : {0, 1, 2, 3, 64}) {
    const Tensor x = Tensor::full(std::vector<int64_t>{n}, 1.5);
    EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].sizes(), (std::vector<int64_t>{std::min<int64_t>(n, 2)})) << n;
  }
}

// The usual scale is made of the width of heads.
TEST(Pt2Importer, AttentionTakesEveryWidth) {
  Program p;
  p.ranges = R"("s0":{"min_val":2,"max_val":64})";
  const std::string type = meta(int_size(2) + "," + int_size(3) + "," + expr_size(kS0, 6), 3);
  p.values = R"("x":)" + type + R"(,"y":)" + type;
  p.nodes = node("scaled_dot_product_attention.default",
                 arg("query", tensor_arg("x")) + "," + arg("key", tensor_arg("x")) + "," + arg("value", tensor_arg("x")), tensor_arg("y"));
  const auto g = p.load();
  EXPECT_TRUE(g->guards.empty()) << graph::to_string(*g);
  for (int64_t width : {2, 5, 6, 64}) {
    std::vector<double> values(static_cast<size_t>(6 * width));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 11) / 8;
    const Tensor x = Tensor::of(values, std::vector<int64_t>{2, 3, width});
    ops::ReferenceDispatcher reference;
    const DispatchScope scope(reference);
    expect_near(graph::interpret(*g, std::span(&x, 1))[0], ops::call1("scaled_dot_product_attention", {x, x, x}));
  }
}

// As run_decompositions writes the scale of attention: a number that is made of the width.
TEST(Pt2Importer, ScalarsMayFollowFromSizes) {
  Program p = symbolic();
  p.sym_ints.clear();
  const std::string root = "FloatPow(FloatTrueDiv(Float('1.0', precision=53), FloatPow(ToFloat(" + kS0 +
                           "), Float('0.5', precision=53))), Float('0.5', precision=53))";
  p.sym_floats = R"("r":{"as_expr":{"expr_str":")" + root + R"("}})";
  const std::string type = meta(expr_size(kS0, 5) + "," + int_size(2), 2);
  p.values = R"("x":)" + type + R"(,"y":)" + type;
  for (const char* op : {"mul.Scalar", "div.Scalar", "add.Scalar", "sub.Scalar"}) {
    p.nodes = node(op, arg("self", tensor_arg("x")) + "," + arg("other", R"({"as_sym_float":{"as_name":"r"}})"), tensor_arg("y"));
    const auto g = p.load();
    for (int64_t n : {2, 5, 16}) {
      const Tensor x = Tensor::full(std::vector<int64_t>{n, 2}, 3.0);
      const double r = std::pow(static_cast<double>(n), -0.25);
      const double expected = *op == 'm' ? 3 * r : *op == 'd' ? 3 / r : *op == 'a' ? 3 + r : 3 - r;
      EXPECT_NEAR(graph::interpret(*g, std::span(&x, 1))[0].to_vector()[1], expected, 1e-5) << op << ", " << n;
    }
  }
}

// An operation that takes a size for a number is for that one alone, and says so by its name.
TEST(Pt2Importer, NumbersOfSizesNameTheOperation) {
  Program p;
  p.ranges = R"("s0":{"min_val":2,"max_val":64})";
  const std::string n = expr_size(kS0, 3);
  p.values = R"("x":)" + meta(n, 1) + R"(,"y":)" + meta(n + "," + n, 2);
  p.nodes = node("linalg_vander.default", arg("x", tensor_arg("x")), tensor_arg("y"), "vander_2");
  const auto g = p.load();
  const Tensor three = Tensor::of({1, 2, 3}, {3}), four = Tensor::of({1, 2, 3, 4}, {4});
  EXPECT_EQ(graph::interpret(*g, std::span(&three, 1))[0].to_vector(), (std::vector<double>{1, 1, 1, 1, 2, 4, 1, 3, 9}));
  const std::string said = test::user_error([&] { graph::interpret(*g, std::span(&four, 1)); });
  for (const char* part : {"linalg_vander: ", "s0 is dimension 0 of the input \"x\"", "s0 == 3 does not hold with s0=4", "static dimension",
                           "called at vander_2"})
    EXPECT_TRUE(test::contains(said, part)) << said;
}

// Archives name the symbols; what they call them tells nothing about an input's size.
TEST(Pt2Importer, SymbolsMayHaveAnyName) {
  for (const std::string name : {"i0", "r1", "v3", "u0", "use", "int", "part", "n", "batch size", "size-1", "none"}) {
    Program p = symbolic();
    for (std::string* text : {&p.ranges, &p.sym_ints, &p.values})
      for (const std::string quote : {"'", "\""})
        for (size_t at = 0; (at = text->find(quote + "s0" + quote, at)) != text->npos;) text->replace(at + 1, 2, name);
    auto g = p.load();
    ASSERT_EQ(g->symbols.size(), 1u) << name;
    EXPECT_EQ(g->symbols[0].expr, sym::symbol(name, 2, 64));
    EXPECT_FALSE(g->symbols[0].unbacked) << name;
    EXPECT_EQ(g->symbols[0].hint, 5) << name;
    EXPECT_EQ(to_string(*graph::parse(to_string(*g))), to_string(*g));
    Tensor x = Tensor::full(std::vector<int64_t>{7, 2}, 1.0);
    EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].sizes(), (std::vector<int64_t>{14})) << name;
  }
}

TEST(Pt2Importer, AdaptivePoolsTakeEveryLength) {
  Program p = symbolic();
  std::string row = meta(int_size(1) + "," + expr_size(kS0, 5), 2), pooled = meta(int_size(1) + "," + int_size(3), 2),
              size = arg("output_size", R"({"as_ints":[3]})");
  p.nodes = node("adaptive_max_pool1d", arg("self", tensor_arg("x")) + "," + size, tensor_arg("m") + "," + tensor_arg("i")) + "," +
            node("adaptive_avg_pool1d", arg("self", tensor_arg("x")) + "," + size, tensor_arg("a")) + "," +
            node("add.Tensor", arg("self", tensor_arg("m")) + "," + arg("other", tensor_arg("a")), tensor_arg("b")) + "," +
            node("add.Tensor", arg("self", tensor_arg("b")) + "," + arg("other", tensor_arg("i")), tensor_arg("y"));
  p.values = R"("x":)" + row + R"(,"y":)" + pooled;
  auto g = p.load();
  auto maximum_mean_and_place = [&](std::initializer_list<double> values) {
    Tensor x = Tensor::of(values, {1, static_cast<int64_t>(values.size())});
    return graph::interpret(*g, std::span(&x, 1))[0].to_vector();
  };
  EXPECT_EQ(maximum_mean_and_place({8, 2, 6, 4, 0}), (std::vector<double>{8 + 5 + 0, 6 + 4 + 2, 4 + 2 + 3}));
  EXPECT_EQ(maximum_mean_and_place({8, 2, 6, 4, 0, 2}), (std::vector<double>{8 + 5 + 0, 6 + 5 + 2, 2 + 1 + 5}));
  EXPECT_EQ(maximum_mean_and_place({8, 2}), (std::vector<double>{8 + 8 + 0, 8 + 5 + 0, 2 + 2 + 1}));
}

// The file's size of the result, in PyTorch's words, is that of the rule.
TEST(Pt2Importer, CombinationsOfEveryLength) {
  Program p = symbolic();
  const std::string pairs = "FloorDiv(Mul(" + kS0 + ", Add(" + kS0 + ", Integer(-1))), Integer(2))";
  p.nodes = node("combinations.default", arg("self", tensor_arg("x")), tensor_arg("y"));
  p.values = R"("x":)" + meta(expr_size(kS0, 5), 1) + R"(,"y":)" + meta(expr_size(pairs, 10) + "," + int_size(2), 2);
  auto g = p.load();
  const auto pairs_of = [&](std::initializer_list<double> values) {
    const Tensor x = Tensor::of(values, {static_cast<int64_t>(values.size())});
    return graph::interpret(*g, std::span(&x, 1))[0].to_vector();
  };
  EXPECT_EQ(pairs_of({4, 2}), (std::vector<double>{4, 2}));
  EXPECT_EQ(pairs_of({4, 2, 8}), (std::vector<double>{4, 2, 4, 8, 2, 8}));
}

TEST(Pt2Importer, BatchStatisticsFollowTheSizeOfTheBatch) {
  Program p = symbolic();
  auto filled = [](const char* name, const char* value) {
    return node("full.default", arg("size", R"({"as_ints":[1]})") + "," + arg("fill_value", value), tensor_arg(name));
  };
  std::string none = R"({"as_none":true})", eps = R"({"as_float":0.0})";
  p.nodes = filled("mean", R"({"as_float":0.0})") + "," + filled("var", R"({"as_float":0.0})") + "," +
            node("_native_batch_norm_legit_functional.default",
                 arg("input", tensor_arg("x")) + "," + arg("weight", none) + "," + arg("bias", none) + "," +
                     arg("running_mean", tensor_arg("mean")) + "," + arg("running_var", tensor_arg("var")) + "," +
                     arg("training", R"({"as_bool":true})") + "," + arg("momentum", R"({"as_float":1.0})") + "," + arg("eps", eps),
                 tensor_arg("n") + "," + tensor_arg("m") + "," + tensor_arg("r") + "," + tensor_arg("new_mean") + "," + tensor_arg("y"));
  p.values = R"("x":)" + meta(expr_size(kS0, 5) + "," + int_size(1), 2) + R"(,"y":)" + meta(int_size(1), 1);
  auto g = p.load();
  Tensor two = Tensor::of({1, 3}, {2, 1}), three = Tensor::of({1, 3, 5}, {3, 1});
  EXPECT_EQ(graph::interpret(*g, std::span(&two, 1))[0].to_vector(), (std::vector<double>{2}));
  EXPECT_EQ(graph::interpret(*g, std::span(&three, 1))[0].to_vector(), (std::vector<double>{4}));
}

// Resizes of any width to 4 columns, and of 4 columns to any width.
TEST(Pt2Importer, ResizesTakeEveryWidth) {
  Program p = symbolic();
  std::string four = arg("output_size", R"({"as_ints":[4]})"), any = arg("output_size", R"({"as_sym_ints":[{"as_name":"n"}]})");
  auto upsample = [](const char* name, const char* x, const std::string& size, const std::string& more, const char* y) {
    return node(name, arg("self", tensor_arg(x)) + "," + size + more, tensor_arg(y));
  };
  std::string corners = "," + arg("align_corners", R"({"as_bool":true})"), centres = "," + arg("align_corners", R"({"as_bool":false})");
  p.nodes = node("sym_size.int", arg("self", tensor_arg("x")) + "," + arg("dim", R"({"as_int":2})"), R"({"as_sym_int":{"as_name":"n"}})") +
            "," + upsample("upsample_linear1d.default", "x", four, corners, "c") + "," +
            upsample("upsample_linear1d.default", "c", any, centres, "d") + "," +
            upsample("upsample_nearest1d.default", "d", four, "", "y");
  p.sym_ints = R"("n":)" + expr_size(kS0, 5);
  p.values = R"("x":)" + meta(int_size(1) + "," + int_size(1) + "," + expr_size(kS0, 5), 3) + R"(,"y":)" +
             meta(int_size(1) + "," + int_size(1) + "," + int_size(4), 3);
  auto g = p.load();
  auto resized = [&](std::initializer_list<double> values) {
    Tensor x = Tensor::of(values, {1, 1, static_cast<int64_t>(values.size())});
    return graph::interpret(*g, std::span(&x, 1))[0].to_vector();
  };
  EXPECT_EQ(resized({0, 3}), (std::vector<double>{0.5, 0.5, 2.5, 2.5}));
  EXPECT_EQ(resized({0, 3, 9, 27}), (std::vector<double>{0, 3, 9, 27}));
  EXPECT_EQ(resized({0, 0, 0, 16, 16, 16, 16, 16}).size(), 4u);
}

TEST(Pt2Importer, AntialiasedResizesTakeEveryWidth) {
  Program p = symbolic();
  p.nodes = node(
      "_upsample_bilinear2d_aa.default",
      arg("self", tensor_arg("x")) + "," + arg("output_size", R"({"as_ints":[1,2]})") + "," + arg("align_corners", R"({"as_bool":false})"),
      tensor_arg("y"));
  std::string ones = int_size(1) + "," + int_size(1) + "," + int_size(1) + ",";
  p.values = R"("x":)" + meta(ones + expr_size(kS0, 5), 4) + R"(,"y":)" + meta(ones + int_size(2), 4);
  auto g = p.load();
  auto ramp = [&](int64_t width) {
    std::vector<double> values;
    for (int64_t i = 0; i < width; ++i) values.push_back(static_cast<double>(i));
    Tensor x = Tensor::of(values, std::vector<int64_t>{1, 1, 1, width});
    return graph::interpret(*g, std::span(&x, 1))[0].to_vector();
  };
  EXPECT_EQ(ramp(2), (std::vector<double>{0, 1}));
  // Weights 5, 7, 7, 5, 3, 1 of 28.
  EXPECT_NEAR(ramp(8)[0], 53.0 / 28, 1e-5);
  EXPECT_NEAR(ramp(8)[1], 7 - 53.0 / 28, 1e-5);
}

// All points at 1.5, which is a quarter of the width beyond the last pixel and is mirrored there.
TEST(Pt2Importer, GridsSampleEveryWidth) {
  Program p = symbolic();
  p.nodes =
      node("full.default", arg("size", R"({"as_ints":[1,1,2,2]})") + "," + arg("fill_value", R"({"as_float":1.5})"), tensor_arg("g")) +
      "," +
      node("grid_sampler_2d.default",
           arg("input", tensor_arg("x")) + "," + arg("grid", tensor_arg("g")) + "," + arg("interpolation_mode", R"({"as_int":0})") + "," +
               arg("padding_mode", R"({"as_int":2})") + "," + arg("align_corners", R"({"as_bool":true})"),
           tensor_arg("y"));
  std::string ones = int_size(1) + "," + int_size(1) + "," + int_size(1) + ",";
  p.values = R"("x":)" + meta(ones + expr_size(kS0, 5), 4) + R"(,"y":)" + meta(ones + int_size(2), 4);
  auto g = p.load();
  for (int64_t last : {4, 8}) {
    std::vector<double> ramp;
    for (int64_t i = 0; i <= last; ++i) ramp.push_back(static_cast<double>(i));
    Tensor x = Tensor::of(ramp, std::vector<int64_t>{1, 1, 1, last + 1});
    EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>(2, 0.75 * static_cast<double>(last))));
  }
}

TEST(Pt2Importer, PatchesOfEveryWidth) {
  Program p = symbolic();
  auto pair = [](const char* name, int a, int b) { return arg(name, fmt::format(R"({{"as_ints":[{},{}]}})", a, b)); };
  p.nodes = node("im2col.default",
                 arg("self", tensor_arg("x")) + "," + pair("kernel_size", 1, 3) + "," + pair("dilation", 1, 1) + "," +
                     pair("padding", 0, 1) + "," + pair("stride", 1, 2),
                 tensor_arg("p")) +
            "," + node("sum.dim_IntList", arg("self", tensor_arg("p")) + "," + arg("dim", R"({"as_ints":[2]})"), tensor_arg("y"));
  std::string ones = int_size(1) + "," + int_size(1) + "," + int_size(1) + ",";
  p.values = R"("x":)" + meta(ones + expr_size(kS0, 5), 4) + R"(,"y":)" + meta(int_size(1) + "," + int_size(3), 2);
  auto g = p.load();
  auto sums = [&](std::initializer_list<double> values) {
    Tensor x = Tensor::of(values, {1, 1, 1, static_cast<int64_t>(values.size())});
    return graph::interpret(*g, std::span(&x, 1))[0].to_vector();
  };
  EXPECT_EQ(sums({1, 2, 3, 4}), (std::vector<double>{2, 4, 6}));  // patches 0 1 2 and 2 3 4
  EXPECT_EQ(sums({1, 2, 3, 4, 5, 6}), (std::vector<double>{6, 9, 12}));
}

TEST(Pt2Importer, RangesTakeSizesAsSteps) {
  Program p = symbolic();
  auto length = [](int dim) { return arg("self", tensor_arg("x")) + "," + arg("dim", fmt::format(R"({{"as_int":{}}})", dim)); };
  auto number = [](const char* name) { return fmt::format(R"({{"as_sym_int":{{"as_name":"{}"}}}})", name); };
  p.nodes = node("sym_numel.default", arg("self", tensor_arg("x")), number("n")) + "," + node("sym_size.int", length(1), number("s")) +
            "," +
            node("arange.start_step", arg("start", R"({"as_int":0})") + "," + arg("end", number("n")) + "," + arg("step", number("s")),
                 tensor_arg("r")) +
            "," + node("_to_copy.default", arg("self", tensor_arg("r")) + "," + arg("dtype", R"({"as_scalar_type":7})"), tensor_arg("y"));
  p.sym_ints = R"("n":)" + expr_size("Mul(Integer(2), " + kS0 + ")", 10) + R"(,"s":)" + expr_size(kS0, 5);
  p.values = R"("x":)" + meta(int_size(2) + "," + expr_size(kS0, 5), 2) + R"(,"y":)" + meta(int_size(2), 1);
  Tensor x = Tensor::full(std::vector<int64_t>{2, 6}, 1.0);
  EXPECT_EQ(graph::interpret(*p.load(), std::span(&x, 1))[0].to_vector(), (std::vector<double>{0, 6}));
}

TEST(Pt2Importer, SizesMayBeScaledByBinaryFractions) {
  auto scaled = [](const std::string& factor) {
    Program p = symbolic();
    p.sym_ints.clear();
    p.nodes = node("upsample_nearest1d.vec",
                   arg("input", tensor_arg("x")) + "," + arg("output_size", R"({"as_none":true})") + "," +
                       arg("scale_factors", R"({"as_floats":[)" + factor + "]}"),
                   tensor_arg("y"));
    std::string one = meta(int_size(1) + "," + int_size(1) + "," + expr_size(kS0, 5), 3);
    std::string wide = expr_size("TruncToInt(Mul(ToFloat(" + kS0 + "), Float('" + factor + "', precision=53)))", 7);
    p.values = R"("x":)" + one + R"(,"y":)" + meta(int_size(1) + "," + int_size(1) + "," + wide, 3);
    return p;
  };
  auto g = scaled("1.5").load();
  for (auto [in, out] : {std::pair(2, 3), std::pair(5, 7), std::pair(6, 9)}) {
    Tensor x = Tensor::full(std::vector<int64_t>{1, 1, in}, 1.0);
    EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].sizes(), (std::vector<int64_t>{1, 1, out}));
  }
  EXPECT_NE(scaled("1.7").error().find("the number 1.7, which is no fraction of a power of two"), std::string::npos);
}

TEST(Pt2Importer, SizesOutsideOfTheLanguageAreRefused) {
  Program p = symbolic();
  p.sym_ints = R"("n":)" + expr_size("Frobnicate(" + kS0 + ")", 10);
  EXPECT_NE(p.error().find("Frobnicate"), std::string::npos) << p.error();
}

}  // namespace
}  // namespace toroid::import

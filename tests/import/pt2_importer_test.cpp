#include "import/pt2_importer.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/files.h"
#include "errors.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "import/load_model.h"
#include "import/safetensors.h"
#include "import/zip_builder.h"
#include "toroid/error.h"
#include "toroid/ops.h"

namespace toroid::import {
namespace {

const std::filesystem::path kModels = std::filesystem::path(TOROID_SOURCE_DIR) / "tests/data/models";

std::vector<Tensor> read(const std::filesystem::path& path) {
  auto reader = SafetensorsReader::open(path);
  std::vector<Tensor> out;
  for (int i = 0; auto* r = reader.find(fmt::format("{:03}", i)); ++i) {
    Tensor t = Tensor::empty(r->sizes, r->dtype);
    auto bytes = r->bytes();
    std::memcpy(t.raw_data(), bytes.data(), bytes.size());
    out.push_back(t);
  }
  return out;
}

void expect_near(const Tensor& got, const Tensor& expected) {
  ASSERT_EQ(got.dtype(), expected.dtype());
  ASSERT_EQ(got.sizes(), expected.sizes());
  auto g = got.to_vector(), e = expected.to_vector();
  for (size_t i = 0; i < g.size(); ++i) ASSERT_NEAR(g[i], e[i], 1e-5 * (1 + std::abs(e[i]))) << "element " << i;
}

class Model : public testing::TestWithParam<const char*> {};

// What PyTorch computed with these files: in-place operations (train) and functional ones (core).
TEST_P(Model, RunsInTheInterpreterAsInPyTorch) {
  std::filesystem::path model = kModels / GetParam();
  auto g = load_model(model);
  graph::PassRow functionalize = graph::find_pass("functionalize");
  g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
  graph::verify(*g, "import");
  auto expected = read(model.parent_path() / "out.safetensors");
  auto got = graph::interpret(*g, read(model.parent_path() / "in.safetensors"));
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Model,
                         testing::Values("digitsnet/train.pt2", "digitsnet/core.pt2", "encoder/train.pt2", "encoder/core.pt2",
                                         "numbers_from_data/train.pt2", "numbers_from_data/core.pt2", "quantized_decomposed/train.pt2",
                                         "quantized_decomposed/core.pt2"));

// A number that is read from a tensor and becomes a size is checked where the run tells it.
TEST(Pt2Importer, RefusesNumbersFromDataThatTheProgramExcludes) {
  std::filesystem::path folder = kModels / "numbers_from_data";
  auto g = load_model(folder / "train.pt2");
  graph::PassRow functionalize = graph::find_pass("functionalize");
  g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
  auto inputs = read(folder / "in.safetensors");
  for (int64_t rows : {0, 2, 4}) {
    inputs[2] = Tensor::of({static_cast<double>(rows)}, {}, DType::I64);
    EXPECT_EQ(graph::interpret(*g, inputs)[2].sizes(), (std::vector<int64_t>{rows, 4}));
  }
  for (int64_t rows : {-1, 5}) {
    inputs[2] = Tensor::of({static_cast<double>(rows)}, {}, DType::I64);
    EXPECT_THROW(graph::interpret(*g, inputs), UserError) << rows;
  }
}

// Autocast, map, associative_scan and constants. Autocast rounds in bf16.
TEST(Pt2Importer, TakesRegions) {
  std::filesystem::path folder = kModels / "regions";
  auto expected = read(folder / "out.safetensors");
  for (const char* file : {"train.pt2", "core.pt2"}) {
    auto g = load_model(folder / file);
    graph::PassRow functionalize = graph::find_pass("functionalize");
    g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
    auto got = graph::interpret(*g, read(folder / "in.safetensors"));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].dtype(), expected[i].dtype());
      auto a = got[i].to_vector(), b = expected[i].to_vector();
      double allowed = i < 2 ? 2e-2 : 1e-5;
      for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], allowed * (1 + std::abs(b[k]))) << file << ", output " << i;
    }
  }
}

// A buffer that counts the calls, in both dialects. The file was saved after one call.
TEST(Pt2Importer, BuffersKeepWhatTheProgramWrites) {
  for (const char* file : {"tied/train.pt2", "tied/core.pt2"}) {
    auto g = load_model(kModels / file);
    graph::PassRow functionalize = graph::find_pass("functionalize");
    g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
    auto inputs = read(kModels / "tied/in.safetensors");
    for (double count : {2, 3, 4}) {
      auto got = graph::interpret(*g, inputs);
      ASSERT_EQ(got.size(), 2u);
      EXPECT_EQ(got[1].item(), count) << file;
    }
    expect_near(graph::interpret(*g, inputs)[0], read(kModels / "tied/out.safetensors")[0]);
  }
}

TEST(Pt2Importer, KeepsNamesKindsAndSharedStorage) {
  auto g = load_model(kModels / "tied/train.pt2");
  const graph::Input *first = nullptr, *second = nullptr;
  int users = 0;
  for (auto& in : g->inputs) {
    users += in.kind == graph::InputKind::User;
    if (!in.data.defined()) continue;
    if (first && first->data.impl()->storage == in.data.impl()->storage) second = &in;
    if (!first) first = &in;
  }
  EXPECT_EQ(users, 1);
  EXPECT_NE(second, nullptr) << "the tied weights do not share their storage";
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->kind, graph::InputKind::Parameter);
  EXPECT_FALSE(first->name.empty());
}

TEST(Pt2Importer, NodesSayWhereTheyComeFrom) {
  auto g = load_model(kModels / "encoder/core.pt2");
  ASSERT_FALSE(g->nodes.empty());
  for (auto& n : g->nodes) EXPECT_FALSE(n->where.empty());
}

// Small programs written by hand.
const std::string kMeta = R"("requires_grad":false,"device":{"type":"cpu","index":null},"storage_offset":{"as_int":0},"layout":7})";
std::string meta(const std::string& sizes, int rank, int dtype = 7) {
  std::string strides;
  for (int i = 0; i < rank; ++i) strides += std::string(i ? "," : "") + R"({"as_int":1})";
  return fmt::format(R"({{"dtype":{},"sizes":[{}],"strides":[{}],)", dtype, sizes, strides) + kMeta;
}
std::string int_size(int n) { return fmt::format(R"({{"as_int":{}}})", n); }
std::string expr_size(const std::string& text, int hint) {
  return fmt::format(R"j({{"as_expr":{{"expr_str":"{}","hint":{{"as_int":{}}}}}}})j", text, hint);
}
const std::string kS0 = "Symbol('s0', positive=True, integer=True)";

struct Program {
  std::string nodes, values, output = "y", ranges, sym_ints, sym_floats, verifier = "ATEN";

  std::unique_ptr<graph::Graph> load() const {
    std::string json = R"({"schema_version":{"major":8,"minor":20},"verifiers":[")" + verifier +
                       R"("],"torch_version":"2.14","range_constraints":{)" + ranges +
                       R"(},"graph_module":{"graph":{"inputs":[{"as_tensor":{"name":"x"}}],"outputs":[{"as_tensor":{"name":")" + output +
                       R"("}}],"nodes":[)" + nodes + R"(],"tensor_values":{)" + values + R"(},"sym_int_values":{)" + sym_ints +
                       R"(},"sym_float_values":{)" + sym_floats +
                       R"(},"sym_bool_values":{}},"signature":{"input_specs":[{"user_input":{"arg":{"as_tensor":{"name":"x"}}}}],)" +
                       R"("output_specs":[{"user_output":{"arg":{"as_tensor":{"name":")" + output + R"("}}}}]},"module_call_graph":[]}})";
    bytes_ = ZipBuilder{}.build({{"net/archive_format", "pt2"},
                                 {"net/byteorder", "little"},
                                 {"net/models/model.json", json},
                                 {"net/data/weights/model_weights_config.json", R"({"config":{}})"}});
    return import_pt2(std::make_shared<Pt2Archive>(Pt2Archive::from_bytes(std::as_bytes(std::span(bytes_)), "net.pt2")));
  }
  std::string error() const {
    try {
      load();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  mutable std::string bytes_;
};

std::string node(const std::string& target, const std::string& inputs, const std::string& output, const std::string& name = "n") {
  return R"({"target":"torch.ops.aten.)" + target + R"(","inputs":[)" + inputs + R"(],"outputs":[)" + output +
         R"(],"metadata":{},"name":")" + name + "\"}";
}
std::string arg(const std::string& name, const std::string& value) {
  return R"({"name":")" + name + R"(","arg":)" + value + R"(,"kind":1})";
}
std::string tensor_arg(const std::string& name) { return R"({"as_tensor":{"name":")" + name + R"("}})"; }

Program scaled() {
  Program p;
  p.nodes = node("mul.Tensor", arg("self", tensor_arg("x")) + "," + arg("other", R"({"as_float":2.5})"), tensor_arg("y"));
  p.values = R"("x":)" + meta(int_size(3), 1) + R"(,"y":)" + meta(int_size(3), 1);
  return p;
}

TEST(Pt2Importer, NumbersForTensorParameters) {
  auto g = scaled().load();
  Tensor x = Tensor::of({1, 2, -4}, {3});
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>{2.5, 5, -10}));
}

// As QAT exports it, in both dialects.
TEST(Pt2Importer, TakesFakeQuantization) {
  const auto integer = [](const char* name, int v) { return "," + arg(name, fmt::format(R"({{"as_int":{}}})", v)); };
  const std::string inputs = arg("self", tensor_arg("x")) + "," + arg("scale", R"({"as_float":0.5})") + integer("zero_point", 1) +
                             integer("quant_min", 0) + integer("quant_max", 3);
  Program p = scaled();
  const Tensor x = Tensor::of({-4, 0.75, 5}, {3});
  for (bool core : {false, true}) {
    p.nodes = core ? node("fake_quantize_per_tensor_affine_cachemask.default", inputs, tensor_arg("y") + "," + tensor_arg("mask"))
                   : node("fake_quantize_per_tensor_affine.default", inputs, tensor_arg("y"));
    EXPECT_EQ(graph::interpret(*p.load(), std::span(&x, 1))[0].to_vector(), (std::vector<double>{-0.5, 1, 1}));
  }
}

TEST(Pt2Importer, TakesScalarProductsAndLogitBackward) {
  const Tensor x = Tensor::of({0.1, 0.5, 0.75}, {3});
  Program p = scaled();
  p.nodes = node("logit_backward.default",
                 arg("grad_output", tensor_arg("x")) + "," + arg("self", tensor_arg("x")) + "," + arg("eps", R"({"as_float":0.25})"),
                 tensor_arg("y"));
  EXPECT_EQ(graph::interpret(*p.load(), std::span(&x, 1))[0].to_vector(), (std::vector<double>{0, 2, 4}));
  p.nodes = node("linalg_vecdot.default",
                 arg("x", tensor_arg("x")) + "," + arg("y", tensor_arg("x")) + "," + arg("dim", R"({"as_int":-1})"), tensor_arg("y"));
  p.values = R"("x":)" + meta(int_size(3), 1) + R"(,"y":)" + meta("", 0);
  EXPECT_NEAR(graph::interpret(*p.load(), std::span(&x, 1))[0].item(), 0.8225, 1e-6);
}

TEST(Pt2Importer, TakesGeluBackwardAndMultilabelMarginLoss) {
  const Tensor x = Tensor::of({-2, 0, 0.5}, {3});
  Program p = scaled();
  p.nodes =
      node("gelu_backward.default",
           arg("grad_output", tensor_arg("x")) + "," + arg("self", tensor_arg("x")) + "," + arg("approximate", R"({"as_string":"tanh"})"),
           tensor_arg("y"));
  expect_near(graph::interpret(*p.load(), std::span(&x, 1))[0], Tensor::of({0.17219851, 0, 0.43368495}, {3}));
  p.nodes = node("_to_copy.default", arg("self", tensor_arg("x")) + "," + arg("dtype", R"({"as_scalar_type":5})"), tensor_arg("t")) + "," +
            node("multilabel_margin_loss.default",
                 arg("self", tensor_arg("x")) + "," + arg("target", tensor_arg("t")) + "," + arg("reduction", R"({"as_int":1})"),
                 tensor_arg("y"));
  p.values = R"("x":)" + meta(int_size(3), 1) + R"(,"t":)" + meta(int_size(3), 1, 5) + R"(,"y":)" + meta("", 0);
  const Tensor scores = Tensor::of({1, 0.25, -1}, {3});  // wanted: classes 1 and 0
  EXPECT_NEAR(graph::interpret(*p.load(), std::span(&scores, 1))[0].item(), 0, 1e-6);
}

TEST(Pt2Importer, ListsAllUnknownOperationsWithNearNames) {
  Program p = scaled();
  p.nodes = node("mull.Tensor", arg("self", tensor_arg("x")), tensor_arg("a")) + "," +
            node("mull.Tensor", arg("self", tensor_arg("a")), tensor_arg("b")) + "," +
            node("frobnicate.default", arg("self", tensor_arg("b")), tensor_arg("y"));
  std::string e = p.error();
  EXPECT_NE(e.find("mull.Tensor (2 nodes); Toroid has mul.Tensor"), std::string::npos) << e;
  EXPECT_NE(e.find("frobnicate (1 node)"), std::string::npos) << e;
  p.nodes = node("linalg_matrix_rank.atol_rtol_tensor", arg("self", tensor_arg("x")), tensor_arg("y"));
  e = p.error();
  EXPECT_NE(e.find("linalg_matrix_rank.atol_rtol_tensor (1 node); count the singular values"), std::string::npos) << e;
}

TEST(Pt2Importer, TypesThatDisagreeWithTheFileAreFound) {
  Program p = scaled();
  p.values = R"("x":)" + meta(int_size(3), 1) + R"(,"y":)" + meta(int_size(3), 1, 8);
  try {
    p.load();
    FAIL() << "no error";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("\"y\" is f32[3] by Toroid's rules and f64[3] in the file"), std::string::npos) << e.what();
  }
}

TEST(Pt2Importer, UnknownParameterAndMissingTensorNameTheNode) {
  Program p = scaled();
  p.nodes = node("mul.Tensor", arg("self", tensor_arg("x")) + "," + arg("otter", R"({"as_int":2})"), tensor_arg("y"), "mul_7");
  EXPECT_NE(p.error().find("node \"mul_7\" (mul.Tensor): there is no parameter \"otter\""), std::string::npos) << p.error();
  p.nodes = node("mul.Tensor", arg("self", tensor_arg("z")) + "," + arg("other", R"({"as_int":2})"), tensor_arg("y"), "mul_7");
  EXPECT_NE(p.error().find("\"z\" is used before it is computed"), std::string::npos) << p.error();
}

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
  // Equal expressions of which Toroid may not know that they are.
  for (const std::string& same :
       {"Add(" + rows + ", Mod(" + kS0 + ", Integer(1)))", "CeilDiv(Add(" + kS0 + ", Integer(-1)), Integer(3))",
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
    expect_near(graph::interpret(*g, std::span(&x, 1))[0], scaled_dot_product_attention(x, x, x));
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

// A higher-order node: operands are positional.
std::string higher_order(const std::string& name, const std::vector<std::string>& operands, const std::string& outputs) {
  std::string inputs;
  for (auto& o : operands) inputs += (inputs.empty() ? "" : ",") + arg("", o);
  return R"({"target":"torch.ops.higher_order.)" + name + R"(","inputs":[)" + inputs + R"(],"outputs":[)" + outputs +
         R"(],"metadata":{},"name":"h"})";
}
std::string sub_graph(const std::string& inputs, const std::string& nodes, const std::string& output, const std::string& values) {
  return R"({"as_graph":{"name":"g","graph":{"inputs":[)" + inputs + R"(],"outputs":[)" + tensor_arg(output) + R"(],"nodes":[)" + nodes +
         R"(],"tensor_values":{)" + values + R"(},"sym_int_values":{},"sym_bool_values":{},"is_single_tensor_return":false}}})";
}
std::string times(const std::string& factor, const std::string& in = "a", const std::string& out = "r") {
  return node("mul.Tensor", arg("self", tensor_arg(in)) + "," + arg("other", R"({"as_float":)" + factor + "}"), tensor_arg(out));
}

// y = sum(x) > 0 ? 2 x : -x
Program branching(const std::string& size = int_size(3)) {
  Program p = scaled();
  std::string vector = meta(size, 1), values = R"("a":)" + vector + R"(,"r":)" + vector;
  p.nodes = node("sum.default", arg("self", tensor_arg("x")), tensor_arg("s")) + "," +
            node("gt.Scalar", arg("self", tensor_arg("s")) + "," + arg("other", R"({"as_int":0})"), tensor_arg("positive")) + "," +
            higher_order("cond",
                         {tensor_arg("positive"), sub_graph(tensor_arg("a"), times("2.0"), "r", values),
                          sub_graph(tensor_arg("a"), times("-1.0"), "r", values), R"({"as_tensors":[{"name":"x"}]})"},
                         tensor_arg("y"));
  p.values = R"("x":)" + vector + R"(,"y":)" + vector + R"(,"s":)" + meta("", 0) + R"(,"positive":)" + meta("", 0, 12);
  return p;
}

TEST(Pt2Importer, BranchesBecomeRegions) {
  auto g = branching().load();
  graph::verify(*g, "import");
  Tensor up = Tensor::of({1, 2, 3}, {3}), down = Tensor::of({1, 2, -4}, {3});
  EXPECT_EQ(graph::interpret(*g, std::span(&up, 1))[0].to_vector(), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(graph::interpret(*g, std::span(&down, 1))[0].to_vector(), (std::vector<double>{-1, -2, 4}));
}

TEST(Pt2Importer, RegionsUseTheSymbolsAround) {
  Program p = branching(expr_size(kS0, 5));
  p.ranges = R"("s0":{"min_val":2,"max_val":64})";
  auto g = p.load();
  graph::verify(*g, "import");
  std::string text = graph::to_string(*g);
  EXPECT_EQ(graph::to_string(*graph::parse(text)), text);
  Tensor x = Tensor::of({1, 2, 3, -8}, {4});
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>{-1, -2, -3, 8}));
}

TEST(Pt2Importer, LoopsBecomeRegions) {
  Program p = scaled();
  std::string vector = meta(int_size(3), 1), values = R"("a":)" + vector + R"(,"r":)" + vector;
  std::string test = node("sum.default", arg("self", tensor_arg("a")), tensor_arg("s")) + "," +
                     node("lt.Scalar", arg("self", tensor_arg("s")) + "," + arg("other", R"({"as_int":100})"), tensor_arg("c"));
  p.nodes =
      higher_order("while_loop",
                   {sub_graph(tensor_arg("a"), test, "c", values + R"(,"s":)" + meta("", 0) + R"(,"c":)" + meta("", 0, 12)),
                    sub_graph(tensor_arg("a"), times("2.0"), "r", values), R"({"as_tensors":[{"name":"x"}]})", R"({"as_tensors":[]})"},
                   tensor_arg("y"));
  auto g = p.load();
  Tensor x = Tensor::of({1, 2, 3}, {3});
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>{32, 64, 96}));
}

TEST(Pt2Importer, ScansBecomeRegions) {
  Program p = scaled();  // running sums: carry + x[i]
  std::string scalar = meta("", 0), two = R"("c":)" + scalar + R"(,"v":)" + scalar + R"(,"r":)" + scalar + R"(,"q":)" + scalar;
  std::string add = node("add.Tensor", arg("self", tensor_arg("c")) + "," + arg("other", tensor_arg("v")), tensor_arg("r")) + "," +
                    node("clone.default", arg("self", tensor_arg("r")), tensor_arg("q"));
  std::string combine = sub_graph(tensor_arg("c") + "," + tensor_arg("v"), add, "r", two);
  size_t at = combine.find(R"("outputs":[)" + tensor_arg("r") + "]");
  ASSERT_NE(at, std::string::npos);
  combine.insert(at + 11, tensor_arg("q") + ",");
  p.nodes =
      node("full.default", arg("size", R"({"as_ints":[]})") + "," + arg("fill_value", R"({"as_float":0.5})"), tensor_arg("zero")) + "," +
      higher_order("scan", {combine, R"({"as_tensors":[{"name":"zero"}]})", R"({"as_tensors":[{"name":"x"}]})", R"({"as_tensors":[]})"},
                   tensor_arg("last") + "," + tensor_arg("y"));
  p.values += R"(,"zero":)" + scalar + R"(,"last":)" + scalar;
  auto g = p.load();
  Tensor x = Tensor::of({1, 2, 3}, {3});
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>{1.5, 3.5, 6.5}));
}

TEST(Pt2Importer, InlinesGradientModesAndAutocast) {
  Program p = scaled();
  std::string vector = meta(int_size(3), 1), values = R"("a":)" + vector + R"(,"r":)" + vector;
  std::string body = sub_graph(tensor_arg("a"), times("3.0"), "r", values);
  p.nodes = higher_order("wrap_with_set_grad_enabled", {R"({"as_bool":false})", body, tensor_arg("x")}, tensor_arg("y"));
  auto g = p.load();
  EXPECT_EQ(g->nodes.size(), 1u);
  Tensor x = Tensor::of({1, 2, 3}, {3});
  EXPECT_EQ(graph::interpret(*g, std::span(&x, 1))[0].to_vector(), (std::vector<double>{3, 6, 9}));
  auto on = [&](const char* device, const std::string& graph) {
    return higher_order("wrap_with_autocast",
                        {fmt::format(R"({{"as_string":"{}"}})", device), R"({"as_none":true})", R"({"as_bool":true})",
                         R"({"as_none":true})", graph, tensor_arg("x")},
                        tensor_arg("y"));
  };
  p.nodes = on("cpu", body);
  EXPECT_EQ(graph::interpret(*p.load(), std::span(&x, 1))[0].to_vector(), (std::vector<double>{3, 6, 9}));
  p.nodes = on("mps", body);
  EXPECT_NE(p.error().find("autocast region for the device \"mps\""), std::string::npos) << p.error();
  // The file says that the product is f32: it was exported without the casts.
  std::string square = node("outer", arg("self", tensor_arg("a")) + "," + arg("vec2", tensor_arg("a")), tensor_arg("m")),
              product = node("linear", arg("input", tensor_arg("a")) + "," + arg("weight", tensor_arg("m")), tensor_arg("r"));
  p.nodes = on("cpu", sub_graph(tensor_arg("a"), square + "," + product, "r", values));
  EXPECT_NE(p.error().find("run_decompositions()"), std::string::npos) << p.error();
}

TEST(LoadModel, OtherFilesAreRefusedWithWhatIsSupported) {
  auto folder = make_temp_dir();
  write_file_atomic(folder / "model.onnx", "not a model");
  try {
    load_model(folder / "model.onnx");
    ADD_FAILURE() << "no error";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find(".pt2"), std::string::npos);
  }
  EXPECT_THROW(load_model(folder / "absent.pt2"), UserError);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace toroid::import

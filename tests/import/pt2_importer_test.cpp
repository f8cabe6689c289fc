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
#include "import/pt2_programs.h"
#include "import/safetensors.h"
#include "toroid/error.h"

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

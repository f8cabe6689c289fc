// Reading ONNX models: what ONNX's own suite does not ask. The operators are tested by that suite (scripts/onnx-suite.sh).
#include <gtest/gtest.h>

#include <filesystem>

#include "graph/interpreter.h"
#include "graph/text.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"

namespace toroid::import::onnx {
namespace {

std::unique_ptr<graph::Graph> load(const Message& model, std::span<const Tensor> inputs = {}) {
  ModelFolder folder(model);
  return load_model(folder.model(), inputs);
}

Tensor integers(std::initializer_list<double> values) {
  return Tensor::of(std::span(values.begin(), values.size()), std::vector<int64_t>{static_cast<int64_t>(values.size())}, DType::I64);
}

// x [batch, 2, 3] becomes [batch, 6], by the arithmetic on sizes that exporters write.
GraphParts flattened() {
  GraphParts g;
  g.inputs = {value_info("x", {"batch", "2", "3"})};
  g.outputs = {value_info("y", {"batch", "6"})};
  g.initializers = {int64_tensor("zero", {}, {0}), int64_tensor("rest", {1}, {-1}), int64_tensor("axes", {1}, {0})};
  g.nodes = {node("Shape", {"x"}, {"sizes"}), node("Gather", {"sizes", "zero"}, {"n"}), node("Unsqueeze", {"n", "axes"}, {"n1"}),
             node("Concat", {"n1", "rest"}, {"target"}, {int_attribute("axis", 0)}), node("Reshape", {"x", "target"}, {"y"})};
  return g;
}

TEST(Onnx, SizesWithNamesStayOpen) {
  auto g = load(flattened().model(17));
  EXPECT_EQ(to_string(g->outputs[0].value->type), "f32[batch, 6]");
  for (int64_t batch : {1, 5}) {
    Tensor x = Tensor::full(std::vector<int64_t>{batch, 2, 3}, 1.5);
    auto out = graph::interpret(*g, std::span(&x, 1));
    EXPECT_EQ(out[0].sizes(), (std::vector<int64_t>{batch, 6}));
  }
}

// Dimensions of one name are one size, those of different names are not, and what has no name is called like nothing else.
TEST(Onnx, NamesOfSizesAreKept) {
  const std::vector<std::string> names = {"i0",   "v3",  "batch size", "batch_size", "batch-size", "größe", "n_1", "x_0",
                                          "part", "int", "none",       "u0",         " ",          "'",     "\\",  std::string(500, 'n')};
  GraphParts g;
  g.inputs = {value_info("x", {"?", "?"})};  // one of them would be called x_0
  g.outputs = {value_info("y", {"a", "b"})};
  g.nodes = {node("Relu", {"x"}, {"y"})};
  for (auto& name : names)
    for (const char* copy : {"a", "b"}) {
      g.inputs.push_back(value_info(copy + std::to_string(g.inputs.size()), {name}));
      g.nodes.push_back(node("Relu", {copy + std::to_string(g.inputs.size() - 1)}, {"y" + std::to_string(g.inputs.size())}));
    }
  auto loaded = load(g.model(17));
  ASSERT_EQ(loaded->symbols.size(), names.size() + 2);
  for (size_t i = 0; i < loaded->symbols.size(); ++i)
    for (size_t k = 0; k < i; ++k) EXPECT_FALSE(loaded->symbols[i].expr == loaded->symbols[k].expr) << i << ", " << k;
  for (size_t i = 0; i < names.size(); ++i) {
    const Expr &a = loaded->inputs[1 + 2 * i].value->type.sizes[0], &b = loaded->inputs[2 + 2 * i].value->type.sizes[0];
    EXPECT_EQ(a, b) << names[i];
    EXPECT_EQ(a.node()->name, names[i] == "x_0" ? "x_0_" : names[i]);
  }
  EXPECT_EQ(graph::to_string(*graph::parse(graph::to_string(*loaded))), graph::to_string(*loaded));
}

TEST(Onnx, ListsAllOperatorsThatAreMissing) {
  GraphParts g = flattened();
  g.nodes.push_back(node("Frobnicate", {"x"}, {"a"}));
  g.nodes.push_back(node("Relu6", {"x"}, {"b"}, {}, "other"));
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "2 of the operators", "Frobnicate (1 node)", "other::Relu6"));
}

TEST(Onnx, ErrorsNameTheNode) {
  GraphParts g = flattened();
  g.initializers[1] = int64_tensor("rest", {1}, {4});
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "model.onnx: node \"the Reshape\" (Reshape)"));
}

// A Reshape by an input: the program is made for its contents, and checks them.
TEST(Onnx, ContentsThatSizesFollowFromArePinned) {
  GraphParts g;
  g.inputs = {value_info("x", {"6"}), value_info("shape", {"2"}, 7)};
  g.outputs = {value_info("y", {"a", "b"})};
  g.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "\"shape\") must be known when the model is compiled"));
  std::vector<Tensor> inputs = {Tensor::full(std::vector<int64_t>{6}, 1), integers({2, 3})};
  auto program = load(g.model(17), inputs);
  EXPECT_EQ(graph::interpret(*program, inputs)[0].sizes(), (std::vector<int64_t>{2, 3}));
  inputs[1] = integers({3, 2});
  EXPECT_TRUE(refuses([&] { graph::interpret(*program, inputs); }, "\"shape\" has other contents"));
}

// Draws of classes of which each row has one that is possible.
TEST(Onnx, MultinomialDrawsByLogarithms) {
  GraphParts g;
  g.inputs = {value_info("x", {"batch", "3"})};
  g.outputs = {value_info("y", {"batch", "4"}, 7)};
  g.nodes = {node("Multinomial", {"x"}, {"y"}, {int_attribute("sample_size", 4), int_attribute("dtype", 7)})};
  const auto loaded = load(g.model(17));
  EXPECT_EQ(to_string(loaded->outputs[0].value->type), "i64[batch, 4]");
  const Tensor x = Tensor::of({-200, 5, -300, -4, -200, -200}, {2, 3});
  EXPECT_EQ(graph::interpret(*loaded, std::span(&x, 1))[0].to_vector(), (std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0}));
}

// local::Twice(x) = x + x, called by a function that is called by the graph.
TEST(Onnx, FunctionsAreWrittenOut) {
  auto function = [](const std::string& name, const Message& body) {
    return Message()
        .text(1, name)
        .text(4, "a")
        .text(5, "b")
        .message(7, body)
        .message(9, Message().text(1, "").number(2, 17))
        .text(10, "local");
  };
  GraphParts g;
  g.inputs = {value_info("x", {"2"})};
  g.outputs = {value_info("y", {"2"})};
  g.nodes = {node("Again", {"x"}, {"y"}, {}, "local")};
  auto twice = function("Twice", node("Add", {"a", "a"}, {"b"})), again = function("Again", node("Twice", {"a"}, {"b"}, {}, "local"));
  Tensor x = Tensor::full(std::vector<int64_t>{2}, 3);
  EXPECT_EQ(graph::interpret(*load(g.model(17, {twice, again})), std::span(&x, 1))[0].to_vector(), (std::vector<double>{6, 6}));
  auto forever = function("Again", node("Again", {"a"}, {"b"}, {}, "local"));
  EXPECT_TRUE(refuses([&] { load(g.model(17, {forever})); }, "functions call each other"));
}

// Data-dependent control flow: regions that read names of the graph around.
TEST(Onnx, IfAndLoopBecomeRegions) {
  GraphParts yes, no, body, g;
  yes.outputs = {value_info("a", {"2"})};
  yes.nodes = {node("Add", {"x", "x"}, {"a"})};
  no.outputs = {value_info("b", {"2"})};
  no.nodes = {node("Neg", {"x"}, {"b"})};
  g.inputs = {value_info("x", {"2"}), value_info("flag", {}, 9), value_info("limit", {}, 7)};
  g.outputs = {value_info("y", {"2"}), value_info("z", {"2"})};
  body.inputs = {value_info("i", {}, 7), value_info("go", {}, 9), value_info("v", {"2"})};
  body.outputs = {value_info("go", {}, 9), value_info("w", {"2"})};
  body.nodes = {node("Add", {"v", "x"}, {"w"})};
  g.nodes = {node("If", {"flag"}, {"y"}, {graph_attribute("then_branch", yes.message()), graph_attribute("else_branch", no.message())}),
             node("Loop", {"limit", "flag", "x"}, {"z"}, {graph_attribute("body", body.message())})};
  auto program = load(g.model(17));
  for (bool flag : {true, false}) {
    std::vector<Tensor> inputs = {Tensor::full(std::vector<int64_t>{2}, 3), Tensor::full(std::vector<int64_t>{}, flag, DType::Bool),
                                  Tensor::full(std::vector<int64_t>{}, 4, DType::I64)};
    auto out = graph::interpret(*program, inputs);
    EXPECT_EQ(out[0].to_vector(), (std::vector<double>(2, flag ? 6 : -3)));
    EXPECT_EQ(out[1].to_vector(), (std::vector<double>(2, flag ? 15 : 3)));
  }
}

// Lists of tensors while the model is imported: the halves of x [batch, 4], and the first of them before or behind, as the run says.
TEST(Onnx, SequencesAreResolved) {
  GraphParts yes, no, g;
  yes.outputs = {value_info("a", {})};
  yes.nodes = {node("SequenceInsert", {"halves", "half", "zero"}, {"a"})};
  no.outputs = {value_info("b", {})};
  no.nodes = {node("SequenceInsert", {"halves", "half"}, {"b"})};
  g.inputs = {value_info("x", {"batch", "4"}), value_info("flag", {}, 9)};
  g.outputs = {value_info("y", {"batch", "6"}), value_info("n", {}, 7)};
  g.initializers = {int64_tensor("zero", {}, {0}), int64_tensor("two", {}, {2})};
  g.nodes = {node("SplitToSequence", {"x", "two"}, {"halves"}, {int_attribute("axis", 1)}),
             node("SequenceAt", {"halves", "zero"}, {"half"}),
             node("If", {"flag"}, {"three"}, {graph_attribute("then_branch", yes.message()), graph_attribute("else_branch", no.message())}),
             node("ConcatFromSequence", {"three"}, {"y"}, {int_attribute("axis", 1)}), node("SequenceLength", {"three"}, {"n"})};
  auto program = load(g.model(17));
  EXPECT_EQ(to_string(program->outputs[0].value->type), "f32[batch, 6]");
  std::vector<Tensor> inputs = {Tensor::of(std::vector<double>{1, 2, 3, 4}, std::vector<int64_t>{1, 4}), Tensor()};
  for (bool flag : {true, false}) {
    inputs[1] = Tensor::full(std::vector<int64_t>{}, flag, DType::Bool);
    auto out = graph::interpret(*program, inputs);
    EXPECT_EQ(out[0].to_vector(), flag ? (std::vector<double>{1, 2, 1, 2, 3, 4}) : (std::vector<double>{1, 2, 3, 4, 1, 2}));
    EXPECT_EQ(out[1].to_vector(), (std::vector<double>{3}));
  }
  no.nodes = {node("SequenceErase", {"halves"}, {"b"})};
  g.nodes[2] =
      node("If", {"flag"}, {"three"}, {graph_attribute("then_branch", yes.message()), graph_attribute("else_branch", no.message())});
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "\"the If\" (If)", "sequences of different lengths"));
}

// The body is written out for each tensor; places are counted from the end where they are negative, and must be there.
TEST(Onnx, SequenceMapAndPlaces) {
  GraphParts body, g;
  body.inputs = {value_info("each", {"2"}), value_info("all", {"2"})};
  body.outputs = {value_info("sum", {"2"})};
  body.nodes = {node("Add", {"each", "all"}, {"sum"})};
  g.inputs = {value_info("x", {"3", "2"}), value_info("t", {"2"})};
  g.outputs = {value_info("y", {"2"})};
  g.initializers = {int64_tensor("at", {}, {-2})};
  g.nodes = {node("SplitToSequence", {"x"}, {"rows"}, {int_attribute("keepdims", 0)}),
             node("SequenceMap", {"rows", "t"}, {"sums"}, {graph_attribute("body", body.message())}),
             node("SequenceAt", {"sums", "at"}, {"y"})};
  std::vector<Tensor> inputs = {Tensor::of(std::vector<double>{1, 2, 3, 4, 5, 6}, std::vector<int64_t>{3, 2}),
                                Tensor::full(std::vector<int64_t>{2}, 10)};
  EXPECT_EQ(graph::interpret(*load(g.model(17)), inputs)[0].to_vector(), (std::vector<double>{13, 14}));
  g.initializers = {int64_tensor("at", {}, {3})};
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "the place in a sequence of 3 tensors is out of range"));
  g.nodes[2] = node("Neg", {"sums"}, {"y"});
  EXPECT_TRUE(refuses([&] { load(g.model(17)); }, "\"the Neg\" (Neg)", "\"sums\" is a sequence; a tensor is expected"));
}

// Nodes of graphs within graphs, too, are named after the model's nodes, and after no line of the importer.
TEST(Onnx, PlacesAreThoseOfTheModel) {
  size_t models = 0;
  for (auto& file : std::filesystem::directory_iterator(std::string(TOROID_SOURCE_DIR) + "/tests/data/onnx/fuzz")) {
    std::string text;
    try {
      text = graph::to_string(*load_model(file.path().string()));
    } catch (const UserError&) {  // some are of what Toroid does not take
      continue;
    }
    ++models;
    for (const char* source : {".h:", ".cpp:"}) EXPECT_EQ(text.find(source), text.npos) << file.path() << "\n" << text;
  }
  EXPECT_GT(models, 5u);
}

}  // namespace
}  // namespace toroid::import::onnx

// ONNX files that are damaged or malicious, and weights in other files.
#include <gtest/gtest.h>

#include <limits>

#include "base/options.h"
#include "import/load_model.h"
#include "import/onnx/tensors.h"
#include "import/onnx_builder.h"
#include "log_scope.h"

namespace toroid::import::onnx {
namespace {

namespace fs = std::filesystem;

Message external_tensor(const std::string& location, int64_t offset, int64_t length) {
  auto entry = [](const std::string& key, const std::string& value) { return Message().text(1, key).text(2, value); };
  Message t;
  t.number(1, 4).number(2, 1).text(8, "w");
  t.message(13, entry("location", location)).message(13, entry("offset", std::to_string(offset)));
  return t.message(13, entry("length", std::to_string(length))).number(14, 1);
}

GraphParts sum_with(const Message& weight) {
  GraphParts g;
  g.inputs = {value_info("x", {"4"})};
  g.outputs = {value_info("y", {"4"})};
  g.initializers = {weight};
  g.nodes = {node("Add", {"x", "w"}, {"y"})};
  return g;
}

TEST(OnnxFile, ExternalWeightsAreReadInPlace) {
  ModelFolder folder(sum_with(external_tensor("w.bin", 64, 16)).model(17));
  std::string bytes(80, '\0');
  for (int i = 0; i < 4; ++i) {
    float v = static_cast<float>(i);
    std::memcpy(bytes.data() + 64 + 4 * i, &v, 4);
  }
  folder.write("w.bin", bytes);
  auto g = load_model(folder.model());
  ASSERT_EQ(g->inputs.size(), 2u);
  Tensor w = g->inputs[1].data.defined() ? g->inputs[1].data : g->inputs[0].data;
  EXPECT_EQ(w.to_vector(), (std::vector<double>{0, 1, 2, 3}));
}

TEST(OnnxFile, ExternalWeightsStayWithinTheFolder) {
  ModelFolder elsewhere(std::string(64, 'x'));
  for (const char* location : {"../w.bin", "/etc/passwd", "", "a/../../w.bin"}) {
    ModelFolder folder(sum_with(external_tensor(location, 0, 16)).model(17));
    EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "relative path within the model's folder")) << location;
  }
  ModelFolder folder(sum_with(external_tensor("link.bin", 0, 16)).model(17));
  fs::create_symlink(elsewhere.model(), folder.path() / "link.bin");
  EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "leads out of the model's folder"));
}

TEST(OnnxFile, ExternalWeightsThatAreTooShortAreRefused) {
  for (int64_t offset : {int64_t{8}, int64_t{1000}, int64_t{1} << 62}) {
    ModelFolder folder(sum_with(external_tensor("w.bin", offset, 16)).model(17));
    folder.write("w.bin", std::string(16, '\0'));
    EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "the file has 16")) << offset;
  }
}

// Every prefix and every changed byte of a model is either read or refused.
TEST(OnnxFile, DamageIsAUserError) {
  std::string whole = sum_with(int64_tensor("w", {4}, {1, 2, 3, 4})).model(17).bytes;
  auto open = [&](const std::string& bytes) {
    ModelFolder folder(bytes);
    try {
      load_model(folder.model());
    } catch (const UserError&) {
    }
  };
  for (size_t n = 0; n < whole.size(); n += 3) open(whole.substr(0, n));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ (i % 2 ? 0x81 : 0x7f));
    open(changed);
  }
}

TEST(OnnxFile, SizesThatDoNotFitTheDataAreRefused) {
  for (int64_t size : {int64_t{-1}, int64_t{3}, int64_t{1} << 40, int64_t{1} << 62}) {
    Message t = int64_tensor("w", {size, 4}, {1, 2, 3, 4});
    std::string source = "t.pb";
    auto bytes = std::as_bytes(std::span(t.bytes));
    EXPECT_TRUE(refuses([&] { copy_tensor(parse_tensor({bytes, bytes, source}), source); }, "t.pb: the tensor \"w\"")) << size;
  }
}

// Two numbers a byte, the first in the low half; only for what reads their numbers.
TEST(OnnxFile, WeightsOfFourBitsAreUnpacked) {
  auto weights = [](int type) { return Message().number(1, 3).number(2, type).text(9, std::string("\x8f\x07", 2)).text(8, "w"); };
  std::string source = "t.pb";
  auto read = [&](const Message& m) {
    auto bytes = std::as_bytes(std::span(m.bytes));
    return copy_tensor(parse_tensor({bytes, bytes, source}), source).to_vector();
  };
  EXPECT_EQ(read(weights(22)), (std::vector<double>{-1, -8, 7}));
  EXPECT_EQ(read(weights(21)), (std::vector<double>{15, 8, 7}));
  ModelFolder folder(sum_with(weights(22)).model(21));
  EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "takes the tensor \"w\" of type INT4"));
}

// Two nodes that take each other's results, a tensor that nothing computes, an output that nothing computes, a node before what it takes.
TEST(OnnxFile, GraphsThatCannotBeOrderedAreRefused) {
  auto refused = [](std::vector<Message> nodes, const std::string& what) {
    GraphParts g;
    g.inputs = {value_info("x", {"4"})};
    g.outputs = {value_info("y", {"4"})};
    g.nodes = std::move(nodes);
    ModelFolder folder(g.model(17));
    return refuses([&] { load_model(folder.model()); }, "model.onnx: ", what);
  };
  const std::string early = "is used before it is computed";
  EXPECT_TRUE(refused({node("Add", {"x", "b"}, {"y"}), node("Neg", {"y"}, {"b"})}, "(Add): the tensor \"b\" " + early));
  EXPECT_TRUE(refused({node("Add", {"x", "y"}, {"y"})}, "(Add): the tensor \"y\" " + early));
  EXPECT_TRUE(refused({node("Add", {"x", "gone"}, {"y"})}, "the tensor \"gone\" " + early));
  EXPECT_TRUE(refused({node("Neg", {"x"}, {"z"})}, "no node computes the output \"y\""));
}

// Functions that each call the next twice, and sizes that follow from constants: what a small file can ask for has bounds.
TEST(OnnxFile, WhatASmallFileCanAskForHasBounds) {
  std::vector<Message> functions;
  for (int i = 0; i < 40; ++i) {
    Message f;
    f.text(1, "f" + std::to_string(i)).text(4, "a").text(5, "b").text(10, "local").message(9, Message().text(1, "").number(2, 17));
    const std::string next = i == 39 ? "Neg" : "f" + std::to_string(i + 1), domain = i == 39 ? "" : "local";
    f.message(7, node(next, {"a"}, {"c"}, {}, domain)).message(7, node(next, {"c"}, {"b"}, {}, domain));
    functions.push_back(f);
  }
  GraphParts g;
  g.inputs = {value_info("x", {"4"})};
  g.outputs = {value_info("y", {"4"})};
  g.nodes = {node("f30", {"x"}, {"y"}, {}, "local")};
  EXPECT_TRUE(load_model(ModelFolder(g.model(17, functions)).model()));
  g.nodes = {node("f0", {"x"}, {"y"}, {}, "local")};
  EXPECT_TRUE(refuses([&] { load_model(ModelFolder(g.model(17, functions)).model()); }, "more than 262144 nodes"));
}

// A tensor that no memory holds, sizes that leave 64 bits, sizes that follow from more numbers than are computed while importing.
TEST(OnnxFile, AbsurdSizesAreRefused) {
  auto refused = [](const std::vector<std::string>& x, std::vector<Message> nodes, const std::string& what) {
    GraphParts g;
    g.inputs = {value_info("x", x)};
    g.outputs = {value_info("y", {"a", "b"})};
    g.initializers = {int64_tensor("large", {2}, {int64_t{1} << 40, int64_t{1} << 40}), int64_tensor("one", {}, {1}),
                      int64_tensor("end", {}, {int64_t{1} << 40}), int64_tensor("first", {1}, {0})};
    g.nodes = std::move(nodes);
    return refuses([&] { load_model(ModelFolder(g.model(17)).model()); }, what);
  };
  const std::string memory = "more elements than any memory", huge = "1099511627776";
  EXPECT_TRUE(refused({huge, huge}, {node("Neg", {"x"}, {"y"})}, memory));
  Message empty = Message().text(1, "value").message(5, int64_tensor("", {0, int64_t{1} << 40, int64_t{1} << 40}, {})).number(20, 4);
  EXPECT_TRUE(refused({"4", "4"}, {node("Constant", {}, {"y"}, {empty})}, memory));
  EXPECT_TRUE(refused({"4", "4"}, {node("ConstantOfShape", {"large"}, {"y"})}, memory));
  EXPECT_TRUE(refused({"4", huge}, {node("ScatterND", {"x", "x", "x"}, {"y"})}, huge + " indices for 2 dimensions"));
  EXPECT_TRUE(refused({"n", "4"}, {node("Tile", {"x", "large"}, {"z"}), node("Tile", {"z", "large"}, {"y"})}, memory));
  EXPECT_TRUE(refused({"4", "4"},
                      {node("Range", {"one", "end", "one"}, {"r"}), node("ReduceMax", {"r"}, {"m"}), node("Reshape", {"x", "m"}, {"y"})},
                      "must be known when the model is compiled"));
  const int64_t most = std::numeric_limits<int64_t>::max();
  const std::vector<Message> grams = {int_attribute("min_gram_length", 1), int_attribute("max_gram_length", 1),
                                      int_attribute("max_skip_count", 0),  ints_attribute("ngram_counts", {0}),
                                      ints_attribute("pool_int64s", {3}),  ints_attribute("ngram_indexes", {most})};
  EXPECT_TRUE(refused({std::to_string(most)}, {node("Split", {"x"}, {"z", "y"})}, memory));
  EXPECT_TRUE(refused({"4"}, {node("TfIdfVectorizer", {"x"}, {"y"}, grams)}, "ngram_indexes must be columns"));
}

// Operators of tensors that have fewer dimensions than they read.
TEST(OnnxFile, TooFewDimensionsAreRefused) {
  for (auto& n :
       {node("BatchNormalization", {"x", "x", "x", "x", "x"}, {"y"}), node("DepthToSpace", {"x"}, {"y"}, {int_attribute("blocksize", 2)}),
        node("LSTM", {"x", "x", "x"}, {"y"}), node("MaxRoiPool", {"x", "x"}, {"y"})}) {
    GraphParts g;
    g.inputs = {value_info("x", {"4"})};
    g.outputs = {value_info("y", {"4"})};
    g.nodes = {n};
    EXPECT_TRUE(refuses([&] { load_model(ModelFolder(g.model(17)).model()); }, "model.onnx"));
  }
}

// What the nodes compute is not what the file says of its outputs: of another dtype it is wrong, and sizes are known to be stated wrongly.
TEST(OnnxFile, DeclaredOutputsAreCompared) {
  std::vector<std::string> said;
  const ScopedOption logs("logs", "dynamic");
  const test::LogScope scope([&](Artifact, std::string_view text) { said.emplace_back(text); });
  GraphParts g = sum_with(int64_tensor("w", {4}, {1, 2, 3, 4}));
  g.nodes = {node("Neg", {"x"}, {"y"})};
  g.outputs = {value_info("y", {"4"}, 7)};
  EXPECT_TRUE(refuses([&] { load_model(ModelFolder(g.model(17)).model()); }, "the output \"y\" is declared as", "compute f32[4]"));
  for (auto& declared : {value_info("y", {"4", "n"}), value_info("y", {"5"})}) {
    said.clear();
    g.outputs = {declared};
    const auto loaded = load_model(ModelFolder(g.model(17)).model());
    EXPECT_EQ(to_string(loaded->outputs[0].value->type), "f32[4]");
    ASSERT_EQ(said.size(), 1U);
    EXPECT_TRUE(test::contains(said[0], "the output \"y\" is declared as") && test::contains(said[0], "compute f32[4]")) << said[0];
  }
  said.clear();
  g.outputs = {value_info("y", {"n"})};
  EXPECT_TRUE(load_model(ModelFolder(g.model(17)).model()));
  EXPECT_TRUE(said.empty());
}

// Graphs within graphs, as deep as a file of a megabyte can hold.
TEST(OnnxFile, DepthIsLimited) {
  Message graph;
  for (int i = 0; i < 200; ++i) {
    Message outer;
    outer.message(1, Message().text(4, "If").message(5, graph_attribute("then_branch", graph)));
    graph = outer;
  }
  ModelFolder folder(Message().number(1, 8).message(7, graph));
  EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "nested more than"));
}

TEST(OnnxFile, TypesThatAreMissingAreNamed) {
  GraphParts g = sum_with(int64_tensor("w", {4}, {1, 2, 3, 4}));
  g.inputs = {value_info("x", {"4"}, 8)};
  ModelFolder folder(g.model(17));
  EXPECT_TRUE(refuses([&] { load_model(folder.model()); }, "the input \"x\" is of type STRING"));
}

}  // namespace
}  // namespace toroid::import::onnx

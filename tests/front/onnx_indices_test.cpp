// Operators with indices: places that count from the end do so once, and what lies beyond is an error that tells the index as it was given.
#include <gtest/gtest.h>

#include <cmath>

#include "errors.h"
#include "graph/interpreter.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"
#include "toroid/model.h"

namespace toroid::import::onnx {
namespace {

struct Indexed {
  const char* op;
  std::vector<int64_t> index_sizes;
  bool scatters;
  const char* reduction;
};

// Of x [3, 3] along its first dimension.
const Indexed kIndexed[] = {
    {"Gather", {1}, false, ""},
    {"GatherElements", {1, 3}, false, ""},
    {"GatherND", {1, 1}, false, ""},
    {"ScatterND", {1, 1}, true, "none"},
    {"ScatterND", {1, 1}, true, "add"},
    {"ScatterND", {1, 1}, true, "mul"},
    {"ScatterND", {1, 1}, true, "max"},
    {"ScatterElements", {1, 3}, true, "none"},
    {"ScatterElements", {1, 3}, true, "add"},
    {"ScatterElements", {1, 3}, true, "min"},
};

GraphParts model_of(const Indexed& row) {
  std::vector<std::string> sizes;
  for (int64_t s : row.index_sizes) sizes.push_back(std::to_string(s));
  GraphParts g;
  g.inputs = {value_info("x", {"3", "3"}), value_info("at", sizes, 7)};
  std::vector<std::string> inputs = {"x", "at"};
  std::vector<Message> attributes;
  if (row.scatters) {
    g.inputs.push_back(value_info("updates", {"1", "3"}));
    inputs.push_back("updates");
    attributes.push_back(Message().text(1, "reduction").text(4, row.reduction).number(20, 3));
  }
  g.outputs = {value_of_any_sizes("y", 1)};
  g.nodes = {node(row.op, inputs, {"y"}, attributes)};
  return g;
}

std::vector<Tensor> inputs_at(const Indexed& row, int64_t place) {
  std::vector<Tensor> out = {Tensor::of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}),
                             Tensor::full(row.index_sizes, static_cast<double>(place), DType::I64)};
  if (row.scatters) out.push_back(Tensor::of({10, 20, 30}, {1, 3}));
  return out;
}

TEST(OnnxIndices, CountFromTheEndOnce) {
  for (const Indexed& row : kIndexed) {
    ModelFolder folder(model_of(row).model(18));
    auto model = Model::load(folder.model().string());
    for (int64_t place : {-1, -3}) {
      const auto from_end = inputs_at(row, place), from_start = inputs_at(row, place + 3);
      const auto want = graph::interpret(*load_model(folder.model()), from_start)[0].to_vector();
      EXPECT_EQ(graph::interpret(*load_model(folder.model()), from_end)[0].to_vector(), want) << row.op << " " << row.reduction;
      EXPECT_EQ(model.run(from_end)[0].to_vector(), want) << row.op << " " << row.reduction << ", compiled";
    }
    for (int64_t place : {-4, -6, 3, 5}) {
      const std::string told = "index " + std::to_string(place) + " is out of range";
      const auto inputs = inputs_at(row, place);
      const std::string interpreted = test::user_error([&] { graph::interpret(*load_model(folder.model()), inputs); });
      EXPECT_TRUE(test::contains(interpreted, told)) << row.op << " " << row.reduction << ": " << interpreted;
      const std::string compiled = test::user_error([&] { model.run(inputs); });
      EXPECT_TRUE(test::contains(compiled, told)) << row.op << " " << row.reduction << ", compiled: " << compiled;
    }
  }
}

// onnxruntime 1.32 and ONNX's reference keep it.
TEST(OnnxIndices, SignOfNoNumberIsNone) {
  GraphParts g;
  g.inputs = {value_info("x", {"4"})};
  g.outputs = {value_info("y", {"4"})};
  g.nodes = {node("Sign", {"x"}, {"y"})};
  ModelFolder folder(g.model(17));
  const Tensor x = Tensor::of({NAN, -2, 0, 3}, {4});
  const auto got = graph::interpret(*load_model(folder.model()), std::span(&x, 1))[0].to_vector();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ((std::vector<double>(got.begin() + 1, got.end())), (std::vector<double>{-1, 0, 1}));
}

}  // namespace
}  // namespace toroid::import::onnx

// Models with open sizes, compiled once and run at several.
#include <gtest/gtest.h>

#include <limits>

#include "errors.h"
#include "graph/interpreter.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid {
namespace {

using namespace import::onnx;

const std::string kFolder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models/open_sizes/";

void expect_equal_results(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  const auto a = got.to_vector(), b = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5) << what << ": " << i;
}

// torch.export with a dynamic width of heads.
TEST(ModelOpenSizes, AttentionTakesEveryWidth) {
  Model model = Model::load(kFolder + "attention_width.pt2");
  for (int64_t width : {6, 4, 9, 64}) {
    const Tensor x = randn({3, 2, 5, width});
    expect_equal_results(model.run({x})[0], scaled_dot_product_attention(x, x, x), std::to_string(width));
  }
}

// x[1::3] * 2 with Dim.AUTO, of an example with 3 rows: PyTorch's program is for 2 to 4.
TEST(ModelOpenSizes, WhatTheExampleFixedIsRequired) {
  Model model = Model::load(kFolder + "auto_slice.pt2");
  for (int64_t rows : {2, 3, 4}) {
    const Tensor x = randn({rows, 5});
    expect_equal_results(model.run({x})[0], slice(x, 0, 1, 2) * 2, std::to_string(rows));
  }
  const std::string said = test::user_error([&] { model.run({randn({7, 5})}); });
  for (const char* part :
       {"mul.Tensor: dimension 0 of \"mul\" is 1", "s77 is dimension 0 of the input \"x\"", "with s77=7", "called at model.py:6"})
    EXPECT_TRUE(test::contains(said, part)) << said;
}

// A flip with a slice behind it, and a resize by one and a half.
TEST(ModelOpenSizes, OnnxSlicesBackwardsAndResizes) {
  GraphParts g;
  g.inputs = {value_info("x", {"n", "w"})};
  g.outputs = {value_info("y", {"n", "k"})};
  Message scales = Message().number(1, 2).number(2, 1).text(8, "scales");
  const float factors[] = {1, 1.5F};
  scales.text(9, std::string(reinterpret_cast<const char*>(factors), sizeof factors));
  g.initializers = {int64_tensor("start", {1}, {-1}),
                    int64_tensor("end", {1}, {std::numeric_limits<int64_t>::min()}),
                    int64_tensor("axis", {1}, {1}),
                    int64_tensor("step", {1}, {-2}),
                    int64_tensor("one", {1}, {1}),
                    int64_tensor("far", {1}, {1000}),
                    scales};
  g.nodes = {node("Slice", {"x", "start", "end", "axis", "step"}, {"turned"}),
             node("Slice", {"turned", "one", "far", "axis", "one"}, {"rest"}),
             node("Resize", {"rest", "", "scales"}, {"y"}, {Message().text(1, "mode").text(4, "linear").number(20, 3)})};
  const ModelFolder folder(g.model(18));
  Model model = Model::load(folder.model().string());
  const auto graph = import::load_model(folder.model());
  for (int64_t width : {3, 4, 5, 9, 20, 33}) {
    const Tensor x = randn({2, width});
    expect_equal_results(model.run({x})[0], graph::interpret(*graph, std::span(&x, 1))[0], std::to_string(width));
  }
}

}  // namespace
}  // namespace toroid

// toroid ops: whether there is an operation, by any of its names.
#include <gtest/gtest.h>

#include "cli/harness.h"
#include "errors.h"
#include "import/json.h"
#include "ops/table.h"

namespace toroid {
namespace {

using namespace test;

template <class F>
void expect_json(const std::string& arguments, int code, F&& use) {
  const Outcome o = toroid_command("ops --json " + arguments);
  ASSERT_EQ(o.code, code) << arguments << "\n" << o.text;
  const auto document = import::JsonDocument::parse(o.text, arguments);
  use(document.root());
}

TEST(Ops, TellsAllOverloads) {
  for (const char* name : {"add", "aten::add", "torch.ops.aten.add", "torch.add"})
    expect_json(name, 0, [](const import::Json& r) {
      EXPECT_TRUE(r.at("found").as_bool());
      ASSERT_EQ(r.at("rows").size(), 2u);
      EXPECT_EQ(r.at("rows")[0].at("schema").as_str(), "add.Tensor(Tensor self, Tensor other, Scalar alpha=1) -> Tensor");
      EXPECT_EQ(r.at("rows")[0].at("kind").as_str(), "formula");
      EXPECT_EQ(r.at("rows")[0].at("in_place").as_str(), "add_.Tensor");
      EXPECT_EQ(r.at("rows")[1].at("kind").as_str(), "composite");
    });
  expect_json("add.Scalar", 0, [](const import::Json& r) { EXPECT_EQ(r.at("rows").size(), 1u); });
  const Outcome o = toroid_command("ops aten::add_.Tensor");
  EXPECT_EQ(o.code, 0);
  EXPECT_TRUE(contains(o.text, "add_.Tensor(Tensor self, Tensor other, Scalar alpha=1) -> Tensor\n    formula;")) << o.text;
}

TEST(Ops, ListsOperatorsOfOnnx) {
  expect_json("--onnx", 0, [](const import::Json& r) { EXPECT_GT(r.at("operators").size(), 200u); });
  expect_json("--onnx Gelu", 0, [](const import::Json& r) { EXPECT_EQ(r.at("operators").size(), 2u); });
  expect_json("--onnx com.microsoft.Gelu", 0, [](const import::Json& r) {
    ASSERT_EQ(r.at("operators").size(), 1u);
    EXPECT_EQ(r.at("operators")[0].at("domain").as_str(), "com.microsoft");
  });
  expect_json("--onnx Softmax", 0, [](const import::Json& r) { EXPECT_EQ(r.at("operators")[0].at("versions").size(), 2u); });
  expect_json("--onnx Gleu", 1, [](const import::Json& r) { EXPECT_EQ(r.at("near")[0].as_str(), "Gelu"); });
  EXPECT_TRUE(contains(toroid_command("ops --onnx Gelu").text, "since version 20 of ai.onnx"));
}

TEST(Ops, TellsWhatGradientsAre) {
  for (auto [name, gradient] : {std::pair{"relu", "formula"},
                                {"eq.Tensor", "none"},
                                {"detach", "none"},
                                {"permute", "view"},
                                {"mm", "rule"},
                                {"mse_loss", "parts"},
                                {"linalg_eig", "none"},
                                {"torchvision::nms", "none"}})
    expect_json(name, 0, [&](const import::Json& r) { EXPECT_EQ(r.at("rows")[0].at("gradient").as_str(), gradient) << name; });
}

TEST(Ops, TellsWhereASlopeIsNotTheFormulas) {
  EXPECT_TRUE(contains(toroid_command("ops fake_quantize_per_tensor_affine").text, "by a slope of its own"));
  EXPECT_TRUE(contains(toroid_command("ops sin").text, "by the derivative of its formula"));
}

TEST(Ops, TakesTheNamespacesOfTorch) {
  for (const char* name : {"torch.special.entr", "special.entr", "linalg.inv", "fft.fft"})
    EXPECT_EQ(toroid_command("ops " + std::string(name)).code, 0) << name;
}

TEST(Ops, TellsWhyNot) {
  expect_json("fold", 1, [](const import::Json& r) {
    EXPECT_FALSE(r.at("found").as_bool());
    EXPECT_EQ(r.at("known").as_str(), "exported programs and the table call it col2im");
    EXPECT_EQ(r.at("near")[0].as_str(), "unfold");
  });
  const Outcome rank = toroid_command("ops torch.linalg.matrix_rank");
  EXPECT_EQ(rank.code, 1);
  EXPECT_TRUE(contains(rank.text, "no: there is no operation \"linalg_matrix_rank\"\ncount the singular values")) << rank.text;
  EXPECT_TRUE(contains(toroid_command("ops _fake_quantize_learnable_per_tensor_affine").text, "before the export: clamp("))
      << "by its family";
  EXPECT_TRUE(contains(toroid_command("ops torchvision::roi_align").text, "composite;"));
  EXPECT_TRUE(contains(toroid_command("ops torchvision::roi_align").text, "not with sampling_ratio 0"));
  EXPECT_TRUE(contains(toroid_command("ops layer_nrom").text, "near it: layer_norm"));
  expect_json("no_such_thing_at_all", 1, [](const import::Json& r) { EXPECT_TRUE(r.at("known").is_null()); });
}

TEST(Ops, ListsAll) {
  size_t all = 0;
  for (const ops::Op& op : ops::table().rows()) all += !op.inplace_of;
  expect_json("", 0, [&](const import::Json& r) { EXPECT_EQ(r.at("rows").size(), all); });
  const Outcome o = toroid_command("ops");
  EXPECT_EQ(static_cast<size_t>(std::count(o.text.begin(), o.text.end(), '\n')), all);
}

}  // namespace
}  // namespace toroid

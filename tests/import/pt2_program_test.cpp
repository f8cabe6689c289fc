#include <gtest/gtest.h>

#include "import/pt2_importer.h"

namespace toroid::import {
namespace {

// y = x + w, where w is held and x lies in memory with the strides given.
std::string program(const std::string& strides) {
  const auto tensor = [](const std::string& s) {
    return R"({"dtype": 7, "layout": 7, "sizes": [{"as_int": 2}, {"as_int": 3}], "strides": [)" + s + "]}";
  };
  const std::string dense = R"({"as_int": 3}, {"as_int": 1})";
  return R"({"schema_version": {"major": 8, "minor": 0}, "range_constraints": {}, "graph_module": {"graph": {
    "inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "w"}}], "outputs": [{"as_tensor": {"name": "y"}}],
    "nodes": [{"target": "torch.ops.aten.add.Tensor", "name": "y", "outputs": [{"as_tensor": {"name": "y"}}], "metadata": {},
               "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "x"}}}, {"name": "other", "arg": {"as_tensor": {"name": "w"}}}]}],
    "tensor_values": {"x": )" +
         tensor(strides) + R"(, "w": )" + tensor(dense) + R"(, "y": )" + tensor(dense) + R"(}}, "signature": {
    "input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
                    {"tensor_constant": {"arg": {"name": "w"}, "tensor_constant_name": "weight"}}],
    "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}}})";
}

std::unique_ptr<graph::Graph> imported(const std::string& strides) {
  return import_program(program(strides), "test", [](const InputSpec& spec) {
    EXPECT_EQ(spec.target, "weight");
    return Tensor::full(std::vector<int64_t>{2, 3}, 1.0);
  });
}

TEST(ImportProgram, InputsLieAsTheProgramStates) {
  const auto graph = imported(R"({"as_int": 1}, {"as_int": 2})");
  ASSERT_EQ(graph->inputs.size(), 2U);
  EXPECT_EQ(graph->inputs[0].value->type.strides, (std::vector<Expr>{1, 2}));
  EXPECT_EQ(graph->inputs[1].kind, graph::InputKind::Constant);
  EXPECT_EQ(graph->inputs[1].data.to_vector(), std::vector<double>(6, 1.0));
}

TEST(ImportProgram, RowMajorInputsHaveNoStrides) {
  EXPECT_TRUE(imported(R"({"as_int": 3}, {"as_int": 1})")->inputs[0].value->type.strides.empty());
}

TEST(ImportProgram, NamesWhatItDoesNotHave) {
  std::string text = program(R"({"as_int": 3}, {"as_int": 1})");
  text.replace(text.find("add.Tensor"), 10, "no_such_op");
  try {
    import_program(text, "a graph", [](const InputSpec&) { return Tensor(); });
    FAIL();
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("a graph: Toroid does not have 1 of the operations"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toroid::import

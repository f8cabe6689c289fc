// ONNX models on the command line, and the list of cases that are known not to pass.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/harness.h"
#include "front/compile_model.h"
#include "import/load_model.h"
#include "import/onnx_builder.h"
#include "import/safetensors.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using namespace import::onnx;
using test::toroid_command;

// y = reshape(x, shape) with x of 6 numbers, in the form of ONNX's own cases. The expected output has `last` at its end.
void write_case(const fs::path& folder, int64_t last) {
  GraphParts g;
  g.inputs = {value_info("x", {"6"}, 7), value_info("shape", {"2"}, 7)};
  g.outputs = {value_info("y", {"2", "3"}, 7)};
  g.nodes = {node("Reshape", {"x", "shape"}, {"y"})};
  fs::create_directories(folder / "test_data_set_0");
  write_file_atomic(folder / "model.onnx", g.model(17).bytes);
  auto write = [&](const char* name, const Message& tensor) { write_file_atomic(folder / "test_data_set_0" / name, tensor.bytes); };
  write("input_0.pb", int64_tensor("x", {6}, {1, 2, 3, 4, 5, 6}));
  write("input_1.pb", int64_tensor("shape", {2}, {2, 3}));
  write("output_0.pb", int64_tensor("y", {2, 3}, {1, 2, 3, 4, 5, last}));
}

class OnnxCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = make_temp_dir();
    write_case(folder_ / "right", 6);
    write_case(folder_ / "wrong", 7);
  }
  void TearDown() override { fs::remove_all(folder_); }
  test::Outcome verify(const std::string& known) {
    write_file_atomic(folder_ / "known.txt", known);
    return toroid_command("verify --backend interpreter --known " + (folder_ / "known.txt").string() + " " + folder_.string());
  }
  fs::path folder_;
};

TEST_F(OnnxCommand, VerifyRunsOnnxCases) {
  auto out = verify("");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("wrong: output 0: at [1, 2] got 6, expected 7"), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("1 passed, 1 failed"), std::string::npos) << out.text;
}

// The layout of exported models, for ONNX files too; beside ONNX's own where there are both.
TEST_F(OnnxCommand, VerifyRunsOnnxFilesBesideSafetensors) {
  const int64_t x[] = {1, 2, 3, 4, 5, 6}, shape[] = {2, 3}, wrong[] = {1, 2, 3, 4, 5, 8};
  const auto write = [&](const fs::path& file, std::vector<import::SafetensorsItem> items) { import::write_safetensors(file, items); };
  const auto bytes = [](auto& values) { return std::as_bytes(std::span(values)); };
  for (const char* name : {"right", "wrong"}) {
    write(folder_ / name / "in.safetensors", {{"000", DType::I64, {6}, bytes(x)}, {"001", DType::I64, {2}, bytes(shape)}});
    write(folder_ / name / "out.safetensors", {{"000", DType::I64, {2, 3}, bytes(wrong)}});
  }
  auto out = verify("");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("1 passed, 3 failed"), std::string::npos) << out.text;
  EXPECT_NE(out.text.find("right/model.onnx: output 0: at [1, 2] got 6, expected 8"), std::string::npos) << out.text;
  fs::remove_all(folder_ / "right" / "test_data_set_0");
  out = verify("");
  EXPECT_NE(out.text.find("0 passed, 3 failed"), std::string::npos) << out.text;
}

TEST_F(OnnxCommand, KnownCasesMayFailButMustNotPass) {
  auto out = verify("# for people\nwrong: the last number is another\n");
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("1 passed, 0 failed, 0 refused, 1 are known not to pass"), std::string::npos) << out.text;
  out = verify("wrong: the last number is another\nright: no reason\n");
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("right: passes, though"), std::string::npos) << out.text;
  out = verify("wrong\n");
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("line 1: expected \"case: reason\""), std::string::npos) << out.text;
}

// A sequence comes as a file of tensors; the program takes and returns one after another.
TEST_F(OnnxCommand, VerifyRunsCasesWithSequences) {
  fs::remove_all(folder_ / "wrong");
  auto sequence = [](const std::string& name) {
    Message element = value_info("", {"2"}, 7);  // the type is its second field
    return Message().text(1, name).message(2, Message().message(4, Message().text(1, element.bytes.substr(4))));
  };
  GraphParts g;
  g.inputs = {sequence("list")};
  g.outputs = {sequence("turned"), value_info("n", {}, 7)};
  g.nodes = {node("SequenceAt", {"list", "first"}, {"a"}), node("SequenceErase", {"list", "first"}, {"rest"}),
             node("SequenceInsert", {"rest", "a"}, {"turned"}), node("SequenceLength", {"turned"}, {"n"})};
  g.initializers = {int64_tensor("first", {}, {0})};
  auto list = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    return Message().number(2, 1).message(3, int64_tensor("", {2}, a)).message(3, int64_tensor("", {2}, b)).bytes;
  };
  fs::path data = folder_ / "lists/test_data_set_0";
  fs::create_directories(data);
  write_file_atomic(folder_ / "lists/model.onnx", g.model(17).bytes);
  write_file_atomic(data / "input_0.pb", list({1, 2}, {3, 4}));
  write_file_atomic(data / "output_0.pb", list({3, 4}, {1, 2}));
  write_file_atomic(data / "output_1.pb", int64_tensor("n", {}, {2}).bytes);
  auto out = verify("");
  EXPECT_EQ(out.code, 0) << out.text;
  write_file_atomic(data / "output_0.pb", list({3, 4}, {1, 9}));
  EXPECT_NE(verify("").text.find("lists: output 1: at [1] got 2, expected 9"), std::string::npos);
}

// Compiled; the second call asks for another shape than the program was made for.
TEST_F(OnnxCommand, RunGivesTheInputsToTheImport) {
  auto bytes = [](const std::vector<int64_t>& v) { return std::as_bytes(std::span(v)); };
  std::vector<int64_t> x = {1, 2, 3, 4, 5, 6}, shape = {2, 3}, other = {3, 2};
  std::string model = (folder_ / "right/model.onnx").string(), file = (folder_ / "in.safetensors").string();
  std::vector<import::SafetensorsItem> items = {{"000", DType::I64, {6}, bytes(x)}, {"001", DType::I64, {2}, bytes(shape)}};
  import::write_safetensors(file, items);
  auto out = toroid_command("run " + model + " --inputs " + file);
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("[2, 3]"), std::string::npos) << out.text;
  items.push_back({"call1.000", DType::I64, {6}, bytes(x)});
  items.push_back({"call1.001", DType::I64, {2}, bytes(other)});
  import::write_safetensors(file, items);
  out = toroid_command("run " + model + " --inputs " + file);
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("\"shape\" has other contents"), std::string::npos) << out.text;
}

// tokens [batch, length, 4] times mask [batch, length], summed over each text: [batch, 4].
Message masked_sum() {
  GraphParts g;
  g.inputs = {value_info("tokens", {"batch", "length", "4"}), value_info("mask", {"batch", "length"})};
  g.outputs = {value_info("y", {"batch", "4"})};
  g.initializers = {int64_tensor("last", {1}, {2}), int64_tensor("second", {1}, {1})};
  g.nodes = {node("Unsqueeze", {"mask", "last"}, {"weights"}), node("Mul", {"tokens", "weights"}, {"masked"}),
             node("ReduceSum", {"masked", "second"}, {"y"}, {int_attribute("keepdims", 0)})};
  return g.model(18);
}

TEST_F(OnnxCommand, OneCompileServesAllSizesWithNames) {
  ModelFolder folder(masked_sum());
  auto model = front::compile_model(import::load_model(folder.model()));
  auto call = [&](int64_t batch, int64_t length, int64_t masks) {
    std::vector<Tensor> in = {Tensor::full(std::vector<int64_t>{batch, length, 4}, 2),
                              Tensor::full(std::vector<int64_t>{masks, length}, 0.5)};
    return model.run(in).at(0);
  };
  for (int64_t batch : {1, 2, 5})
    for (int64_t length : {1, 7, 64}) {
      Tensor y = call(batch, length, batch);
      EXPECT_EQ(y.sizes(), (std::vector<int64_t>{batch, 4}));
      EXPECT_EQ(y.to_vector(), std::vector<double>(static_cast<size_t>(batch * 4), static_cast<double>(length)));
    }
  EXPECT_TRUE(refuses([&] { call(3, 7, 2); }, "(\"mask\"): dimension 0 must be 3 (= batch of an earlier input), it is 2"));
}

// Doubles v until it is 100 or more, at most `limit` times, and stacks what it was before each.
TEST_F(OnnxCommand, LoopsThatEndEarlyStackTheirOutputs) {
  GraphParts body, g;
  body.inputs = {value_info("i", {}, 7), value_info("go", {}, 9), value_info("v", {"2"})};
  body.outputs = {value_info("goes", {}, 9), value_info("w", {"2"}), value_info("v", {"2"})};
  body.nodes = {node("Add", {"v", "v"}, {"w"}), node("ReduceMax", {"w"}, {"m"}, {int_attribute("keepdims", 0)}),
                node("Less", {"m", "hundred"}, {"goes"})};
  g.inputs = {value_info("x", {"2"})};
  g.outputs = {value_info("last", {"2"}), value_info("all", {"n", "2"})};
  g.initializers = {int64_tensor("limit", {}, {6}), int64_tensor("number", {}, {100})};
  g.nodes = {node("Cast", {"number"}, {"hundred"}, {int_attribute("to", 1)}),
             node("Loop", {"limit", "", "x"}, {"last", "all"}, {graph_attribute("body", body.message())})};
  auto model = front::compile_model(import::load_model(ModelFolder(g.model(17)).model()));
  for (auto [start, trips] : {std::pair{1.0, 6}, {20.0, 3}, {90.0, 1}}) {
    auto out = model.run(std::vector<Tensor>{Tensor::full(std::vector<int64_t>{2}, start)});
    std::vector<double> stacked;
    double v = start;
    for (int i = 0; i < trips; ++i, v *= 2) stacked.insert(stacked.end(), 2, v);
    EXPECT_EQ(out.at(0).to_vector(), std::vector<double>(2, v));
    EXPECT_EQ(out.at(1).to_vector(), stacked);
    EXPECT_EQ(out.at(1).sizes(), (std::vector<int64_t>{trips, 2}));
  }
  g.nodes[1] = node("Loop", {"", "", "x"}, {"last", "all"}, {graph_attribute("body", body.message())});
  EXPECT_TRUE(refuses([&] { import::load_model(ModelFolder(g.model(17)).model()); }, "bounds what it stacks"));
}

TEST_F(OnnxCommand, InspectShowsSizesWithNames) {
  ModelFolder folder(masked_sum());
  auto out = toroid_command("inspect " + folder.model().string());
  for (const char* part :
       {"input  tokens: f32[batch, length, 4]", "output 0 (y): f32[batch, 4]", "size   batch >= 1", "size   length >= 1"})
    EXPECT_NE(out.text.find(part), std::string::npos) << part << " is missing in\n" << out.text;
}

// In the order of the model, which is not that of the file; and where sizes follow from an input's contents.
TEST_F(OnnxCommand, RunsOnInputsByName) {
  const std::string tensors = (folder_ / "named.safetensors").string();
  save_tensors(tensors, {{"x", Tensor::of({1, 2, 3, 4, 5, 6}, {6}, DType::I64)}, {"shape", Tensor::of({2, 3}, {2}, DType::I64)}});
  const auto out = toroid_command("run " + (folder_ / "right/model.onnx").string() + " --inputs " + tensors);
  EXPECT_EQ(out.code, 0) << out.text;
  EXPECT_NE(out.text.find("output 0: i64[2, 3] {1, 2, 3"), std::string::npos) << out.text;
}

TEST_F(OnnxCommand, InspectNamesWhatIsMissing) {
  auto out = toroid_command("inspect " + (folder_ / "right/model.onnx").string());
  EXPECT_EQ(out.code, 2);
  EXPECT_NE(out.text.find("\"shape\") must be known when the model is compiled"), std::string::npos) << out.text;
}

}  // namespace
}  // namespace toroid

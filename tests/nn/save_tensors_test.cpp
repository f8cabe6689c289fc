// Tensors written as safetensors files.
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "nn/harness.h"
#include "toroid/model.h"
#include "toroid/weights.h"

namespace toroid::nn {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct WeightsFile {
  fs::path folder = make_temp_dir("toroid-nn-test");
  ~WeightsFile() { fs::remove_all(folder); }
  std::string path() const { return (folder / "w.safetensors").string(); }
};

TEST(SaveTensors, WhatIsReadIsWhatWasWritten) {
  const WeightsFile f;
  const Tensor grid = Tensor::of({1, 2, 3, 4, 5, 6}, {2, 3});
  std::map<std::string, Tensor> tensors{
      {"turned", transpose(grid, 0, 1)}, {"none", zeros({0, 4})}, {"one", Tensor::of({7}, {}, DType::I64)}};
  for (const DType t : {DType::F64, DType::F32, DType::F16, DType::BF16, DType::I32, DType::U8, DType::Bool})
    tensors["as " + std::string(name_of(t))] = to(grid, t);
  save_tensors(f.path(), tensors, {{"format", "pt"}});
  const auto read = load_tensors(f.path());
  EXPECT_EQ(read.size(), tensors.size());
  for (auto& [name, t] : tensors) {
    ASSERT_TRUE(read.count(name)) << name;
    EXPECT_EQ(read.at(name).dtype(), t.dtype()) << name;
    EXPECT_EQ(read.at(name).sizes(), t.sizes()) << name;
    EXPECT_EQ(read.at(name).to_vector(), t.to_vector()) << name;
  }
  EXPECT_NE(read_file(f.path()).find("{\"format\":\"pt\"}"), std::string::npos);
}

TEST(SaveTensors, AnErrorLeavesTheFileBefore) {
  const WeightsFile f;
  save_tensors(f.path(), {{"x", zeros({2})}});
  const std::string before = read_file(f.path());
  EXPECT_TRUE(contains(user_error([&] { save_tensors(f.path(), {{"y", Tensor()}}); }), "the tensor \"y\" is undefined"));
  EXPECT_FALSE(user_error([&] { save_tensors(f.path(), {{"z", zeros({2}, DType::C128)}}); }).empty());
  EXPECT_EQ(read_file(f.path()), before);
  EXPECT_THROW(save_tensors((f.folder / "none/w.safetensors").string(), {{"x", zeros({2})}}), EnvironmentError);
  size_t files = 0;
  for ([[maybe_unused]] auto& e : fs::directory_iterator(f.folder)) ++files;
  EXPECT_EQ(files, 1u);
}

TEST(SaveTensors, AModuleIsWrittenAndRead) {
  const WeightsFile f;
  Sequential a, b, other;
  for (Sequential* s : {&a, &b}) s->add<Linear>(3, 4), s->add<BatchNorm2d>(4);
  other.add<Linear>(3, 5), other.add<BatchNorm2d>(4);
  a.save(f.path());
  b.load(f.path());
  for (auto& [name, t] : a.state()) EXPECT_EQ(b.state().at(name).to_vector(), t.to_vector()) << name;
  const std::string error = user_error([&] { other.load(f.path()); });
  EXPECT_TRUE(contains(error, f.path() + ": load_state: ") && contains(error, "0.weight (given [4, 3], the module has [5, 3])")) << error;
  EXPECT_THROW(a.load((f.folder / "missing.safetensors").string()), Error);
}

}  // namespace
}  // namespace toroid::nn

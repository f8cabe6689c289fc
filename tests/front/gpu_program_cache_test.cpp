// Programs for GPUs on disk.
#include <gtest/gtest.h>

#include "base/options.h"
#include "compile/background.h"
#include "compile/harness.h"
#include "data_models.h"
#include "exec/stored.h"
#include "front/cache_scratch.h"
#include "toroid/compile.h"
#include "toroid/model.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid {
namespace {

using test::bit_difference;
using test::kModels;
using test::Scratch;

#define NEEDS_A_GPU \
  if (cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU"

std::vector<Tensor> moved_to(const Device& device, const std::vector<Tensor>& list) {
  std::vector<Tensor> out;
  for (auto& t : list) out.push_back(t.to(device));
  return out;
}
std::vector<Tensor> on_host(const std::vector<Tensor>& list) { return moved_to(Device::cpu(), list); }

TEST(GpuProgramCache, AModelIsCompiledOnce) {
  NEEDS_A_GPU;
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead, Mode::MaxAutotune})
    for (const char* name : {"digitsnet", "encoder", "tied", "regions", "numbers_from_data"}) {
      const Scratch scratch;
      const auto inputs = moved_to(Device::cuda(), test::inputs_of(name));
      const std::string path = kModels + name + "/core.pt2";
      const ModelOptions options{.device = Device::cuda(), .mode = mode};
      Model first = Model::load(path, options);
      compiler::wait_for_background();
      Model second = Model::load(path, options);
      EXPECT_EQ(scratch.hits(), 1) << name;
      EXPECT_EQ(scratch.kept(), 1) << name;
      for (int call = 0; call < 3; ++call)
        EXPECT_EQ(bit_difference(on_host(first.run(inputs)), on_host(second.run(inputs))), "") << name << ", call " << call;
      EXPECT_EQ(second.summary().kernels_compiled, 0u);
    }
}

TEST(GpuProgramCache, FunctionsRunOnTheTensorsThatTheyCapture) {
  NEEDS_A_GPU;
  const Scratch scratch;
  const Device gpu = Device::cuda();
  Tensor w = Tensor::full(std::vector<int64_t>{3}, 2).to(gpu), count = Tensor::full(std::vector<int64_t>{3}, 0).to(gpu);
  const auto fn = [&](const Tensor& x) {
    add_(count, x);
    return x * w + 1;
  };
  const Tensor x = Tensor::full(std::vector<int64_t>{3}, 5).to(gpu);
  const auto numbers = [](const Tensor& t) { return t.to(Device::cpu()).to_vector(); };
  const CompileConfig config{.mode = Mode::ReduceOverhead};
  EXPECT_EQ(numbers(compile(fn, config)(x)), std::vector<double>(3, 11));
  EXPECT_EQ(scratch.hits(), 0);
  auto again = compile(fn, config);
  EXPECT_EQ(numbers(again(x)), std::vector<double>(3, 11));
  EXPECT_EQ(scratch.hits(), 1);
  EXPECT_EQ(numbers(count), std::vector<double>(3, 10)) << "what it writes to is the tensor, not what was stored";
  fill_(w, 3);
  EXPECT_EQ(numbers(again(x)), std::vector<double>(3, 16));
  w = Tensor::full(std::vector<int64_t>{3}, 4).to(gpu);
  EXPECT_EQ(numbers(again(x)), std::vector<double>(3, 21));
}

TEST(GpuProgramCache, FrozenElementsAndTensorsOfTheHostDecide) {
  NEEDS_A_GPU;
  const Scratch scratch;
  const Device gpu = Device::cuda();
  const Tensor w = Tensor::full(std::vector<int64_t>{64, 64}, 2).to(gpu), x = Tensor::full(std::vector<int64_t>{2, 64}, 1).to(gpu);
  const Tensor of_host = Tensor::full(std::vector<int64_t>{64}, 1);
  const auto fn = [&](const Tensor& t) { return matmul(t, w) + of_host.to(gpu); };
  const CompileConfig frozen{.options = {{"freezing", "1"}}};
  const auto first = [](const Tensor& t) { return t.to(Device::cpu()).to_vector()[0]; };
  for (const double value : {2.0, 2.0, 3.0}) {
    fill_(w, value);
    EXPECT_EQ(first(compile(fn, frozen)(x)), 64 * value + 1);
  }
  EXPECT_EQ(scratch.hits(), 1);
  fill_(of_host, 5);
  EXPECT_EQ(first(compile(fn, frozen)(x)), 64 * 3 + 5);
}

TEST(GpuProgramCache, DynamicSizesAndRandomNumbersComeBack) {
  NEEDS_A_GPU;
  const Scratch scratch;
  const Tensor w = Tensor::full(std::vector<int64_t>{32, 32}, 0.125).to(Device::cuda());
  const auto fn = [&](const Tensor& x) { return matmul(dropout(x, 0.25, true), w); };
  std::vector<std::vector<Tensor>> results;
  for (int run = 0; run < 2; ++run) {
    manual_seed(7);
    auto f = compile(fn, {.dynamic = true});
    auto& all = results.emplace_back();
    for (const int64_t rows : {5, 90, 9})
      all.push_back(f(Tensor::full(std::vector<int64_t>{rows, 32}, 1).to(Device::cuda())).to(Device::cpu()));
    EXPECT_EQ(f.report().compiles, 1);
  }
  EXPECT_EQ(scratch.hits(), 1);
  EXPECT_EQ(bit_difference(results[0], results[1]), "");
}

}  // namespace
}  // namespace toroid

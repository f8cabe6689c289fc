// Collectives between GPUs beside other work of a program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "device/cuda/gpu.h"
#include "dist/group.h"
#include "dist/random_program.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using namespace distributed;

// Own kernels for f32; NCCL for broadcast, and for all of f64.
TEST(GpuOverlap, ChangesNoBits) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "two GPUs are needed, there are " << cuda_device_count();
  for (unsigned seed = 0; seed < 48; ++seed)
    run_local(2, [seed] { test::expect_equal_bits(seed, 1024, seed % 4 < 3 ? DType::F32 : DType::F64, Device::cuda(rank())); });
}

// What each rank gives, step after step, to the others, beside the next step: `work` is what a step does.
struct Steps {
  const char* name;
  Tensor (*work)(const Tensor& y, const Tensor& w);
  double most_by_nccl;  // of the time of one after the other
  bool only_recorded;   // NCCL's collectives run beside it in recordings alone
};
const Steps kSteps[] = {
    // Its kernels leave room on multiprocessors, and want memory of the own GPU alone.
    {"loops", [](const Tensor& y, const Tensor&) { return softmax(softmax(softmax(softmax(y, 1), 0), 1) * 0.5, 0); }, 0.95, false},
    // Tiles of products hold all multiprocessors until they are done: little is won, and nothing risked where calls are not recorded.
    {"products", [](const Tensor& y, const Tensor& w) { return matmul(y, w); }, 1.03, true}};

TEST(GpuOverlap, CollectivesRunBesideWork) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "two GPUs are needed, there are " << cuda_device_count();
  for (auto& steps : kSteps)
    for (const bool by_nccl : {false, true})
      for (const Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
        const bool is_one_program = by_nccl && steps.only_recorded && mode == Mode::Default;
        run_local(2, [&] {
          const Device own = Device::cuda(rank());
          constexpr int64_t kSide = 4096;
          const Tensor x = Tensor::full({kSide, kSide}, 0.25, DType::BF16).to(own),
                       w = Tensor::full({kSide, kSide}, 1.0 / kSide, DType::BF16).to(own);
          const auto all = [&](const Tensor& a, const Tensor& b) {
            std::vector<Tensor> out;
            Tensor y = a;
            for (int i = 0; i < 8; ++i) {
              y = steps.work(y, b);
              out.push_back(by_nccl ? all_to_all(y, {kSide / 2, kSide / 2}, {kSide / 2, kSide / 2}) : all_reduce(y));
            }
            return out;
          };
          auto beside = compile(all, test::config_of(mode, true)), apart = compile(all, test::config_of(mode, false));
          const auto ms_of = [&](auto& fn) {
            barrier();
            return device::cuda::gpu(rank()).time_ms([&] { fn(x, w); });
          };
          for (int i = 0; i < 5; ++i) beside(x, w), apart(x, w);
          std::vector<double> ms[2];
          for (int i = 0; i < 15; ++i) ms[0].push_back(ms_of(beside)), ms[1].push_back(ms_of(apart));
          for (auto& m : ms) std::sort(m.begin(), m.end());
          const double ratio = ms[0][7] / ms[1][7];
          if (rank() == 0)
            std::printf("%s, %s, %s: %.3f ms beside, %.3f ms apart (%.2f)\n", steps.name, by_nccl ? "NCCL" : "own kernels",
                        std::string(name_of(mode)).c_str(), ms[0][7], ms[1][7], ratio);
          constexpr double kMostOfOwn = 1.05;  // own kernels take as many multiprocessors as make them fast alone
          if (!is_one_program) {
            EXPECT_LT(ratio, by_nccl ? steps.most_by_nccl : kMostOfOwn);
          }
          EXPECT_TRUE(test::bits_of(beside(x, w)[7]) == test::bits_of(apart(x, w)[7]));
        });
      }
}

}  // namespace
}  // namespace toroid

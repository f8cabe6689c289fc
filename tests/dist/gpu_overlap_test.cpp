// Collectives between GPUs beside other work of a program.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

std::string bits_of(const Tensor& t) {
  const Tensor dense = t.to(Device::cpu()).contiguous();
  return std::string(reinterpret_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.numel()) * size_of(dense.dtype()));
}

// Own kernels for f32; NCCL for broadcast, and for all of f64.
TEST(GpuOverlap, ChangesNoBits) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "two GPUs are needed, there are " << cuda_device_count();
  for (unsigned seed = 0; seed < 48; ++seed)
    run_local(2, [seed] {
      constexpr int64_t kSide = 1024;
      const DType t = seed % 4 < 3 ? DType::F32 : DType::F64;
      const auto brought = [&](int64_t shift) {
        Tensor x = Tensor::empty({kSide, kSide}, DType::F32);
        for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>((i * 7 + shift + rank() * 5) % 23 - 11) / 16;
        return to(x, t).to(Device::cuda(rank()));
      };
      const auto fn = [&](const Tensor& x, const Tensor& w) { return test::random_program(seed, x, w); };
      const Mode mode = seed % 2 ? Mode::ReduceOverhead : Mode::Default;
      auto beside = compile(fn, test::config_of(mode, true)), apart = compile(fn, test::config_of(mode, false));
      for (int64_t round = 0; round < 4; ++round) {
        const Tensor x = brought(round), w = brought(100);
        const auto want = apart(x, w), found = beside(x, w);
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_TRUE(bits_of(want[i]) == bits_of(found[i]))
              << "seed " << seed << ", round " << round << ", result " << i << ", rank " << rank();
      }
    });
}

// What each rank gives, step after step, to the others, beside the next step: `work` is what a step does.
struct Steps {
  const char* name;
  Tensor (*work)(const Tensor& y, const Tensor& w);
  double most_by_nccl;  // of the time of one after the other
};
const Steps kSteps[] = {
    // Its kernels leave room on multiprocessors, and want memory of the own GPU alone.
    {"loops", [](const Tensor& y, const Tensor&) { return softmax(softmax(softmax(softmax(y, 1), 0), 1) * 0.5, 0); }, 0.95},
    // Tiles of products hold all multiprocessors until they are done: little is won.
    {"products", [](const Tensor& y, const Tensor& w) { return matmul(y, w); }, 1.06}};

TEST(GpuOverlap, CollectivesRunBesideWork) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "two GPUs are needed, there are " << cuda_device_count();
  for (auto& steps : kSteps)
    for (const bool by_nccl : {false, true})
      for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
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
          EXPECT_LT(ratio, by_nccl ? steps.most_by_nccl : kMostOfOwn);
          EXPECT_TRUE(bits_of(beside(x, w)[7]) == bits_of(apart(x, w)[7]));
        });
}

}  // namespace
}  // namespace toroid

// cuDNN behind the signature of library calls, where there is a GPU and the library.
#include "extern/cudnn/cudnn.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/scalar.h"
#include "toroid/device.h"
#include "toroid/error.h"

namespace toroid::external {
namespace {

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    try {
      cudnn_version();
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }

  static CudnnProblem problem(DType t, int64_t channels, int64_t out, int64_t size, int64_t kernel, int64_t groups = 1) {
    CudnnProblem p;
    p.dtype = t;
    p.n = 2, p.in_channels = channels, p.out_channels = out, p.groups = groups;
    p.window.size[0] = kernel, p.window.size[1] = kernel;
    p.window.pad[0] = p.window.pad[1] = kernel / 2;
    p.in_h = size, p.in_w = size + 2;
    return with_result(p);
  }

  static CudnnProblem with_result(CudnnProblem p) {
    const auto points = [&](int64_t in, int d) {
      return (in + 2 * p.window.pad[d] - p.window.dilation[d] * (p.window.size[d] - 1) - 1) / p.window.stride[d] + 1;
    };
    p.out_h = points(p.in_h, 0), p.out_w = points(p.in_w, 1);
    return p;
  }

  // Runs every algorithm on small whole numbers, whose sums are exact, recorded and replayed where asked; how many elements are wrong.
  static int64_t wrong(const CudnnProblem& p, bool recorded) {
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    const auto calls = prepare_cudnn(p, gpu, 3);
    EXPECT_FALSE(calls.empty());
    const int64_t ic = p.in_channels / p.groups, oc = p.out_channels / p.groups, kh = p.window.size[0], kw = p.window.size[1];
    const int64_t results = p.n * p.out_h * p.out_w * p.out_channels;
    const int64_t numel[] = {p.n * p.in_h * p.in_w * p.in_channels, p.out_channels * kh * kw * ic, results, p.out_channels, results};
    std::vector<std::vector<std::byte>> host;
    std::vector<std::shared_ptr<void>> memory;
    for (int b = 0; b < 5; ++b) {
      host.emplace_back(static_cast<size_t>(numel[b]) * size_of(p.dtype));
      for (int64_t i = 0; i < numel[b]; ++i)
        store_number(host.back().data() + static_cast<size_t>(i) * size_of(p.dtype), p.dtype,
                     Number::of(static_cast<double>((i * 7 + i / 5 + b) % 3 - 1)));
      memory.push_back(gpu.allocate(host.back().size()));
      gpu.copy_in(memory.back().get(), host.back().data(), host.back().size());
    }
    const auto at = [&](size_t b, int64_t i) {
      return load_number(host[b].data() + static_cast<size_t>(i) * size_of(p.dtype), p.dtype).as_double();
    };
    std::vector<double> want(static_cast<size_t>(results));
    for (int64_t i = 0; i < results; ++i) {
      const int64_t o = i % p.out_channels, x = i / p.out_channels % p.out_w, y = i / p.out_channels / p.out_w % p.out_h,
                    n = i / p.out_channels / p.out_w / p.out_h;
      double sum = (p.has_bias ? at(3, o) : 0) + (p.has_addend ? at(4, i) : 0);
      for (int64_t k = 0; k < kh * kw * ic; ++k) {
        const int64_t c = k % ic, dx = k / ic % kw, dy = k / ic / kw;
        const int64_t row = y * p.window.stride[0] - p.window.pad[0] + dy * p.window.dilation[0],
                      column = x * p.window.stride[1] - p.window.pad[1] + dx * p.window.dilation[1];
        if (row < 0 || row >= p.in_h || column < 0 || column >= p.in_w) continue;
        sum += at(0, ((n * p.in_h + row) * p.in_w + column) * p.in_channels + o / oc * ic + c) * at(1, o * kh * kw * ic + k);
      }
      want[static_cast<size_t>(i)] = p.relu ? std::max(sum, 0.0) : sum;
    }
    int64_t bad = 0;
    for (auto& call : calls) {
      std::vector<void*> buffers = {memory[0].get(), memory[1].get(), memory[2].get(), memory[3].get(), memory[4].get()};
      gpu.fill_zero(memory[2].get(), host[2].size());
      const auto scratch = gpu.allocate(static_cast<size_t>(call->scratch_bytes()) + 1);
      const auto run = [&] { call->run(buffers.data(), scratch.get()); };
      if (recorded)
        gpu.launch(*gpu.record(run));
      else
        run();
      gpu.copy_out(host[2].data(), memory[2].get(), host[2].size());
      for (int64_t i = 0; i < results; ++i) bad += at(2, i) != want[static_cast<size_t>(i)];
    }
    return bad;
  }
};

TEST_F(Cudnn, TypesAndRecordings) {
  for (DType t : {DType::F16, DType::BF16, DType::F32})
    for (bool recorded : {false, true}) EXPECT_EQ(wrong(problem(t, 16, 24, 9, 3), recorded), 0) << name_of(t) << recorded;
}

TEST_F(Cudnn, WindowsAndGroups) {
  for (DType t : {DType::F16, DType::F32}) {
    EXPECT_EQ(wrong(problem(t, 32, 16, 7, 1), false), 0) << name_of(t);
    EXPECT_EQ(wrong(problem(t, 32, 32, 8, 3, 4), false), 0) << name_of(t);
    EXPECT_EQ(wrong(problem(t, 16, 16, 8, 3, 16), false), 0) << name_of(t);
    CudnnProblem p = problem(t, 8, 16, 12, 3);
    p.window.stride[0] = 2, p.window.dilation[1] = 2, p.window.pad[1] = 2;
    EXPECT_EQ(wrong(with_result(p), false), 0) << name_of(t);
  }
}

TEST_F(Cudnn, Epilogues) {
  for (DType t : {DType::F16, DType::BF16, DType::F32})
    for (bool addend : {false, true})
      for (bool relu : {false, true}) {
        CudnnProblem p = problem(t, 16, 32, 6, 3);
        p.has_bias = true, p.has_addend = addend, p.relu = relu;
        EXPECT_EQ(wrong(p, relu), 0) << name_of(t) << addend << relu;
      }
}

}  // namespace
}  // namespace toroid::external

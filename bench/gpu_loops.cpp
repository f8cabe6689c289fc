// Memory-bound loops on a GPU: what share of the bandwidth that a copy reaches the generated kernels reach.
//   bench_gpu_loops [--source]     one line a loop: median microseconds, GB/s, share of the copy's
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "codegen/cuda/kernel.h"
#include "device/cuda/gpu.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"

using namespace toroid;

namespace {

struct Row {
  const char* name;
  const char* loop;  // %0.. inputs and outputs; see `numel`
  std::vector<std::pair<DType, int64_t>> buffers;
};

constexpr int64_t kRows = 8192, kColumns = 8192, kAll = kRows * kColumns, kTokens = 4096, kVocabulary = 128256;

const std::vector<Row> kLoops = {
    {"relu(x + bias)",
     R"(loop (i0: 8192, i1: 8192) {
  v0: bf16 = load %0 [i0*8192 + i1]
  v1: f32 = Cast v0
  v2: bf16 = load %1 [i1]
  v3: f32 = Cast v2
  v4: f32 = Add v1 v3
  v5: f32 = const 0
  v6: f32 = Max v4 v5
  v7: bf16 = Cast v6
  store %2 [i0*8192 + i1] v7
})",
     {{DType::BF16, kAll}, {DType::BF16, kColumns}, {DType::BF16, kAll}}},
    {"gelu",
     R"(loop (i0: 67108864) {
  v0: bf16 = load %0 [i0]
  v1: f32 = Cast v0
  v2: f32 = const 0.70710678118654752
  v3: f32 = Mul v1 v2
  v4: f32 = Erf v3
  v5: f32 = const 1
  v6: f32 = Add v4 v5
  v7: f32 = const 0.5
  v8: f32 = Mul v1 v7
  v9: f32 = Mul v8 v6
  v10: bf16 = Cast v9
  store %1 [i0] v10
})",
     {{DType::BF16, kAll}, {DType::BF16, kAll}}},
    {"softmax",
     R"(loop (i0: 8192, r r0: 8192) {
  v0: bf16 = load %0 [i0*8192 + r0]
  v1: f32 = Cast v0
  v2: f32 = reduce max v1
  v3: f32 = Sub v1 v2
  v4: f32 = Exp v3
  v5: f32 = reduce sum v4
  v6: f32 = Div v4 v5
  v7: bf16 = Cast v6
  store %1 [i0*8192 + r0] v7
})",
     {{DType::BF16, kAll}, {DType::BF16, kAll}}},
    {"layer_norm",
     R"(loop (i0: 8192, r r0: 8192) {
  v0: bf16 = load %0 [i0*8192 + r0]
  v1: f32 = Cast v0
  v2: f32 = reduce sum v1
  v3: f32 = const 0.0001220703125
  v4: f32 = Mul v2 v3
  v5: f32 = Sub v1 v4
  v6: f32 = Mul v5 v5
  v7: f32 = reduce sum v6
  v8: f32 = Mul v7 v3
  v9: f32 = const 1e-5
  v10: f32 = Add v8 v9
  v11: f32 = Rsqrt v10
  v12: f32 = Mul v5 v11
  v13: bf16 = load %1 [r0]
  v14: f32 = Cast v13
  v15: f32 = Mul v12 v14
  v16: bf16 = load %2 [r0]
  v17: f32 = Cast v16
  v18: f32 = Add v15 v17
  v19: bf16 = Cast v18
  store %3 [i0*8192 + r0] v19
})",
     {{DType::BF16, kAll}, {DType::BF16, kColumns}, {DType::BF16, kColumns}, {DType::BF16, kAll}}},
    {"rms_norm(x + residual)",
     R"(loop (i0: 8192, r r0: 8192) {
  v0: bf16 = load %0 [i0*8192 + r0]
  v1: f32 = Cast v0
  v2: bf16 = load %1 [i0*8192 + r0]
  v3: f32 = Cast v2
  v4: f32 = Add v1 v3
  v5: bf16 = Cast v4
  store %4 [i0*8192 + r0] v5
  v7: f32 = Cast v5
  v8: f32 = Mul v7 v7
  v9: f32 = reduce sum v8
  v10: f32 = const 0.0001220703125
  v11: f32 = Mul v9 v10
  v12: f32 = const 1e-5
  v13: f32 = Add v11 v12
  v14: f32 = Rsqrt v13
  v15: f32 = Mul v7 v14
  v16: bf16 = load %2 [r0]
  v17: f32 = Cast v16
  v18: f32 = Mul v15 v17
  v19: bf16 = Cast v18
  store %3 [i0*8192 + r0] v19
})",
     {{DType::BF16, kAll}, {DType::BF16, kAll}, {DType::BF16, kColumns}, {DType::BF16, kAll}, {DType::BF16, kAll}}},
    {"cross_entropy",
     R"(loop (i0: 4096, r r0: 128256) {
  v0: bf16 = load %0 [i0*128256 + r0]
  v1: f32 = Cast v0
  v2: f32 = reduce max v1
  v3: f32 = Sub v1 v2
  v4: f32 = Exp v3
  v5: f32 = reduce sum v4
  v6: f32 = Log v5
  v7: f32 = Add v6 v2
  v8: i64 = load %1 [i0]
  v9: bf16 = load %0 [i0*128256 + v8]
  v10: f32 = Cast v9
  v11: f32 = Sub v7 v10
  store %2 [i0] v11
})",
     {{DType::BF16, kTokens* kVocabulary}, {DType::I64, kTokens}, {DType::F32, kTokens}}},
    {"sum of columns",
     R"(loop (i0: 8192, r r0: 8192) {
  v0: bf16 = load %0 [i0 + r0*8192]
  v1: f32 = Cast v0
  v2: f32 = reduce sum v1
  store %1 [i0] v2
})",
     {{DType::BF16, kAll}, {DType::F32, kColumns}}},
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

int run(bool show_source) {
  if (cuda_device_count() == 0) {
    fmt::print("no GPU here: nothing measured\n");
    return 0;
  }
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  constexpr int kRounds = 30, kSets = 3;  // sets of buffers in turn, so that nothing is found in the cache
  auto time_us = [&](const std::function<void(int)>& launch) {
    std::vector<double> times;
    for (int i = 0; i < 5 + kRounds; ++i) {
      const double us = 1000 * gpu.time_ms([&] { launch(i % kSets); });
      if (i >= 5) times.push_back(us);
    }
    return median(times);
  };
  const size_t copied = size_t{1} << 30;
  std::shared_ptr<void> from = gpu.allocate(copied), to = gpu.allocate(copied);
  const double copy = 2e-3 * static_cast<double>(copied) / time_us([&](int) { gpu.copy_within(to.get(), from.get(), copied); });
  fmt::print("{}: a copy moves {:.0f} GB/s\n", gpu.info().name, copy);
  from = to = nullptr;
  for (const Row& row : kLoops) {
    const loop::Nest nest = loop::parse(row.loop);
    const codegen::KernelText kernel = codegen::generate_cuda_loop(nest.domain, nest.body);
    if (show_source) fmt::print("{}\n{}\n", kernel.plan, kernel.source.substr(kernel.source.find("\nextern")));
    const device::cuda::Kernel code = gpu.load(jit::nvrtc_compile(kernel.source, gpu.info().architecture, kernel.name), kernel.name);
    std::vector<std::vector<std::shared_ptr<void>>> sets;
    double bytes = 0;
    for (int s = 0; s < kSets; ++s) {
      sets.emplace_back();
      for (size_t b = 0; b < row.buffers.size(); ++b) {
        auto [dtype, numel] = row.buffers[b];
        const size_t size = static_cast<size_t>(numel) * size_of(dtype);
        sets.back().push_back(gpu.allocate(size));
        std::vector<uint16_t> noise(size / 2);
        uint32_t state = static_cast<uint32_t>(b + 17 * static_cast<size_t>(s)) + 1;
        for (auto& n : noise) n = static_cast<uint16_t>(0x3f00 | ((state = state * 1664525u + 1013904223u) >> 16 & 0x80ff));
        if (dtype == DType::I64) std::fill(noise.begin(), noise.end(), 0);
        gpu.copy_in(sets.back().back().get(), noise.data(), size);
        if (s == 0) bytes += static_cast<double>(size);
      }
    }
    const double us = time_us([&](int s) {
      std::vector<void*> addresses, arguments;
      for (int b : kernel.buffers) addresses.push_back(sets[static_cast<size_t>(s)][static_cast<size_t>(b)].get());
      for (void*& a : addresses) arguments.push_back(&a);
      gpu.launch(code, {.blocks = kernel.tasks.constant(), .threads = kernel.block}, arguments);
    });
    const double rate = 1e-3 * bytes / us;
    fmt::print("{:<24} {:>9.1f} us {:>7.0f} GB/s {:>6.1f} %\n", row.name, us, rate, 100 * rate / copy);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::strcmp(argv[1], "--source") == 0);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

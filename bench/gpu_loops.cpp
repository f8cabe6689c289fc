// Memory-bound loops on a GPU: what share of the bandwidth that a copy reaches the generated kernels reach.
// Kernels are timed in a chain, one after another in a replayed graph, as programs run them; a launch alone takes microseconds more.
//   bench_gpu_loops [--source] [NAME...]     one line a loop: microseconds of one, GB/s, share of the copy's
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
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
  std::string loop;  // %0.. inputs and outputs, which the buffers tell of
  std::vector<std::pair<DType, int64_t>> buffers;
  std::set<int> constants = {};  // buffers that hold weights
};

constexpr int64_t kRows = 8192, kColumns = 8192, kAll = kRows * kColumns, kTokens = 4096, kVocabulary = 128256;

std::string relu_of_bias(int64_t rows, int64_t columns) {
  return fmt::format(R"(loop (i0: {0}, i1: {1}) {{
  v0: bf16 = load %0 [i0*{1} + i1]
  v1: f32 = Cast v0
  v2: bf16 = load %1 [i1]
  v3: f32 = Cast v2
  v4: f32 = Add v1 v3
  v5: f32 = const 0
  v6: f32 = Max v4 v5
  v7: bf16 = Cast v6
  store %2 [i0*{1} + i1] v7
}})",
                     rows, columns);
}

// Softmax of rows.
std::string softmax(int64_t rows, int64_t n) {
  return fmt::format(R"(loop (i0: {0}, r r0: {1}) {{
  v0: bf16 = load %0 [i0*{1} + r0]
  v1: f32 = Cast v0
  v2: f32 = reduce max v1
  v3: f32 = Sub v1 v2
  v4: f32 = Exp v3
  v5: f32 = reduce sum v4
  v6: f32 = Div v4 v5
  v7: bf16 = Cast v6
  store %1 [i0*{1} + r0] v7
}})",
                     rows, n);
}

std::string cross_entropy(int64_t rows, int64_t n) {
  return fmt::format(R"(loop (i0: {0}, r r0: {1}) {{
  v0: bf16 = load %0 [i0*{1} + r0]
  v1: f32 = Cast v0
  v2: f32 = reduce max v1
  v3: f32 = Sub v1 v2
  v4: f32 = Exp v3
  v5: f32 = reduce sum v4
  v6: f32 = Log v5
  v7: f32 = Add v6 v2
  v8: i64 = load %1 [i0]
  v9: bf16 = load %0 [i0*{1} + v8]
  v10: f32 = Cast v9
  v11: f32 = Sub v7 v10
  store %2 [i0] v11
}})",
                     rows, n);
}

// Sums over rows of a matrix [rows, columns].
std::string column_sums(int64_t rows, int64_t columns) {
  return fmt::format(
      "loop (i0: {1}, r r0: {0}) {{\n v0: bf16 = load %0 [i0 + r0*{1}]\n v1: f32 = Cast v0\n v2: f32 = reduce sum v1\n "
      "store %1 [i0] v2\n}}",
      rows, columns);
}

const std::vector<Row> kLoops = {
    {"relu(x + bias)", relu_of_bias(kRows, kColumns), {{DType::BF16, kAll}, {DType::BF16, kColumns}, {DType::BF16, kAll}}},
    {"relu(x + bias) of 30522",
     relu_of_bias(2048, 30522),
     {{DType::BF16, 2048 * 30522}, {DType::BF16, 30522}, {DType::BF16, 2048 * 30522}}},
    {"relu(x + bias) of 50257",
     relu_of_bias(1024, 50257),
     {{DType::BF16, 1024 * 50257}, {DType::BF16, 50257}, {DType::BF16, 1024 * 50257}}},
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
    {"softmax", softmax(kRows, kColumns), {{DType::BF16, kAll}, {DType::BF16, kAll}}},
    {"softmax of 8191", softmax(kRows, 8191), {{DType::BF16, kRows * 8191}, {DType::BF16, kRows * 8191}}},
    {"softmax of 131072", softmax(512, 131072), {{DType::BF16, kAll}, {DType::BF16, kAll}}},
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
     cross_entropy(kTokens, kVocabulary),
     {{DType::BF16, kTokens* kVocabulary}, {DType::I64, kTokens}, {DType::F32, kTokens}}},
    {"cross_entropy of 50257",
     cross_entropy(kTokens, 50257),
     {{DType::BF16, kTokens * 50257}, {DType::I64, kTokens}, {DType::F32, kTokens}}},
    {"cross_entropy, 64 rows", cross_entropy(64, kVocabulary * 8), {{DType::BF16, 512 * kVocabulary}, {DType::I64, 64}, {DType::F32, 64}}},
    {"sum of columns", column_sums(kRows, kColumns), {{DType::BF16, kAll}, {DType::F32, kColumns}}},
    {"sum of 64 columns", column_sums(kAll / 64, 64), {{DType::BF16, kAll}, {DType::F32, 64}}},
    {"sum of 1000 columns", column_sums(kAll / 1000, 1000), {{DType::BF16, kAll / 1000 * 1000}, {DType::F32, 1000}}},
    {"sum of all",
     "loop (r r0: 67108864) {\n v0: bf16 = load %0 [r0]\n v1: f32 = Cast v0\n v2: f32 = reduce sum v1\n store %1 [0] v2\n}",
     {{DType::BF16, kAll}, {DType::F32, 1}}},
    {"transpose",
     "loop (i0: 8192, i1: 8192) {\n v0: bf16 = load %0 [i1*8192 + i0]\n store %1 [i0*8192 + i1] v0\n}",
     {{DType::BF16, kAll}, {DType::BF16, kAll}}},
    {"rope",
     R"(loop (i0: 32, i1: 4096, i2: 2, i3: 64) {
  v0: bf16 = load %0 [128*i0 + 4096*i1 + 64*i2 + i3]
  v1: f32 = Cast v0
  v2: bf16 = load %1 [128*i1 + 64*i2 + i3]
  v3: f32 = Cast v2
  v4: f32 = Mul v1 v3
  v5: bf16 = load %0 [128*i0 + 4096*i1 - 64*i2 + i3 + 64]
  v6: f32 = Cast v5
  v7: bf16 = load %2 [128*i1 + 64*i2 + i3]
  v8: f32 = Cast v7
  v9: f32 = Mul v6 v8
  v10: f32 = Add v4 v9
  v11: bf16 = Cast v10
  store %3 [128*i0 + 4096*i1 + 64*i2 + i3] v11
})",
     {{DType::BF16, 4096 * 4096}, {DType::BF16, 4096 * 128}, {DType::BF16, 4096 * 128}, {DType::BF16, 4096 * 4096}}},
    {"layer_norm of 128 x 768",
     R"(loop (i0: 128, r r0: 768) {
  v0: f16 = load %0 [768*i0 + r0]
  v1: f32 = Cast v0
  v2: f16 = load %1 [r0]
  v3: f32 = Cast v2
  v4: f32 = Add v1 v3
  v5: f16 = load %2 [768*i0 + r0]
  v6: f32 = Cast v5
  v7: f32 = Add v4 v6
  v8: f32 = reduce sum v7
  v9: f32 = const 768
  v10: f32 = Div v8 v9
  v11: f32 = Sub v7 v10
  v12: f32 = Mul v11 v11
  v13: f32 = reduce sum v12
  v14: f32 = Div v13 v9
  v15: f32 = const 9.999999960041972e-13
  v16: f32 = Add v14 v15
  v17: f32 = Rsqrt v16
  v18: f32 = Mul v11 v17
  v19: f16 = load %3 [r0]
  v20: f32 = Cast v19
  v21: f32 = Mul v18 v20
  v22: f16 = load %4 [r0]
  v23: f32 = Cast v22
  v24: f32 = Add v21 v23
  v25: f16 = Cast v24
  store %5 [768*i0 + r0] v25
})",
     {{DType::F16, 128 * 768}, {DType::F16, 768}, {DType::F16, 128 * 768}, {DType::F16, 768}, {DType::F16, 768}, {DType::F16, 128 * 768}},
     {1, 3, 4}},
    {"embedding and norm",
     R"(loop (i0: 1024, r r0: 4096) {
  v0: i64 = load %0 [i0]
  v1: bf16 = load %1 [r0 + 4096*v0]
  v2: f32 = Cast v1
  v3: f32 = Mul v2 v2
  v4: f32 = reduce sum v3
  v5: f32 = const 0.000244140625
  v6: f32 = Mul v4 v5
  v7: f32 = Rsqrt v6
  v8: f32 = Mul v2 v7
  v9: bf16 = load %2 [r0]
  v10: f32 = Cast v9
  v11: f32 = Mul v8 v10
  v12: bf16 = Cast v11
  store %3 [4096*i0 + r0] v12
})",
     {{DType::I64, 1024}, {DType::BF16, 1024 * 4096}, {DType::BF16, 4096}, {DType::BF16, 1024 * 4096}},
     {1, 2}},
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// A compiled loop, with sets of buffers that are used in turn, so that nothing is found in the cache.
class Bench {
 public:
  Bench(device::cuda::Gpu& gpu, const Row& row, bool show_source) : gpu_(gpu) {
    const loop::Nest nest = loop::parse(row.loop);
    kernel_ = codegen::generate_cuda_loop(nest.domain, nest.body, gpu.info(), row.constants);
    if (show_source) fmt::print("{}\n{}\n", kernel_.plan, kernel_.source.substr(kernel_.source.find("\nextern")));
    code_ = gpu.load(jit::nvrtc_compile(kernel_.source, gpu.info().architecture, kernel_.name), kernel_.name, 0, kernel_.overlaps);
    for (int s = 0; s < kSets; ++s) {
      std::vector<std::shared_ptr<void>>& set = sets_.emplace_back();
      for (size_t b = 0; b < row.buffers.size(); ++b) {
        auto [dtype, numel] = row.buffers[b];
        const size_t size = static_cast<size_t>(numel) * size_of(dtype);
        set.push_back(gpu.allocate(size));
        std::vector<uint16_t> noise((size + 1) / 2);
        uint32_t state = static_cast<uint32_t>(b + 17 * static_cast<size_t>(s)) + 1;
        for (auto& n : noise) n = static_cast<uint16_t>(0x3f00 | ((state = state * 1664525u + 1013904223u) >> 16 & 0x80ff));
        if (dtype == DType::I64)
          for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<uint16_t>(i % 4 == 0 ? i / 4 % 1024 : 0);  // 0, 1, 2, ...
        gpu.copy_in(set.back().get(), noise.data(), size);
        if (s == 0) bytes_ += static_cast<double>(size);
      }
    }
    if (!(kernel_.scratch_bytes == Expr(0))) scratch_ = gpu.allocate(static_cast<size_t>(kernel_.scratch_bytes.constant()));
    if (!(kernel_.counters == Expr(0))) {
      const size_t size = 4 * static_cast<size_t>(kernel_.counters.constant());
      counters_ = gpu.allocate(size);
      gpu.fill_zero(counters_.get(), size);
    }
  }

  double bytes() const { return bytes_; }

  void launch(int times) {
    for (int i = 0; i < times; ++i) {
      const auto& set = sets_[static_cast<size_t>(i % kSets)];
      std::vector<void*> addresses, arguments;
      for (int b : kernel_.buffers) addresses.push_back(set[static_cast<size_t>(b)].get());
      if (scratch_) addresses.push_back(scratch_.get());
      if (counters_) addresses.push_back(counters_.get());
      for (void*& a : addresses) arguments.push_back(&a);
      gpu_.launch(code_, {.blocks = kernel_.tasks.constant(), .threads = kernel_.block, .overlaps = kernel_.overlaps}, arguments);
    }
  }

 private:
  static constexpr int kSets = 3;
  device::cuda::Gpu& gpu_;
  codegen::KernelText kernel_;
  device::cuda::Kernel code_;
  std::vector<std::vector<std::shared_ptr<void>>> sets_;
  std::shared_ptr<void> scratch_, counters_;
  double bytes_ = 0;
};

int run(bool show_source, const std::vector<std::string>& names) {
  if (cuda_device_count() == 0) {
    fmt::print("no GPU here: nothing measured\n");
    return 0;
  }
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  // Of one of the operations that `work` starts.
  auto time_us = [&](int launches, const std::function<void()>& work) {
    constexpr int kRounds = 15, kWarmUp = 3;
    std::vector<double> times;
    for (int i = 0; i < kWarmUp + kRounds; ++i) {
      const double us = 1000 * gpu.time_ms(work);
      if (i >= kWarmUp) times.push_back(us / launches);
    }
    return median(times);
  };
  const size_t copied = size_t{1} << 30;
  std::shared_ptr<void> from = gpu.allocate(copied), to = gpu.allocate(copied);
  const double copy = 2e-3 * static_cast<double>(copied) / time_us(4, [&] {
                        for (int i = 0; i < 4; ++i) gpu.copy_within(to.get(), from.get(), copied);
                      });
  fmt::print("{}: a copy moves {:.0f} GB/s\n", gpu.info().name, copy);
  std::fflush(stdout);
  from = to = nullptr;
  for (const Row& row : kLoops) {
    if (!names.empty() && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    Bench bench(gpu, row, show_source);
    constexpr int kLaunches = 24;
    const std::unique_ptr<device::cuda::Graph> chain = gpu.record([&] { bench.launch(kLaunches); });
    const double us = time_us(kLaunches, [&] { gpu.launch(*chain); }), rate = 1e-3 * bench.bytes() / us;
    fmt::print("{:<24} {:>9.1f} us {:>7.0f} GB/s {:>6.1f} %\n", row.name, us, rate, 100 * rate / copy);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> names(argv + 1, argv + argc);
    const bool source = !names.empty() && names[0] == "--source";
    if (source) names.erase(names.begin());
    return run(source, names);
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

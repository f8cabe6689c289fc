// Sorts and selections on GPUs: their kernels for two architectures, and on a GPU that they are what the reference gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"

namespace toroid {
namespace {

struct Case {
  DType dtype;
  int64_t rows, length, count;  // count == length: a sort
  bool descending, open;        // open: the length of rows is a symbol
};

// Rows in shared memory, selections from longer ones, and longer ones sorted.
std::vector<Case> cases() {
  std::vector<Case> out;
  for (DType t : {DType::F32, DType::BF16, DType::F64, DType::I64, DType::U8, DType::Bool})
    for (bool descending : {false, true}) {
      for (int64_t n : {1, 2, 33, 1000, 8192}) out.push_back({t, 3, n, n, descending, false});
      out.push_back({t, 2, 40000, 40000, descending, false});
      for (const auto& [n, count] : {std::pair<int64_t, int64_t>{100003, 50}, {2048, 2048}, {2049, 1}, {16384, 1000}, {50257, 4096}})
        out.push_back({t, 3, n, count, descending, false});
      out.push_back({t, 100, 5000, 40, descending, false});
      out.push_back({t, 5, 3000, 50, descending, true});
      out.push_back({t, 2, 20000, 50, descending, true});
      out.push_back({t, 2, 20000, 20000, descending, true});
    }
  return out;
}

std::string text_of(const Case& c) {
  const std::string rows = std::to_string(c.rows), type(name_of(c.dtype)), n = c.open ? "s0" : std::to_string(c.length);
  const bool sorts = c.count == c.length;
  const std::string k = sorts ? n : std::to_string(c.count), order = c.descending ? "true" : "false";
  const std::string call = sorts ? "sort(%x, -1, " + order + ")" : "topk(%x, " + k + ", -1, " + order + ")";
  return "graph \"g\"(%x: " + type + "[" + rows + ", " + n + "])" + (c.open ? " symbols(s0 in 50..99999)" : "") + " {\n  %v: " + type +
         "[" + rows + ", " + k + "], %i: i64[" + rows + ", " + k + "] = " + call + "\n  return %v, %i\n}";
}

// Many elements are equal, and among floats there are NaN, infinities and zeros of both signs.
Tensor sample(const Case& c) {
  std::mt19937 random(static_cast<unsigned>(c.length));
  Tensor t = Tensor::empty({c.rows, c.length}, c.dtype);
  for (int64_t i = 0; i < t.numel(); ++i) {
    double v = static_cast<double>(static_cast<int>(random() % 4001) - 2000) / 4;
    if (random() % 3 == 0) v = static_cast<double>(random() % 5) - 2;
    if (v == 0 && random() % 2) v = -0.0;
    if (random() % 64 == 0) v = random() % 2 ? std::nan("") : random() % 2 ? HUGE_VAL : -HUGE_VAL;
    const Number n = is_bool(c.dtype)    ? Number::of(v > 0)
                     : is_float(c.dtype) ? Number::of(v)
                                         : Number::of(std::isfinite(v) ? static_cast<int64_t>(std::fabs(4 * v)) : int64_t{7});
    store_number(t.raw_data() + i * static_cast<int64_t>(size_of(c.dtype)), c.dtype, n);
  }
  return t;
}

TEST(GpuSort, KernelsCompile) {
  for (const char* architecture : {"sm_80", "sm_90a"})
    for (const Case& c : cases()) {
      const bool short_pairs = c.dtype == DType::F32 && c.length >= 1000, long_pairs = c.dtype == DType::I64 && c.length == 40000;
      if (c.descending || !(short_pairs || long_pairs)) continue;
      device::cuda::GpuInfo gpu;
      gpu.architecture = architecture;
      const auto kernels = front::kernels_for_gpu(graph::parse(text_of(c)), gpu);
      ASSERT_EQ(kernels.size(), 1u) << text_of(c);
      EXPECT_EQ(kernels[0].name, c.count == c.length ? "sort" : "topk");
      try {
        jit::nvrtc_check(kernels[0].source, architecture, kernels[0].name);
      } catch (const EnvironmentError& e) {
        GTEST_SKIP() << e.what();
      }
    }
}

TEST(GpuSort, IsStableAndTotal) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (const Case& c : cases()) {
    auto model = front::compile_model(graph::parse(text_of(c)), {.device = Device::cuda()});
    EXPECT_EQ(model.report().host_calls, 0u);
    const Tensor x = sample(c);
    const auto got = model.run(std::vector{x.to(Device::cuda())}), want = graph::interpret(*graph::parse(text_of(c)), std::vector{x});
    for (size_t r = 0; r < 2; ++r) {
      const Tensor mine = got[r].to(Device::cpu());
      EXPECT_EQ(std::memcmp(mine.raw_data(), want[r].raw_data(), static_cast<size_t>(mine.numel()) * size_of(mine.dtype())), 0)
          << "result " << r << " of " << text_of(c);
    }
  }
}

}  // namespace
}  // namespace toroid

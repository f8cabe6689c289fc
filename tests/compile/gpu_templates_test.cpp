// Attention and products of few rows on GPUs, as programs: compared with the interpreter on a GPU; elsewhere NVRTC compiles some of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "autograd/differentiate.h"
#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::graph_of;

Tensor sample(const std::vector<int64_t>& sizes, DType dtype, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> value(-1, 1);
  Tensor t = Tensor::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = value(random);
    store_number(t.raw_data() + i * static_cast<int64_t>(size_of(dtype)), dtype, is_bool(dtype) ? Number::of(v > -0.5) : Number::of(v));
  }
  return t;
}

// The norm of the difference by that of `want`; infinity where one is no number.
double distance(const Tensor& got, const Tensor& want) {
  const std::vector<double> x = got.to_vector(), y = want.to_vector();
  double difference = x.size() == y.size() ? 0 : HUGE_VAL, size = 0;
  for (size_t i = 0; i < y.size() && difference < HUGE_VAL; ++i) {
    difference += std::isfinite(x[i]) ? (x[i] - y[i]) * (x[i] - y[i]) : HUGE_VAL;
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

class GpuTemplates : public testing::Test {
 protected:
  // How many kernels of a program for such a GPU compute gradients of attention.
  static int64_t backward_kernels(std::unique_ptr<graph::Graph> graph, const char* architecture) {
    device::cuda::GpuInfo gpu;
    gpu.architecture = architecture;
    const auto kernels = front::kernels_for_gpu(std::move(graph), gpu);
    return std::count_if(kernels.begin(), kernels.end(), [](auto& k) { return k.name.starts_with("attention_backward"); });
  }

  // What `forward` computes is one kernel whose name begins with `name`, and the same as the interpreter's.
  void check(const std::string& what, const std::string& name, const test::Forward& forward, const std::vector<Tensor>& inputs) {
    SCOPED_TRACE(what);
    if (cuda_device_count() == 0) {
      constexpr int kOneIn = 11;
      if (checks_++ % kOneIn == 0) compile_for_absent(name, forward, inputs);
      return;
    }
    auto model = front::compile_model(graph_of(forward, inputs), {.device = Device::cuda(), .freeze = false});
    std::vector<Tensor> there;
    for (auto& t : inputs) there.push_back(t.to(Device::cuda()));
    model.run(there);  // counters and scratch memory are used a second time
    const Tensor got = model.run(there)[0].to(Device::cpu()), want = graph::interpret(*graph_of(forward, inputs), inputs)[0];
    const std::vector<double> x = got.to_vector(), y = want.to_vector();
    ASSERT_EQ(x.size(), y.size());
    double difference = 0, size = 0, most = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(std::isfinite(x[i]) || !std::isfinite(y[i])) << "element " << i << " is " << x[i] << ", expected " << y[i];
      difference += (x[i] - y[i]) * (x[i] - y[i]), size += y[i] * y[i];
      most = std::max(most, std::fabs(x[i] - y[i]));
    }
    const DType t = got.dtype();
    const double allowed = t == DType::BF16 ? 8e-3 : t == DType::F16 ? 1.5e-3 : 1e-5;
    EXPECT_LE(std::sqrt(difference), allowed * std::sqrt(size)) << "largest difference " << most;
  }

 private:
  void compile_for_absent(const std::string& name, const test::Forward& forward, const std::vector<Tensor>& inputs) {
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      device::cuda::GpuInfo gpu;
      gpu.architecture = architecture;
      const auto kernels = front::kernels_for_gpu(graph_of(forward, inputs), gpu);
      ASSERT_EQ(kernels.size(), 1u);
      EXPECT_TRUE(kernels[0].name.starts_with(name)) << kernels[0].name;
      try {
        jit::nvrtc_check(kernels[0].source, architecture, kernels[0].name);
      } catch (const EnvironmentError& e) {
        GTEST_SKIP() << e.what();
      }
    }
  }

  int checks_ = 0;
};

// Few queries (split over the keys, evenly or not) and many (fewer and more tiles than multiprocessors); groups of heads; depths and
// lengths that are no multiples of anything.
TEST_F(GpuTemplates, Attention) {
  struct Shape {
    int64_t batch, heads, kv_heads, queries, keys, depth;
  };
  const Shape shapes[] = {{1, 2, 2, 1, 700, 64},    {2, 8, 2, 1, 2048, 128},  {1, 4, 4, 1, 33, 64},      {1, 8, 1, 5, 999, 64},
                          {1, 3, 3, 128, 128, 64},  {2, 2, 1, 300, 300, 128}, {1, 1, 1, 65, 257, 32},    {1, 2, 2, 513, 513, 64},
                          {1, 40, 40, 1, 1024, 64}, {2, 140, 70, 65, 65, 64}, {1, 68, 34, 129, 129, 64}, {1, 2, 2, 1, 520, 80}};
  for (const Shape& s : shapes)
    for (DType t : {DType::BF16, DType::F16})
      for (const char* mask : {"none", "causal", "bool", "float"}) {
        const std::string kind = mask;
        if (kind == "causal" && s.queries != s.keys) continue;
        std::vector<Tensor> inputs = {sample({s.batch, s.heads, s.queries, s.depth}, t, 1),
                                      sample({s.batch, s.kv_heads, s.keys, s.depth}, t, 2),
                                      sample({s.batch, s.kv_heads, s.keys, s.depth}, t, 3)};
        if (kind == "bool") inputs.push_back(sample({1, 1, s.queries, s.keys}, DType::Bool, 4));
        if (kind == "float") inputs.push_back(sample({s.batch, 1, s.queries, s.keys}, t, 4));
        check(
            fmt::format("{} x {}/{} heads x {} x {} x {} {} {}", s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.depth, name_of(t),
                        kind),
            "attention",
            [&](auto& in) {
              return scaled_dot_product_attention(in[0], in[1], in[2], in.size() > 3 ? in[3] : Tensor(), 0, kind == "causal", std::nullopt,
                                                  s.heads != s.kv_heads);
            },
            inputs);
      }
}

// Attention with its gradients: kernels of the forward pass that give logarithms of sums, and one that takes them.
TEST_F(GpuTemplates, GradientsOfAttention) {
  struct Shape {
    int64_t batch, heads, kv_heads, queries, keys, depth;
    bool causal;
  };
  const Shape shapes[] = {{1, 2, 2, 256, 256, 64, true},  {2, 4, 2, 201, 201, 128, true}, {1, 6, 2, 70, 333, 128, false},
                          {2, 3, 3, 197, 197, 64, false}, {1, 8, 2, 300, 300, 64, true},  {1, 2, 1, 130, 130, 80, true}};
  for (const Shape& s : shapes)
    for (DType t : {DType::BF16, DType::F16}) {
      SCOPED_TRACE(fmt::format("{} x {}/{} heads x {} x {} x {} {}{}", s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.depth, name_of(t),
                               s.causal ? " causal" : ""));
      const std::vector<Tensor> inputs = {
          sample({s.batch, s.heads, s.queries, s.depth}, t, 1), sample({s.batch, s.kv_heads, s.keys, s.depth}, t, 2),
          sample({s.batch, s.kv_heads, s.keys, s.depth}, t, 3), sample({s.batch, s.heads, s.queries, s.depth}, t, 4)};
      const auto forward = [&](auto& in) {
        return scaled_dot_product_attention(in[0], in[1], in[2], {}, 0, s.causal, std::nullopt, s.heads != s.kv_heads);
      };
      const auto joint = [&] {
        return autograd::differentiate(*graph_of(forward, {inputs.begin(), inputs.begin() + 3}),
                                       {.inputs = {0, 1, 2}, .takes_cotangents = true});
      };
      if (cuda_device_count() == 0) {
        for (const char* architecture : {"sm_90a", "sm_80"}) EXPECT_EQ(backward_kernels(joint(), architecture), 1) << architecture;
        continue;
      }
      auto model = front::compile_model(joint(), {.device = Device::cuda(), .freeze = false});
      std::vector<Tensor> there;
      for (auto& in : inputs) there.push_back(in.to(Device::cuda()));
      model.run(there);  // what is added to is zero again in the second run
      const auto got = model.run(there);
      const auto want = graph::interpret(*joint(), inputs);
      for (size_t r = 0; r < want.size(); ++r)
        EXPECT_LE(distance(got[r].to(Device::cpu()), want[r]), t == DType::BF16 ? 1.2e-2 : 2e-3) << "result " << r;
    }
}

// A few rows times weights in both layouts, with what joins before and behind.
TEST_F(GpuTemplates, ProductsOfFewRows) {
  for (int64_t m : {1, 3, 16})
    for (auto [n, k] : {std::pair<int64_t, int64_t>{512, 1024}, {1000, 520}, {48, 4096}})
      for (DType t : {DType::BF16, DType::F16, DType::F32}) {
        const std::string what = fmt::format("{} x {} x {} {}", m, n, k, name_of(t));
        const std::vector<Tensor> inputs = {sample({m, k}, t, 1), sample({n, k}, t, 2), sample({n}, t, 3), sample({m, n}, t, 4)};
        check(
            what + " linear", "gem", [](auto& in) { return linear(in[0], in[1], in[2]) + in[3]; }, inputs);
        check(what + " matmul", "gem", [](auto& in) { return matmul(in[0], in[1]); }, {inputs[0], sample({k, n}, t, 5)});
        if (t == DType::F32 || m > 1) continue;
        check(what + " norm", "gem", [&](auto& in) { return linear(rms_norm(in[0], {k}, in[2]), in[1]); },
              {inputs[0], inputs[1], sample({k}, t, 6)});
        check(what + " gate", "gem", [](auto& in) { return linear(silu(in[0]) * in[2], in[1]); },
              {inputs[0], inputs[1], sample({m, k}, t, 7)});
      }
}

}  // namespace
}  // namespace toroid

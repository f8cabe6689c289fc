// The kernels of whole models for GPUs, compiled by NVRTC: no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "import/load_model.h"
#include "jit/nvrtc.h"
#include "ops/table.h"
#include "toroid/error.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/train/optimizers.h"

namespace toroid {
namespace {

using test::graph_of;

class GpuKernels : public testing::TestWithParam<const char*> {
 protected:
  // The names of a program's kernels, all of which NVRTC has taken; none where there is no NVRTC.
  std::vector<std::string> names_of(std::unique_ptr<graph::Graph> graph) {
    device::cuda::GpuInfo gpu;
    gpu.architecture = GetParam();
    std::vector<std::string> names;
    for (auto& k : front::kernels_for_gpu(std::move(graph), gpu)) {
      names.push_back(k.name);
      if (!seen_.insert(k.source).second) continue;
      try {
        jit::nvrtc_check(k.source, GetParam(), k.name);
      } catch (const EnvironmentError& e) {
        missing_ = e.what();
        return {};
      } catch (const InternalError& e) {
        ADD_FAILURE() << e.what() << "\n" << k.plan << k.source.substr(k.source.find("\nextern"));
      }
    }
    return names;
  }

  std::set<std::string> seen_;
  std::string missing_;
};

TEST_P(GpuKernels, OfModelsCompile) {
  const std::filesystem::path folder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models";
  for (auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.path().extension() == ".pt2") names_of(import::load_model(file.path().string()));
  if (!missing_.empty()) GTEST_SKIP() << missing_;
  EXPECT_GT(seen_.size(), 10u);
}

Tensor ids(const std::vector<int64_t>& sizes, int64_t value) { return Tensor::full(sizes, value, DType::I64); }

size_t count(const std::vector<std::string>& names, const std::string& start) {
  return static_cast<size_t>(std::count_if(names.begin(), names.end(), [&](auto& n) { return n.starts_with(start); }));
}

// Products and attention of 16-bit floats are templates' work, and equal layers share their kernels.
TEST_P(GpuKernels, OfTransformersInHalfPrecision) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    nn::LlamaConfig c;
    c.vocab_size = 512, c.hidden_size = 512, c.num_attention_heads = 4, c.num_key_value_heads = 2, c.intermediate_size = 1024;
    c.num_hidden_layers = 3;
    nn::LlamaForCausalLM llama(c, nn::Init(1, dtype));
    seen_.clear();
    const auto prefill = names_of(graph_of([&](auto& in) { return llama.forward(in[0], {}); }, {ids({1, 128}, 1)}));
    if (!missing_.empty()) GTEST_SKIP() << missing_;
    EXPECT_EQ(count(prefill, "attention"), 3u);
    EXPECT_EQ(count(prefill, "gemm_simt"), 0u);
    EXPECT_EQ(count(prefill, "fused_sigmoid_mul"), std::string_view(GetParam()) == "sm_90a" ? 0u : 3u) << "gates are epilogues";
    EXPECT_LE(seen_.size(), prefill.size() / 2);
    llama.allocate_cache(1, 256);
    seen_.clear();
    const auto decode = names_of(graph_of([&](auto& in) { return llama.forward_cached(in[0], in[1]); }, {ids({1, 1}, 1), ids({1}, 5)}));
    EXPECT_EQ(count(decode, "attention"), 3u);
    EXPECT_EQ(count(decode, "gemv"), 3u * 4 + 1);
    EXPECT_LE(decode.size(), 3u * 6 + 6) << "norms and gates are computed by the products that read them";
  }
}

// Products of halves whose results are f32 are templates' work: few rows, many, whole batches, both orders of either operand; and so is
// the gradient of attention with a mask, which is made of them.
TEST_P(GpuKernels, OfProductsOfHalvesInF32) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    for (int64_t rows : {1, 3, 65, 512})
      for (bool turned : {false, true}) {
        const auto names = names_of(graph_of(
            [&](auto& in) {
              const Tensor y = turned ? transpose(in[1], 0, 1) : in[1];
              return relu(ops::call1("mm.dtype", {in[0], y, DType::F32}));
            },
            {Tensor::full(std::vector<int64_t>{rows, 256}, 1, dtype),
             Tensor::full(turned ? std::vector<int64_t>{384, 256} : std::vector<int64_t>{256, 384}, 1, dtype)}));
        if (!missing_.empty()) GTEST_SKIP() << missing_;
        EXPECT_EQ(count(names, "gemm_simt"), 0u) << rows;
        EXPECT_EQ(count(names, "gemm_mma") + count(names, "gemm_wgmma") + count(names, "gemv"), 1u) << rows;
      }
    const auto tensor = [&](int64_t heads, int64_t columns) { return Tensor::full(std::vector<int64_t>{2, heads, 65, columns}, 1, dtype); };
    const auto names = names_of(graph_of(
        [&](auto& in) {
          const auto attend = [&] { return sum(to(scaled_dot_product_attention(in[0], in[1], in[2], in[3]), DType::F32)); };
          return cat(value_and_gradients(attend, {in[0], in[1], in[2], in[3]}).second, -1);
        },
        {tensor(1, 64), tensor(1, 64), tensor(1, 64), tensor(1, 65)}));
    EXPECT_EQ(count(names, "gemm_simt"), 0u);
    EXPECT_EQ(count(names, "gemm_mma") + count(names, "gemm_wgmma"), 5u) << "scores, their cotangents, three gradients";
  }
}

// One launch updates all parameters, whatever their sizes.
TEST_P(GpuKernels, OfOptimizers) {
  const std::vector<int64_t> sizes{1 << 20, 7, 1024, 1025, 3, 300, 5, 4096};
  for (DType dtype : {DType::F32, DType::BF16}) {
    std::vector<Tensor> parameters;
    for (int64_t n : sizes) parameters.push_back(Tensor::full(std::vector<int64_t>{n}, 1, dtype));
    train::AdamW optimizer(parameters, {});
    const auto names = names_of(graph_of(
        [&](auto& in) {
          std::vector<Tensor> gradients;
          for (size_t i = 0; i < sizes.size(); ++i) gradients.push_back(in[i] * 2);
          optimizer.step(gradients);
          return Tensor();
        },
        [&] {
          std::vector<Tensor> in;
          for (int64_t n : sizes) in.push_back(Tensor::full(std::vector<int64_t>{n}, 1, dtype));
          return in;
        }()));
    if (!missing_.empty()) GTEST_SKIP() << missing_;
    EXPECT_EQ(names.size(), 2u);
    EXPECT_EQ(std::count_if(names.begin(), names.end(), [](auto& n) { return n.ends_with("_foreach"); }), 1);
  }
}

// So it does where gradients lie in another order, a launch for each kind of order.
TEST_P(GpuKernels, OfOptimizersWhoseGradientsLieAcross) {
  const auto full = [](const std::vector<int64_t>& sizes) { return Tensor::full(sizes, 1, DType::F32); };
  std::vector<Tensor> parameters, gradients;
  for (int64_t n : {64, 128, 192}) {
    parameters.push_back(full({n, 320})), gradients.push_back(full({320, n}));            // whole tiles
    parameters.push_back(full({n + 8, 24})), gradients.push_back(full({24, n + 8}));      // vectors
    parameters.push_back(full({n, 64, 3, 3})), gradients.push_back(full({64, 3, 3, n}));  // tiles over two dimensions
    parameters.push_back(full({n, 64, 5, 5})), gradients.push_back(full({64, n, 5, 5}));
  }
  train::SGD optimizer(parameters, {.lr = 0.1});
  const auto names = names_of(graph_of(
      [&](auto& in) {
        std::vector<Tensor> across;
        for (auto& g : in) {
          const std::vector<int64_t> s = g.sizes();
          const bool convolution = s.size() == 4;
          across.push_back(!convolution ? transpose(g, 0, 1) : s[2] == 5 ? transpose(g, 0, 1) : permute(g, {3, 0, 1, 2}));
        }
        optimizer.step(across);
        return Tensor();
      },
      gradients));
  if (!missing_.empty()) GTEST_SKIP() << missing_;
  EXPECT_EQ(names.size(), 4u) << "whole tiles, parts of tiles, windows whose taps lie apart, and the number of the step";
  EXPECT_EQ(std::count_if(names.begin(), names.end(), [](auto& n) { return n.ends_with("_foreach"); }), 3);
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuKernels, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace toroid

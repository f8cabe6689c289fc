// Configurations of the GPU's templates: NVRTC takes them, and on a GPU each computes what it must.
#include "codegen/cuda/generate.h"
#include "cuda_jobs.h"
#include "template_nodes.h"

namespace toroid::codegen {
namespace {

struct Job : CudaJob {
  Case* problem = nullptr;
  program::Config config = {};
  ConstantMemory constants = {};
};

device::cuda::GpuInfo info_of(const std::string& architecture) {
  device::cuda::GpuInfo gpu = KernelRunner::has_gpu() ? KernelRunner::gpu_info() : device::cuda::GpuInfo();
  gpu.architecture = architecture;
  return gpu;
}

Job job_of(Case& c, const program::Config& config, const std::string& architecture) {
  Job job{{{}, architecture}, &c, config};
  program::Program program = c.program;
  for (int b : c.constants) {
    const int64_t numel = program.buffers[static_cast<size_t>(b)].numel.constant();
    job.constants.tensors[b] = Tensor::from_blob(c.memory[static_cast<size_t>(b)].data(), std::vector<int64_t>{numel}, c.dtype);
  }
  program::Node node = c.node;
  node.config = config;
  job.kernel = generate_cuda(node, program, info_of(architecture), job.constants);
  return job;
}

bool rounds_to_tf32(const Case& c) {
  if (auto* g = std::get_if<program::Gemm>(&c.node.problem)) return g->tf32;
  auto* p = std::get_if<program::Convolution>(&c.node.problem);
  return p && p->tf32;
}
Case in_tf32(Case c) {
  if (auto* g = std::get_if<program::Gemm>(&c.node.problem)) g->tf32 = true;
  if (auto* p = std::get_if<program::Convolution>(&c.node.problem)) p->tf32 = true;
  return c;
}

void run(const Job& job) {
  Case& c = *job.problem;
  const KernelText& k = job.kernel;
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  for (auto& pack : job.constants.jobs) pack();
  c.forget();
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> addresses;
  void* out = nullptr;
  for (int b : k.buffers) {
    auto packed = job.constants.packed.find(b);
    const bool own = packed == job.constants.packed.end();
    const void* from = own ? c.memory[static_cast<size_t>(b)].data() : packed->second.raw_data();
    const size_t bytes = own ? c.memory[static_cast<size_t>(b)].size() : static_cast<size_t>(packed->second.numel()) * size_of(c.dtype);
    memory.push_back(gpu.allocate(bytes));
    gpu.copy_in(memory.back().get(), from, bytes);
    addresses.push_back(memory.back().get());
    if (b + 1 == static_cast<int>(c.memory.size())) out = addresses.back();
  }
  for (const Expr& bytes : {k.scratch_bytes, k.counters * 4}) {
    if (bytes == Expr(0)) continue;
    memory.push_back(gpu.allocate(static_cast<size_t>(bytes.constant())));
    gpu.fill_zero(memory.back().get(), static_cast<size_t>(bytes.constant()));
    addresses.push_back(memory.back().get());
  }
  std::vector<int64_t> params;
  for (auto& p : k.params) params.push_back(p.constant());
  device::cuda::Arguments arguments(k.tensor_maps, params, addresses.size(), [](const Expr& e) { return e.constant(); });
  arguments.set_pointers(addresses);
  const device::cuda::Kernel kernel = gpu.load(job.cubin, k.name, k.shared_bytes, k.overlaps);
  // Twice: counters and scratch memory are used again.
  for (int i = 0; i < 2; ++i) gpu.launch(kernel, {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps}, arguments.list());
  gpu.copy_out(c.memory.back().data(), out, c.memory.back().size());
  EXPECT_LT(c.worst(), c.dtype == DType::BF16 ? 0.15 : c.dtype == DType::F16 || rounds_to_tf32(c) ? 2e-2 : 2e-4) << k.plan;
}

class CudaConfigs : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  }

  // What a node's configurations must be; then all are run on a GPU, or `few` of them compiled, as far apart as can be.
  void check(Case c, const std::vector<std::string>& forms, size_t least, size_t few) {
    for (const char* architecture : {"sm_90a", "sm_80"}) {
      SCOPED_TRACE(architecture);
      const device::cuda::GpuInfo gpu = info_of(architecture);
      const std::vector<program::Config> all = cuda_configs(c.node, c.program, gpu);
      EXPECT_LE(all.size(), 32u);
      ASSERT_FALSE(all.empty());
      EXPECT_EQ(job_of(c, all[0], architecture).kernel.source, job_of(c, {}, architecture).kernel.source) << "the first is the rule's";
      std::set<std::string> names, found;
      std::vector<Job> jobs;
      for (auto& config : all) {
        EXPECT_TRUE(names.insert(program::to_string(config)).second) << program::to_string(config) << " twice";
        EXPECT_EQ(program::parse_config(program::to_string(config)), config);
        found.insert(config.form);
        jobs.push_back(job_of(c, config, architecture));
      }
      for (auto& next : cuda_neighbours(all[0], c.node, c.program, gpu))
        if (names.insert(program::to_string(next)).second) jobs.push_back(job_of(c, next, architecture));
      if (gpu.is_hopper()) {
        EXPECT_GE(all.size(), least);
        for (auto& form : forms) EXPECT_TRUE(found.count(form)) << form;
      }
      compile_and_run(std::move(jobs), few);
    }
  }

  static void compile_and_run(std::vector<Job> jobs, size_t few) {
    const std::string architecture = jobs[0].architecture;
    if (!KernelRunner::has_gpu() || architecture != KernelRunner::gpu_architecture()) {
      std::vector<Job> some;
      for (size_t i = 0; i < few && i < jobs.size(); ++i)
        some.push_back(std::move(jobs[(jobs.size() - 1) * i / std::max<size_t>(few - 1, 1)]));
      jobs = std::move(some);
    }
    compile_side_by_side(
        jobs, [](auto& job) { return job.architecture; }, false);
    for (auto& job : jobs) {
      SCOPED_TRACE(program::to_string(job.config));
      EXPECT_EQ(job.error, "") << job.kernel.source.substr(job.kernel.source.find("\nextern"));
      if (KernelRunner::has_gpu() && architecture == KernelRunner::gpu_architecture() && job.error.empty()) run(job);
    }
  }
};

TEST_F(CudaConfigs, ProductOfFewRows) { check(product(3, 520, 1024, true, DType::BF16), {"gemv", "gemm_wgmma", "gemm_mma"}, 16, 2); }
TEST_F(CudaConfigs, ProductBehindAMeeting) {
  Case c = product(1, 520, 1032, true, DType::BF16);
  c.node.after_meeting = true;
  EXPECT_GT(2 * job_of(c, {}, "sm_90a").kernel.shared_bytes, 227 << 10) << "two blocks share a multiprocessor";
  check(c, {"gemv"}, 16, 2);
}
TEST_F(CudaConfigs, ProductOfSomeRows) { check(product(16, 264, 520, true, DType::F16), {"gemv", "gemm_wgmma", "gemm_mma"}, 16, 2); }
TEST_F(CudaConfigs, Product) { check(product(200, 328, 1032, false, DType::BF16), {"gemm_wgmma", "gemm_mma"}, 16, 2); }
TEST_F(CudaConfigs, ProductInF32) { check(product(65, 70, 130, false), {"gemm_simt"}, 1, 1); }
TEST_F(CudaConfigs, ProductInTf32) { check(in_tf32(product(200, 264, 136, true)), {"gemm_wgmma", "gemm_mma"}, 16, 2); }
TEST_F(CudaConfigs, ConvolutionInTf32) { check(in_tf32(convolution(64, 72, 13, 3, 1)), {"conv_wgmma", "conv_mma"}, 16, 2); }
TEST_F(CudaConfigs, Convolution) { check(convolution(64, 72, 13, 3, 1, DType::F16), {"conv_wgmma", "conv_mma"}, 16, 2); }
TEST_F(CudaConfigs, ConvolutionOfOneTap) {
  check(convolution(64, 64, 12, 1, 1, DType::F16), {"gemm_wgmma", "gemm_mma", "conv_wgmma", "conv_mma"}, 16, 2);
}
TEST_F(CudaConfigs, ConvolutionInF32) { check(convolution(20, 30, 12, 1, 1), {"conv_simt", "gemm_simt"}, 5, 1); }
TEST_F(CudaConfigs, DepthwiseConvolution) { check(convolution(40, 40, 13, 3, 40, DType::F16), {"conv_depthwise"}, 4, 1); }
TEST_F(CudaConfigs, AttentionOfOneQuery) {
  check(attention(3, 1, 700, 64, DType::F16), {"attention_decode", "attention_prefill", "attention_mma"}, 12, 2);
}
TEST_F(CudaConfigs, Attention) {
  check(attention(2, 300, 300, 64, DType::F16), {"attention_decode", "attention_prefill", "attention_mma"}, 6, 3);
}
TEST_F(CudaConfigs, AttentionOfOddHeads) { check(attention(2, 70, 130, 80, DType::BF16), {"attention_decode", "attention_mma"}, 5, 1); }

TEST_F(CudaConfigs, PointwiseLoop) {
  Case c;
  c.add(64 * 4096), c.add(64 * 4096, loop::BufferKind::Output);
  c.set_body("i0: 64, i1: 4096", " v0: f32 = load %0 [i0*4096 + i1]\n v1: f32 = Exp v0", 1, "i0*4096 + i1");
  for (int64_t i = 0; i < 64 * 4096; ++i) c.expected.push_back(std::exp(c.at(0, i)));
  check(c, {"loop_flat"}, 5, 2);
}

TEST_F(CudaConfigs, LoopOverRows) {
  for (auto [rows, length] : {std::pair<int64_t, int64_t>{3, 60000}, {300, 700}}) {
    Case c;
    c.add(rows * length), c.add(rows, loop::BufferKind::Output);
    c.set_body(
        fmt::format("i0: {}, r r0: {}", rows, length),
        fmt::format(" v0: f32 = load %0 [i0*{} + r0]\n v1: f32 = reduce sum v0\n v2: f32 = const 0.015625\n v3: f32 = Mul v1 v2", length),
        3, "i0");
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < length; ++k) sum += c.at(0, i * length + k);
      c.expected.push_back(sum / 64);
    }
    check(c, {"loop_rows"}, 3, 2);
  }
}

// Kept in registers from pass to pass.
TEST_F(CudaConfigs, Softmax) {
  constexpr int64_t rows = 20, length = 3000;
  Case c;
  c.add(rows * length), c.add(rows * length, loop::BufferKind::Output);
  c.set_body(
      "i0: 20, r r0: 3000",
      " v0: f32 = load %0 [i0*3000 + r0]\n v1: f32 = reduce max v0\n v2: f32 = Sub v0 v1\n v3: f32 = Exp v2\n v4: f32 = reduce sum v3\n "
      "v5: f32 = Div v3 v4",
      5, "i0*3000 + r0");
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < length; ++k) sum += std::exp(c.at(0, i * length + k));
    for (int64_t k = 0; k < length; ++k) c.expected.push_back(std::exp(c.at(0, i * length + k)) / sum);
  }
  check(c, {"loop_rows"}, 3, 2);
}

TEST_F(CudaConfigs, WhatDoesNotFitIsReported) {
  Case c = product(200, 328, 512, false, DType::BF16);
  const std::pair<const char*, const char*> wrong[] = {
      {"gemm(rows=6)", "is of no form that takes this problem: gemm_wgmma, gemm_mma, gemm_simt"},
      {"gemv(warps_k=16)", "gemv(warps_k=16) does not take this problem: not 1 to 16 rows"},
      {"gemm_wgmma(block_m=128)", "field 2 is not \"block_n\"; expected one like gemm_wgmma(block_m="},
      {"gemm_wgmma(block_m=128,block_n=8,stages=4,split=1,consumers=2,share=1,beside=1,slices=1,alternate=0)", "there is no such tile"},
      {"gemm_mma(block_m=64,block_n=64,block_k=64,stages=99,warps_m=2,warps_n=2)", "stages is not from 2 to 8"},
      {"gemm_simt(block=1)", "field 1 is not \"tile\"; expected one like gemm_simt(tile="},
      {"gemm_simt(tile=48)", "a tile is 16, 32 or 64"},
      {"loop_flat(threads=256,vectors=1)", "is of no form"},
  };
  for (auto& [config, why] : wrong) try {
      job_of(c, program::parse_config(config), "sm_90a");
      ADD_FAILURE() << config << " is taken";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace toroid::codegen

// Configurations of the CPU's templates: each computes what the others do, and what fits no node is reported.
#include <set>

#include "codegen/cpu/generate.h"
#include "codegen/prelude/prelude.h"
#include "kernel_runner.h"
#include "template_nodes.h"

namespace toroid::codegen {
namespace {

struct Kernel {
  KernelText text;
  program::Program program;
  ConstantMemory constants;
};

Kernel kernel_of(Case& c, const program::Config& config, device::Isa isa) {
  Kernel k{.text = {}, .program = c.program, .constants = {}};
  for (int b : c.constants) {
    auto& values = c.memory[static_cast<size_t>(b)];
    const int64_t numel = c.program.buffers[static_cast<size_t>(b)].numel.constant();
    const Tensor t = Tensor::from_blob(values.data(), std::vector<int64_t>{numel}, c.dtype);
    k.constants.tensors[b] = t;
    k.constants.parts[b] = {t};
  }
  program::Node node = c.node;
  node.config = config;
  k.text = generate(node, k.program, isa, k.constants);
  return k;
}

void check(Case& c, const program::Config& config, device::Isa isa) {
  SCOPED_TRACE(fmt::format("{} on {}", program::to_string(config), device::name_of(isa)));
  Kernel k = kernel_of(c, config, isa);
  for (auto& job : k.constants.jobs) job();
  std::shared_ptr<const device::LoadedCode> code;
  ASSERT_NO_THROW(code = KernelRunner::compile(k.text, isa)) << KernelRunner::body_text(k.text);
  c.forget();
  std::vector<void*> buffers;
  for (int b : k.text.buffers) {
    auto packed = k.constants.packed.find(b);
    buffers.push_back(packed == k.constants.packed.end() ? static_cast<void*>(c.memory[static_cast<size_t>(b)].data())
                                                         : packed->second.raw_data());
  }
  std::vector<int64_t> params;
  for (auto& p : k.text.params) params.push_back(p.constant());
  const int64_t bytes = k.text.scratch_bytes_per_thread.constant(), tasks = k.text.tasks.constant();
  const Tensor scratch = Tensor::full(std::vector<int64_t>{2 * bytes / 8 + 8}, -1, DType::I64);
  buffers.push_back(scratch.raw_data());
  auto* f = code->function<KernelRunner::Kernel>(k.text.name);
  for (int64_t i = 3; i-- > 0;) f(buffers.data(), params.data(), tasks * i / 3, tasks * (i + 1) / 3, static_cast<int>(i % 2));
  EXPECT_LT(c.worst(), 2e-4);
}

void check_all(Case c, size_t least) {
  if (!KernelRunner::has_cpu()) GTEST_SKIP() << "no compiler for CPUs";
  for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2}) {
    if (isa > device::host().isa) continue;
    const std::vector<program::Config> all = configs(c.node, c.program, isa);
    EXPECT_GE(all.size(), least);
    EXPECT_LE(all.size(), 30u);
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(kernel_of(c, all[0], isa).text.source, kernel_of(c, {}, isa).text.source) << "the first is what the rule takes";
    std::set<std::string> names, texts;
    for (auto& config : all) {
      EXPECT_TRUE(names.insert(program::to_string(config)).second) << program::to_string(config) << " twice";
      EXPECT_EQ(program::parse_config(program::to_string(config)), config);
      if (texts.insert(kernel_of(c, config, isa).text.source).second) check(c, config, isa);
      for (auto& next : neighbours(config, c.node, c.program, isa)) {
        EXPECT_NE(next, config);
        if (isa == device::host().isa && config == all[0] && texts.insert(kernel_of(c, next, isa).text.source).second) check(c, next, isa);
      }
    }
    EXPECT_GE(texts.size(), least);
  }
}

// Columns in heads of 32, head after head, rows turned round by 5: what a shifted window does with queries, keys and values. A vector lies
// within a head, so that it is stored whole.
TEST(Configs, ProductStoredInHeadsStoresWholeVectors) {
  const int64_t m = 37, n = 96, k = 40;
  for (auto [rows, weights] : {std::pair<int64_t, bool>{m, true}, {m, false}, {2, true}}) {
    Case c = product(rows, n, k, weights);
    const std::vector<double> plain = c.expected;
    c.set_body(fmt::format("i0: {}, i1: {}", rows, n), " v0: f32 = accumulate\n v1: f32 = load %2 [i1]\n v2: f32 = Add v0 v1", 2,
               fmt::format("{}*floordiv(i1, 32) + 32*mod(i0 + 5, {}) + mod({}*i0 + i1, 32)", 32 * rows, rows, n));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < n; ++j)
        c.expected[static_cast<size_t>(32 * rows * (j / 32) + 32 * ((i + 5) % rows) + j % 32)] = plain[static_cast<size_t>(i * n + j)];
    for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2}) {
      if (!KernelRunner::has_cpu() || isa > device::host().isa) continue;
      const std::string text = KernelRunner::body_text(kernel_of(c, {}, isa).text);
      EXPECT_EQ(text.find("at[l]"), std::string::npos) << "element after element:\n" << text;
      check(c, {}, isa);
    }
  }
}

TEST(Configs, ProductWithWeights) { check_all(product(37, 70, 200, true), 8); }
TEST(Configs, ProductOfLongRows) { check_all(product(40, 100, 1030, true), 12); }
TEST(Configs, ProductOfTwoInputs) { check_all(product(33, 50, 400, false), 8); }
TEST(Configs, ProductOfFewRows) { check_all(product(3, 70, 96, true), 8); }
TEST(Configs, Convolution) { check_all(convolution(32, 40, 9, 3, 1), 8); }
TEST(Configs, ConvolutionOfOneTap) { check_all(convolution(48, 33, 8, 1, 1), 8); }
TEST(Configs, DepthwiseConvolution) { check_all(convolution(20, 20, 15, 3, 20), 4); }
TEST(Configs, Attention) { check_all(attention(2, 40, 70, 24), 8); }
TEST(Configs, AttentionOfOneQuery) { check_all(attention(3, 1, 300, 32), 5); }

std::string error_of(Case& c, const std::string& config) {
  try {
    kernel_of(c, program::parse_config(config), device::Isa::Avx2);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(Configs, WhatDoesNotFitIsReported) {
  Case c = product(40, 64, 128, true);
  const std::string rule = program::to_string(configs(c.node, c.program, device::Isa::Avx2)[0]);
  EXPECT_EQ(error_of(c, rule), "");
  const std::pair<const char*, const char*> wrong[] = {
      {"gemm_wgmma(block_m=128)", "is of no form that takes this problem: gemm"},
      {"gemv(task_columns=8,streams=4)", "gemv(task_columns=8,streams=4) does not take this problem: not a few rows"},
      {"gemm(rows=6)", "field 2 is not \"vecs\"; expected one like gemm(rows="},
      {"gemm(rows=6,vecs=2,block_k=128,block_m=42,copy_a=0,groups=1)", "field 6 is not \"group\""},
      {"gemm(rows=6,vecs=2,block_k=128,block_m=42,copy_a=2,group=1)", "copy_a=2 is not from 0 to 1"},
      {"gemm(rows=6,vecs=2,block_k=128,block_m=42,copy_a=0,group=1,depth=2)", "field \"depth\" is unknown"},
      {"gemm(rows=0,vecs=2,block_k=128,block_m=42,copy_a=0,group=1)", "rows=0 is not from 1"},
      {"gemm(rows=600,vecs=2,block_k=128,block_m=600,copy_a=0,group=1)", "do not fit 16 registers"},
      {"gemm(rows=6,vecs=2,block_k=128,block_m=40,copy_a=0,group=1)", "block_m is no multiple of rows"},
  };
  for (auto& [config, why] : wrong) EXPECT_NE(error_of(c, config).find(why), std::string::npos) << config << ": " << error_of(c, config);
  Case loop;
  loop.add(8), loop.add(8, loop::BufferKind::Output);
  loop.set_body("i0: 8", " v0: f32 = load %0 [i0]", 0, "i0");
  EXPECT_TRUE(configs(loop.node, loop.program, device::Isa::Avx2).empty());
  EXPECT_NE(error_of(loop, "gemm(rows=6)").find("leaves nothing open"), std::string::npos);
}

}  // namespace
}  // namespace toroid::codegen

// The text of decoding attention for a GPU: what it reads ahead, what it leaves in the cache, and how blocks that share keys meet.
#include <gtest/gtest.h>

#include "codegen/cuda/generate.h"
#include "template_nodes.h"

namespace toroid::codegen {
namespace {

KernelText text_of(Case c, const std::string& architecture = "sm_90a") {
  device::cuda::GpuInfo gpu;
  gpu.architecture = architecture;
  ConstantMemory constants;
  return generate_cuda(c.node, c.program, gpu, constants);
}
bool has(const KernelText& k, const std::string& words) { return k.source.find(words) != std::string::npos; }

constexpr const char* kPrefetch = "cp.async.bulk.prefetch.L2";

// One query of 32 heads on so many keys.
Case decoding(int64_t keys) {
  Case c = attention(1, 1, 16, 128, DType::BF16);
  auto& a = std::get<program::Attention>(c.node.problem);
  a.heads = a.kv_heads = 32, a.keys = keys;
  a.k.strides = a.v.strides = {32 * keys * 128, keys * 128, 128, 1};
  return c;
}

TEST(CudaAttentionText, BringsFirstKeysBeforeTheKernelBeforeHasEnded) {
  Case c = decoding(4096);
  const KernelText k = text_of(c);
  ASSERT_TRUE(k.overlaps);
  const size_t prefetch = k.source.find(kPrefetch);
  ASSERT_NE(prefetch, std::string::npos);
  EXPECT_LT(prefetch, k.source.find("wait_for_inputs();", k.source.find("__global__")));
  EXPECT_TRUE(has(k, "i < 2; ++i) {\n    const int s = round"));
  EXPECT_TRUE(has(text_of(decoding(2048)), "i < 1; ++i) {\n    const int s = round")) << "fewer where there are fewer";
  EXPECT_FALSE(has(text_of(decoding(64)), kPrefetch)) << "not all of them";
  EXPECT_FALSE(has(text_of(c, "sm_80"), kPrefetch)) << "a Hopper instruction";
  std::get<program::Attention>(c.node.problem).k.strides = {2 * 32 * 4096 * 128, 2 * 4096 * 128, 2 * 128, 1};
  EXPECT_FALSE(has(text_of(c), kPrefetch)) << "rows that are apart are no one piece";
}

TEST(CudaAttentionText, KeysThatOneBlockReadsLeaveTheCacheFirst) {
  EXPECT_TRUE(has(text_of(attention(3, 1, 700, 64, DType::F16)), "L2::evict_first"));
  const KernelText two = text_of(attention(3, 20, 300, 64, DType::F16));
  ASSERT_EQ(two.tasks.constant() % 6, 0) << "two tiles of queries a head: " << two.plan;
  EXPECT_TRUE(has(two, "L2::evict_normal"));
  EXPECT_FALSE(has(two, "L2::evict_first"));
}

TEST(CudaAttentionText, SharedKeysTakeWordsThatAreZeroBetweenLaunches) {
  Case c = attention(3, 1, 700, 64, DType::F16);
  const KernelText k = text_of(c);
  const int64_t splits = k.tasks.constant() / 3;
  ASSERT_GT(splits, 1);
  EXPECT_EQ(k.scratch_bytes, Expr(0));
  // Of each block but the last of a head: one row of 64 sums, and for each 8 of them a peak and a total.
  EXPECT_EQ(k.counters.constant(), 3 * (splits - 1) * (64 + 8 * 2));
  auto& a = std::get<program::Attention>(c.node.problem);
  a.heads = a.kv_heads = 200;
  const KernelText alone = text_of(c);
  EXPECT_EQ(alone.tasks.constant(), 200);
  EXPECT_EQ(alone.counters, Expr(0));
}

}  // namespace
}  // namespace toroid::codegen

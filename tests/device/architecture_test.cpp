#include "device/cuda/architecture.h"

#include <gtest/gtest.h>

#include "errors.h"

namespace toroid::device::cuda {
namespace {

GpuInfo with(const std::string& architecture) {
  GpuInfo out;
  out.architecture = architecture;
  return out;
}

TEST(GpuCode, RunsWhereItsArchitectureIs) {
  for (std::string_view code : known_gpu_codes()) {
    EXPECT_TRUE(is_gpu_code(code));
    if (is_ptx(code)) continue;
    EXPECT_TRUE(runs(code, typical_gpu(std::string(code)))) << code;
    EXPECT_TRUE(runs("compute_80", typical_gpu(std::string(code)))) << code;
  }
  EXPECT_FALSE(runs("sm_80", with("sm_90a")));
  EXPECT_FALSE(runs("sm_90a", with("sm_90")));
  EXPECT_FALSE(runs("compute_90", with("sm_89")));
  EXPECT_TRUE(runs("compute_90", with("sm_100a")));
  for (const char* damaged : {"compute_", "compute_x", "compute_-5", "", "avx2", "sm_"})
    EXPECT_FALSE(runs(damaged, with("sm_90a"))) << damaged;
}

TEST(GpuCode, PtxIsMadeForTheLeastOfAll) {
  const GpuInfo any = typical_gpu("compute_80");
  for (std::string_view code : known_gpu_codes()) EXPECT_LE(any.shared_bytes, typical_gpu(std::string(code)).shared_bytes) << code;
  EXPECT_FALSE(any.is_hopper());
  EXPECT_NE(test::user_error([] { typical_gpu("sm_91"); }).find("sm_90a"), std::string::npos);
}

TEST(GpuCode, TuningKeysNameTheirGpu) {
  for (const char* name : {"NVIDIA H200", "a, b, sm_80", ""})
    for (std::string_view code : known_gpu_codes()) {
      GpuInfo gpu = typical_gpu(std::string(code));
      gpu.name = name, gpu.multiprocessors = 7;
      const auto read = gpu_of_tuning_key(tuning_key(gpu));
      ASSERT_TRUE(read) << tuning_key(gpu);
      EXPECT_EQ(tuning_key(*read), tuning_key(gpu));
      EXPECT_EQ(read->shared_bytes, gpu.shared_bytes);
    }
  for (const char* other :
       {"", "AMD EPYC, 2 threads", "x, sm_77, 1 multiprocessors", "x, sm_80, many multiprocessors", "sm_80, 1 multiprocessors"})
    EXPECT_FALSE(gpu_of_tuning_key(other)) << other;
}

}  // namespace
}  // namespace toroid::device::cuda

#include "device/cpu/isa.h"

#include <gtest/gtest.h>

#include "base/options.h"
#include "toroid/error.h"

namespace toroid::device {
namespace {

TEST(Isa, NamesRoundTrip) {
  for (Isa isa : {Isa::Scalar, Isa::Avx2, Isa::Avx512}) EXPECT_EQ(isa_from_name(name_of(isa)), isa);
  EXPECT_EQ(isa_from_name("native"), host().isa);
  EXPECT_EQ(isa_from_name("auto"), host().isa);
  EXPECT_THROW(isa_from_name("avx3"), UserError);
}

TEST(Isa, AgreesWithTheHostCompilersRuntime) {
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl");
  EXPECT_EQ(host().isa, avx512 ? Isa::Avx512 : avx2 ? Isa::Avx2 : Isa::Scalar);
  EXPECT_EQ(host().avx512_vnni, bool(__builtin_cpu_supports("avx512vnni")));
  EXPECT_EQ(host().avx512_bf16, bool(__builtin_cpu_supports("avx512bf16")));
}

TEST(Isa, SizesArePlausible) {
  EXPECT_GE(host().cores, 1);
  EXPECT_GE(host().l1d_bytes, size_t(8) << 10);
  EXPECT_GE(host().l2_bytes, host().l1d_bytes);
  EXPECT_EQ(host().line_bytes % 32, 0u);
  EXPECT_FALSE(host().model.empty());
}

TEST(Isa, NamesAskForASet) {
  EXPECT_EQ(usable_isa("scalar"), Isa::Scalar);
  EXPECT_EQ(usable_isa("auto"), host().isa);
  if (host().isa == Isa::Avx512) {
    EXPECT_EQ(usable_isa("avx512"), Isa::Avx512);
  } else {
    EXPECT_THROW(usable_isa("avx512"), UserError);
  }
}

}  // namespace
}  // namespace toroid::device

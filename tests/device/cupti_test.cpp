// CUPTI's records as they are read here, and what is said where it cannot record.
#include "device/cuda/cupti.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "toroid/device.h"
#include "toroid/error.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#define SAME(ours, our_field, theirs, their_field) \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && sizeof(ours::our_field) == sizeof(theirs::their_field), \
                "the record has changed")
using toroid::device::cuda::CuptiKernelRecord;
using toroid::device::cuda::CuptiTransferRecord;
SAME(CuptiKernelRecord, kind, CUpti_ActivityKernel10, kind);
SAME(CuptiKernelRecord, start, CUpti_ActivityKernel10, start);
SAME(CuptiKernelRecord, end, CUpti_ActivityKernel10, end);
SAME(CuptiKernelRecord, name, CUpti_ActivityKernel10, name);
SAME(CuptiTransferRecord, bytes, CUpti_ActivityMemcpy6, bytes);
SAME(CuptiTransferRecord, start, CUpti_ActivityMemcpy6, start);
SAME(CuptiTransferRecord, end, CUpti_ActivityMemcpy6, end);
SAME(CuptiTransferRecord, bytes, CUpti_ActivityMemset4, bytes);
SAME(CuptiTransferRecord, start, CUpti_ActivityMemset4, start);
SAME(CuptiTransferRecord, end, CUpti_ActivityMemset4, end);
#endif

namespace toroid::device::cuda {
namespace {

TEST(Cupti, RecordsBecomeActivities) {
  CuptiKernelRecord kernel = {};
  kernel.kind = 10, kernel.start = 100, kernel.end = 250, kernel.name = "_Z3addPfi";
  CuptiTransferRecord copy = {1, 0, 64, 300, 310}, fill = {2, 0, 32, 320, 325}, other = {51, 0, 0, 0, 0};
  std::vector<Activity> all;
  for (const void* record : {static_cast<const void*>(&kernel), static_cast<const void*>(&copy), static_cast<const void*>(&fill),
                             static_cast<const void*>(&other)})
    append_activity(record, all);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "add(float*, int)");
  EXPECT_EQ(all[0].end_ns - all[0].start_ns, 150);
  EXPECT_EQ(all[1].bytes, 64);
  EXPECT_TRUE(all[2].kind == Activity::Kind::Fill && all[2].start_ns == 320);
}

TEST(Cupti, SaysWhyItCannotRecord) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "there is a GPU";
  try {
    ActivityTrace trace;
    EXPECT_TRUE(trace.take().empty());
  } catch (const EnvironmentError& e) {
    EXPECT_NE(std::string(e.what()).find("CUPTI"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace toroid::device::cuda

// Which calls are recorded, and what is told about the others.
#include <gtest/gtest.h>

#include "base/options.h"
#include "errors.h"
#include "exec/plans.h"
#include "exec/run/executable.h"
#include "toroid/error.h"

namespace toroid::exec {
namespace {

using test::contains;
using test::user_error;

Tensor counting(int64_t n, int64_t unit = 1) {
  Tensor t = unit > 1 ? Tensor::empty({n, unit}, DType::F32) : Tensor::empty({n}, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i);
  return t;
}

// Runs a chain of `length` and checks its result.
Tensor run(Executable& e, int64_t n, int length, int64_t unit = 1) {
  const Tensor x = counting(n, unit);
  Tensor y = e.run(std::vector<Tensor>{x})[0];
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float got = y.data<float>()[i], want = x.data<float>()[i] + static_cast<float>(length);
    if (got != want) {
      ADD_FAILURE() << "element " << i << " of " << n << " is " << got << ", expected " << want;
      break;
    }
  }
  return y;
}

TEST(Capture, WarmsUpRecordsAndReplays) {
  Runnable e(chain(9, true));
  run(e, 100, 9);
  auto c = e.captures().counters;
  EXPECT_EQ(std::tuple(c.warmups, c.recordings, c.graph_launches, c.host_launches), std::tuple(1, 0, 0, 9));
  run(e, 100, 9);
  c = e.captures().counters;
  EXPECT_EQ(std::tuple(c.warmups, c.recordings, c.graph_launches, c.host_launches), std::tuple(1, 1, 1, 9));
  run(e, 100, 9);
  c = e.captures().counters;
  EXPECT_EQ(std::tuple(c.recordings, c.graph_launches, c.host_launches), std::tuple(1, 2, 9)) << "one graph launch, nothing else";
  EXPECT_EQ(std::tuple(c.input_copies, c.host_calls, c.skipped, c.rerecordings), std::tuple(0, 0, 0, 0));
  const CaptureReport r = e.captures();
  ASSERT_EQ(r.recordings.size(), 1u);
  EXPECT_EQ(r.recordings[0].kernels, 9);
  EXPECT_EQ(r.recordings[0].sizes, "s0=100");
  EXPECT_EQ(std::tuple(r.steps, r.steps_recorded, r.parts), std::tuple(9, 9, 1));
  EXPECT_TRUE(r.skips.empty());
}

TEST(Capture, WarmsUpAsOftenAsAskedFor) {
  {
    ScopedOption twice("capture_warmups", "3");
    Runnable e(chain(2, true));
    for (int i = 0; i < 4; ++i) run(e, 10, 2);
    EXPECT_EQ(e.captures().counters.warmups, 3);
    EXPECT_EQ(e.captures().counters.recordings, 1);
  }
  Runnable e(chain(2, true));
  for (int i = 0; i < 2; ++i) {
    run(e, 10, 2);
    cudagraph_mark_warmup_incomplete();
  }
  for (int i = 0; i < 3; ++i) run(e, 10, 2);
  EXPECT_EQ(e.captures().counters.warmups, 3) << "two marks make three warm-ups";
  EXPECT_EQ(e.captures().counters.recordings, 1);
}

TEST(Capture, ReferenceCodeRunsBetweenRecordedParts) {
  Runnable e(with_host_call(chain(5, true), 2));
  for (int i = 0; i < 4; ++i) run(e, 64, 5);
  const CaptureReport r = e.captures();
  EXPECT_EQ(r.parts, 2);
  EXPECT_EQ(std::tuple(r.steps, r.steps_recorded), std::tuple(5, 4));
  EXPECT_EQ(r.counters.graph_launches, 3 * 2);
  EXPECT_EQ(r.counters.host_calls, 4);
  ASSERT_EQ(r.skips.size(), 1u);
  const std::string skip = to_string(r.skips[0]);
  EXPECT_TRUE(contains(skip, "unique (model.cpp:12) of chain") && contains(skip, "reference code") && contains(skip, "would help")) << skip;
  ScopedOption hard("capture_require", "1");
  const std::string message = user_error([] { Runnable(with_host_call(chain(5, true), 2)); });
  EXPECT_TRUE(contains(message, "capture_require") && contains(message, "model.cpp:12")) << message;
  ScopedOption shortest("capture_min_launches", "3");
  EXPECT_EQ(cover(with_host_call(chain(5, true), 2), 3).parts, 0) << "parts of two launches are too short";
}

TEST(Capture, SizesThatOnlyTheRunTellsAreNotRecorded) {
  Plan p = chain(2, true);
  p.symbols[0].second = true;
  const Coverage c = cover(p, 1);
  EXPECT_EQ(std::tuple(c.steps, c.steps_recorded, c.parts), std::tuple(2, 0, 0));
  ASSERT_EQ(c.skips.size(), 1u);
  EXPECT_TRUE(contains(to_string(c.skips[0]), "known only while it runs")) << to_string(c.skips[0]);
}

TEST(Capture, ManySizesGiveAWarning) {
  Runnable e(chain(2, true));
  for (int64_t n = 1; n <= 8; ++n)
    for (int i = 0; i < 2; ++i) run(e, n, 2);
  EXPECT_TRUE(e.captures().warnings.empty());
  for (int i = 0; i < 2; ++i) run(e, 9, 2);
  ASSERT_EQ(e.captures().warnings.size(), 1u);
  EXPECT_TRUE(contains(e.captures().warnings[0], "9 different sizes")) << e.captures().warnings[0];
  EXPECT_EQ(e.captures().counters.recordings, 9);
  for (int64_t n = 1; n <= 9; ++n) run(e, n, 2);
  EXPECT_EQ(e.captures().counters.recordings, 9) << "each size keeps its recording";
}

TEST(Capture, OptionsNameTheSizesToRecord) {
  {
    ScopedOption sizes("capture_sizes", "16, 32");
    Runnable e(chain(2, true));
    for (int64_t n : {16, 16, 16, 17, 17, 17, 32, 32, 32}) run(e, n, 2);
    const CaptureReport r = e.captures();
    EXPECT_EQ(std::tuple(r.counters.recordings, r.counters.skipped), std::tuple(2, 3));
    ASSERT_EQ(r.skips.size(), 1u) << "each reason once";
    EXPECT_TRUE(contains(to_string(r.skips[0]), "s0=17 of chain: these sizes are not among capture_sizes")) << to_string(r.skips[0]);
  }
  ScopedOption fixed("capture_skip_dynamic", "1");
  Runnable e(chain(2, true));
  for (int i = 0; i < 3; ++i) run(e, 16, 2);
  EXPECT_EQ(e.captures().counters.recordings, 0);
  EXPECT_TRUE(contains(to_string(e.captures()), "capture_skip_dynamic is set")) << to_string(e.captures());
  ScopedOption hard("capture_require", "1");
  Runnable strict(chain(2, true));
  const std::string message = user_error([&] { run(strict, 16, 2); });
  EXPECT_TRUE(contains(message, "capture_require: a call is not recorded: s0=16 of chain")) << message;
  ScopedOption bad("capture_sizes", "4y");
  EXPECT_TRUE(contains(user_error([] { Runnable(chain(1, true)); }), "is no list of sizes"));
}

TEST(Capture, RunsWithNothingToLaunchAreNotRecorded) {
  Plan p = chain(2, true);
  for (auto& step : p.steps) std::get<Launch>(step).tasks = 0;
  Runnable e(std::move(p));
  for (int i = 0; i < 3; ++i) e.run(std::vector<Tensor>{counting(4)});
  EXPECT_EQ(e.captures().counters.graph_launches, 0);
}

TEST(Capture, MarkedMemoryIsRecordedForItsAddress) {
  Runnable e(chain(3, true));
  Tensor a = counting(50), b = counting(50);
  mark_static_address(a);
  auto call = [&](const Tensor& x) { return e.run(std::vector<Tensor>{x})[0].data<float>()[49]; };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(call(a), 52);
  EXPECT_EQ(e.captures().counters.rerecordings, 0);
  EXPECT_EQ(call(b), 52) << "other memory in its place is seen";
  EXPECT_EQ(e.captures().counters.rerecordings, 1);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(i % 2 ? a : b), 52);
  EXPECT_EQ(e.captures().counters.rerecordings, 1) << "what is not marked is followed, not recorded again";
}

TEST(Capture, RecordingsThatDoNotServeAreReplacedOnlySoOften) {
  ScopedOption limit("capture_rerecord_limit", "3");
  Runnable e(chain(3, true));
  std::vector<Tensor> marked;
  for (int i = 0; i < 10; ++i) {
    marked.push_back(counting(50));
    mark_static_address(marked.back());
    EXPECT_EQ(e.run(std::vector<Tensor>{marked.back()})[0].data<float>()[49], 52);
  }
  const CaptureReport r = e.captures();
  EXPECT_EQ(r.counters.rerecordings, 3);
  EXPECT_EQ(r.counters.skipped, 10 - 1 - 1 - 3);
  EXPECT_TRUE(contains(to_string(r), "capture_rerecord_limit")) << to_string(r);
}

}  // namespace
}  // namespace toroid::exec

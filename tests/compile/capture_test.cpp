// Calls replayed as one, on every device that is there.
#include <cmath>

#include "base/options.h"
#include "compile/harness.h"
#include "front/compile_model.h"
#include "toroid/buckets.h"
#include "toroid/device.h"
#include "toroid/device_stream.h"

namespace toroid {
namespace {

using compiler::CompiledModel;

class Captures : public testing::TestWithParam<DeviceType> {
 protected:
  void SetUp() override {
    device_.type = GetParam();
    if (device_.is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
    release_captures(device_);
  }
  CompiledModel compiled(const std::string& text) {
    return front::compile_model(graph::parse(text), {.device = device_, .mode = Mode::ReduceOverhead});
  }
  Tensor on_device(const Tensor& t) const { return t.to(device_); }
  static double at(const Tensor& t, int64_t i) { return t.to(Device::cpu()).to_vector()[static_cast<size_t>(i)]; }

  Device device_;
};

// Rows that do not depend on each other, of any number: two reductions, so that there are several launches.
const char* const kRows = R"(graph "rows"(%x: f32[s0, 96], %w: f32[96, 64]) symbols(s0 in 1..4096) {
  %a: f32[s0, 64] = mm(%x, %w)
  %b: f32[s0, 64] = tanh(%a)
  %c: f32[s0, 1] = sum.dim_IntList(%b, [1], true)
  %d: f32[s0, 64] = sub.Tensor(%b, %c)
  return %d
})";

Tensor rows(int64_t n) {
  Tensor t = Tensor::empty({n, 96}, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>((i * 37 + 11) % 64) / 640.0F;
  return t;
}
Tensor weight() {
  Tensor t = Tensor::empty({96, 64}, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>((i * 29 + 5) % 32) / 320.0F - 0.05F;
  return t;
}
std::vector<double> expected_rows(const Tensor& x, const Tensor& w) {
  std::vector<double> out;
  for (int64_t r = 0; r < x.sizes()[0]; ++r) {
    double row[64], sum = 0;
    for (int64_t j = 0; j < 64; ++j) {
      double dot = 0;
      for (int64_t k = 0; k < 96; ++k) dot += static_cast<double>(x.data<float>()[r * 96 + k]) * w.data<float>()[k * 64 + j];
      sum += row[j] = std::tanh(dot);
    }
    for (double v : row) out.push_back(v - sum);
  }
  return out;
}
void expect_near(const Tensor& got, const std::vector<double>& want, const std::string& what) {
  const auto values = got.to(Device::cpu()).to_vector();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(values[i], want[i], 2e-3 * (1 + std::fabs(want[i]))) << what << ", element " << i;
}

// Inputs and results are in other memory at each call: one launch follows them, without a copy, and earlier results stay.
TEST_P(Captures, ASteadyCallIsOneGraphLaunch) {
  CompiledModel m = compiled(kRows);
  const Tensor w = weight();
  std::vector<Tensor> inputs, results;
  const Tensor weights = on_device(w);
  CaptureCounters before;
  for (int64_t call = 0; call < 8; ++call) {
    inputs.push_back(on_device(rows(33)));
    if (call == 4) before = m.executable().captures().counters;
    results.push_back(m.run(std::vector<Tensor>{inputs.back(), weights})[0]);
  }
  const CaptureReport r = m.executable().captures();
  EXPECT_EQ(r.counters.graph_launches - before.graph_launches, 4);
  EXPECT_EQ(r.counters.host_launches, before.host_launches);
  EXPECT_EQ(r.counters.host_calls, 0);
  EXPECT_EQ(r.counters.input_copies, 0);
  EXPECT_EQ(std::tuple(r.counters.recordings, r.counters.rerecordings), std::tuple(1, 0));
  EXPECT_TRUE(r.skips.empty()) << to_string(r);
  for (auto& y : results) expect_near(y, expected_rows(rows(33), w), "a call");
}

// Work of two streams may overlap: neither uses the other's temporaries.
TEST_P(Captures, StreamsHaveMemoryOfTheirOwn) {
  CompiledModel m = compiled(kRows);
  const Tensor w = weight(), weights = on_device(w), x = on_device(rows(3000));
  const Stream other(device_);
  synchronize(device_);
  std::vector<Tensor> results;
  for (int call = 0; call < 6; ++call) {
    results.push_back(m.run(std::vector<Tensor>{x, weights})[0]);
    const StreamGuard guard(other);
    results.push_back(m.run(std::vector<Tensor>{x, weights})[0]);
  }
  synchronize(device_);
  other.synchronize();
  const auto want = expected_rows(rows(3000), w);
  for (auto& y : results) expect_near(y, want, "a call");
  EXPECT_EQ(capture_report(device_).recordings.size(), device_.is_cuda() ? 2u : 1u);
}

TEST_P(Captures, AnySizeUpTo256TakesAtMost16Graphs) {
  int64_t alone = 0;
  const Tensor w = weight(), weights = on_device(w);
  {
    CompiledModel m = compiled(kRows);
    for (int i = 0; i < 2; ++i) m.run(std::vector<Tensor>{on_device(rows(256)), weights});
    alone = capture_report(device_).pool_bytes;
  }
  release_captures(device_);
  CompiledModel m = compiled(kRows);
  const Bucketed f([&](std::span<const Tensor> in) { return m.run(in); }, {.sizes = bucket_sizes(256)});
  for (int64_t n = 1; n <= 256; n += n < 16 ? 1 : 7)
    for (int i = 0; i < 2; ++i) {
      const Tensor y = f({on_device(rows(n)), weights})[0];
      ASSERT_EQ(y.sizes(), (std::vector<int64_t>{n, 64}));
      expect_near(y, expected_rows(rows(n), w), std::to_string(n) + " rows");
    }
  const CaptureReport r = capture_report(device_);
  EXPECT_LE(r.recordings.size(), 16u);
  EXPECT_EQ(r.counters.skipped, 0) << to_string(r);
  EXPECT_LE(static_cast<double>(r.pool_bytes), 1.3 * static_cast<double>(alone));
  EXPECT_GT(f.report().waste(), 0);
  EXPECT_LT(f.report().waste(), 0.35) << to_string(f.report());
}

TEST_P(Captures, WritesToInputsAreMadeInPlace) {
  CompiledModel m = compiled(R"(graph "cache"(%cache: f32[8, 16], %x: f32[1, 16], %at: i64[1]) {
    %new: f32[8, 16] = index_put(%cache, [%at], %x)
    %sum: f32[16] = sum.dim_IntList(%new, [0])
    return %sum, (input 0 <- %new)
  })");
  const Tensor cache = on_device(Tensor::full(std::vector<int64_t>{8, 16}, 0));
  const auto* memory = cache.raw_data();
  for (int64_t step = 0; step < 8; ++step) {
    const Tensor x = on_device(Tensor::full(std::vector<int64_t>{1, 16}, static_cast<double>(step + 1)));
    const Tensor place = on_device(Tensor::full(std::vector<int64_t>{1}, static_cast<double>(step), DType::I64));
    const Tensor sum = m.run(std::vector<Tensor>{cache, x, place})[0];
    EXPECT_EQ(at(sum, 3), static_cast<double>((step + 1) * (step + 2) / 2)) << "after " << step + 1 << " steps";
  }
  EXPECT_EQ(cache.raw_data(), memory);
  EXPECT_EQ(at(cache, 7 * 16), 8);
  EXPECT_EQ(m.executable().captures().counters.graph_launches, 7);
  EXPECT_EQ(m.executable().captures().counters.input_copies, 0);
}

TEST_P(Captures, ReferenceCodeIsCutOut) {
  const char* text = R"(graph "cut"(%x: f32[4, 8], %edges: f32[5]) {
    %a: f32[4, 8] = mul.Tensor(%x, 2)
    %b: i64[4, 8] = searchsorted.Tensor(%edges, %a)
    %c: f32[4, 8] = add.Tensor(%a, %b)
    return %c
  })";
  CompiledModel m = compiled(text);
  const Tensor edges = on_device(Tensor::of({0, 2, 4, 6, 8}, {5}));
  for (int i = 0; i < 4; ++i) {
    const Tensor x = on_device(Tensor::full(std::vector<int64_t>{4, 8}, i));
    const Tensor y = m.run(std::vector<Tensor>{x, edges})[0];
    EXPECT_EQ(at(y, 31), 2.0 * i + i) << i;
  }
  const CaptureReport r = m.executable().captures();
  EXPECT_EQ(r.parts, 2);
  EXPECT_EQ(r.counters.graph_launches, 3 * 2);
  EXPECT_EQ(r.counters.host_calls, 4);
  ASSERT_EQ(r.skips.size(), 1u) << to_string(r);
  EXPECT_TRUE(test::contains(to_string(r), "searchsorted")) << to_string(r);
  ScopedOption hard("capture_require", "1");
  EXPECT_TRUE(test::contains(test::user_error([&] { compiled(text); }), "capture_require"));
}

TEST_P(Captures, ControlFlowRunsBetweenRecordedParts) {
  CompiledModel m = compiled(R"(graph "c"(%p: bool[], %x: f32[64, 32]) {
    %h: f32[64, 32] = mul.Tensor(%x, 3)
    %c: f32[64, 32] = cond(%p, [%h]) {
      graph "then"(%a: f32[64, 32]) {
        %r: f32[64, 32] = mul.Tensor(%a, 2)
        return %r
      }
    } {
      graph "else"(%a: f32[64, 32]) {
        %r: f32[64, 32] = add.Tensor(%a, 1)
        return %r
      }
    }
    %y: f32[64, 32] = sub.Tensor(%c, 5)
    return %y
  })");
  for (int i = 0; i < 8; ++i) {
    const bool first = i % 2 == 0;
    const Tensor p = on_device(Tensor::full(std::vector<int64_t>{}, first, DType::Bool));
    const Tensor x = on_device(Tensor::full(std::vector<int64_t>{64, 32}, i));
    EXPECT_EQ(at(m.run(std::vector<Tensor>{p, x})[0], 100), first ? 6.0 * i - 5 : 3.0 * i - 4) << i;
  }
  const CaptureReport r = m.executable().captures();
  EXPECT_EQ(r.counters.graph_launches, 7 * 2);
  EXPECT_TRUE(test::contains(to_string(r), "reads its predicate")) << to_string(r);
  const CaptureReport all = capture_report(device_);
  EXPECT_EQ(all.recordings.size(), 3u) << "the blocks are recorded by themselves: " << to_string(all);
}

TEST_P(Captures, AResultFedBackIsRightInSharedMemory) {
  ScopedOption shared("capture_results", "pool");
  CompiledModel m = compiled(R"(graph "step"(%x: f32[300, 200]) {
    %m: f32[300, 1] = mean.dim(%x, [1], true)
    %c: f32[300, 200] = sub.Tensor(%x, %m)
    %y: f32[300, 200] = add.Tensor(%c, 1)
    return %y
  })");
  Tensor x = on_device(Tensor::full(std::vector<int64_t>{300, 200}, 5)), before = x;
  for (int i = 0; i < 10; ++i) {
    before = x;
    x = m.run(std::vector<Tensor>{x})[0];
    EXPECT_NEAR(at(x, 59999), 1, device_.is_cuda() ? 1e-6 : 0) << i;  // a GPU divides to two units in the last place
  }
  EXPECT_LE(m.executable().captures().recordings.size(), 2u);
  m.run(std::vector<Tensor>{x});
  EXPECT_TRUE(test::contains(test::user_error([&] { at(before, 0); }), "was overwritten by a later run of \"step\""));
}

INSTANTIATE_TEST_SUITE_P(Devices, Captures, testing::Values(DeviceType::Cpu, DeviceType::Cuda),
                         [](auto& info) { return info.param == DeviceType::Cpu ? "Cpu" : "Cuda"; });

}  // namespace
}  // namespace toroid

// Mode max-autotune where sizes are open: regions are tuned at the sizes that the trace saw, and right at all.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/options.h"
#include "compile/harness.h"
#include "compile/tuning.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "toroid/custom_op.h"
#include "toroid/ops.h"
#include "tune/check/check.h"
#include "tune/search/whole.h"

namespace toroid {
namespace {

using compiler::CompiledModel;
using test::Forward;

class SymbolicTuning : public testing::Test {
 protected:
  static std::string file() { return (std::filesystem::path(testing::TempDir()) / "symbolic_tuning_test_db").string(); }
  void SetUp() override {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file() + suffix);
  }
  ScopedOption database_{"tune_database", file()};
  ScopedOption region_{"tune_region_ms", "4000"}, whole_{"tune_whole_ms", "0"};
};

Tensor ramp(const std::vector<int64_t>& sizes, double step) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  return t;
}

void expect_near(const Tensor& a, const Tensor& b, double bound = 1e-3) {
  ASSERT_EQ(a.sizes(), b.sizes());
  auto x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], bound * (1 + std::abs(y[i]))) << "element " << i;
}

// What `forward` does to tensors whose first size is open; others have the sizes that are given.
std::unique_ptr<graph::Graph> open_graph(const Forward& forward, const std::vector<Tensor>& inputs) {
  trace::Tracer tracer("traced", nullptr);
  std::vector<Tensor> results;
  {
    std::vector<Tensor> stand_ins;
    for (size_t i = 0; i < inputs.size(); ++i)
      stand_ins.push_back(tracer.argument(inputs[i], "input",
                                          i == 0 ? std::vector<trace::SizePolicy>{{.dynamic = true}} : std::vector<trace::SizePolicy>{}));
    trace::Tracer::Scope scope(&tracer);
    results = {forward(stand_ins)};
  }
  return std::move(tracer.finish(std::move(results)).graph);
}

CompiledModel tuned(const Forward& forward, const std::vector<Tensor>& inputs) {
  return front::compile_model(open_graph(forward, inputs), {.mode = Mode::MaxAutotune});
}

const Forward kProduct = [](const std::vector<Tensor>& in) { return relu(matmul(in[0], in[1]) + in[2]); };
std::vector<Tensor> operands(int64_t m) { return {ramp({m, 256}, 0.1), ramp({256, 48}, 0.3), ramp({48}, 0.7)}; }

// As a lock file says, at sizes that nobody has timed.
TEST_F(SymbolicTuning, ASumOfProductsIsOneProduct) {
  const ScopedOption brief("tune_region_ms", "200");
  const Forward sum = [](const std::vector<Tensor>& in) { return relu(matmul(in[0], in[1]) + matmul(exp(in[0]), in[2])); };
  const auto inputs = [](int64_t m) { return std::vector<Tensor>{ramp({m, 40}, 0.1), ramp({40, 96}, 0.3), ramp({40, 96}, 0.7)}; };
  CompiledModel first = tuned(sum, inputs(24));
  std::string lock = first.report().tuning.decided.text();
  const tune::RegionReport& one = first.report().tuning.regions.at(0);
  ASSERT_EQ(one.rows.size(), 2u) << one.label << " " << one.source;
  const size_t at = lock.find("winner", lock.find(one.key.hex()));
  lock.replace(at, lock.find('\n', at) - at, "winner \"" + one.rows[1].text + "\"");
  tune::LockFile::parse(lock).write(file() + "_lock");
  const ScopedOption from("tune_lock", file() + "_lock");
  CompiledModel locked = tuned(sum, inputs(24)), plain = front::compile_model(open_graph(sum, inputs(24)));
  EXPECT_EQ(locked.report().tuning.regions.at(0).source, "lock file");
  for (int64_t m : {24, 2, 33, 130}) expect_near(locked.run(inputs(m)).at(0), plain.run(inputs(m)).at(0));
}

// Beside the untuned model, which is compared with the reference elsewhere.
TEST_F(SymbolicTuning, ProductsOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (DType dtype : {DType::F32, DType::BF16}) {
    const auto inputs = [&](int64_t m) {
      std::vector<Tensor> out;
      for (auto& t : operands(m)) out.push_back(to(t, dtype).to(Device::cuda()));
      return out;
    };
    CompiledModel untuned = front::compile_model(open_graph(kProduct, inputs(24)), {.device = Device::cuda()});
    CompiledModel model = front::compile_model(open_graph(kProduct, inputs(24)), {.device = Device::cuda(), .mode = Mode::MaxAutotune});
    const tune::RegionReport& region = model.report().tuning.regions.at(0);
    EXPECT_EQ(region.source.substr(0, 15), "timed at s0=24") << tune::to_string(model.report().tuning);
    for (auto& row : region.rows) EXPECT_FALSE(row.measured.failed) << row.name << ": " << row.measured.status;
    for (int64_t m : {2, 24, 65, 300}) {
      const Tensor got = model.run(inputs(m)).at(0).to(Device::cpu()), want = untuned.run(inputs(m)).at(0).to(Device::cpu());
      expect_near(to(got, DType::F32), to(want, DType::F32), dtype == DType::F32 ? 1e-3 : 2e-2);
    }
  }
}

// The tuner with the compiler's pipeline.
struct Tuner {
  compiler::Setup setup = front::setup_of({.mode = Mode::MaxAutotune});
  std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);
  std::shared_ptr<const tune::Pipeline> pipeline = compiler::pipeline_for({.setup = setup, .target = target});

  program::Program lowered(const Forward& forward, const std::vector<Tensor>& inputs) const {
    return lower::lower(*graph::run_passes(open_graph(forward, inputs), graph::pipeline(graph::kFrozen)), {.target = target.get()});
  }
  std::vector<Tensor> run(const program::Program& p, const std::vector<Tensor>& inputs) const {
    auto build = pipeline->build(pipeline->schedule(p));
    build->compile();
    return exec::Executable(build->plan()).run(inputs);
  }
};

TEST_F(SymbolicTuning, AProductIsTunedAtTheSizeThatWasSeen) {
  CompiledModel model = tuned(kProduct, operands(24));
  ASSERT_EQ(model.report().tuning.regions.size(), 1u);
  const tune::RegionReport& region = model.report().tuning.regions[0];
  EXPECT_EQ(region.source.substr(0, 15), "timed at s0=24") << tune::to_string(model.report().tuning);
  EXPECT_GT(region.originals, 2u);
  for (auto& row : region.rows) EXPECT_FALSE(row.measured.failed) << row.name << ": " << row.measured.status;
  for (int64_t m : {2, 7, 24, 25, 130}) expect_near(model.run(operands(m)).at(0), kProduct(operands(m)));
}

using Inputs = std::function<std::vector<Tensor>(int64_t)>;

// Each choice of a region in turn is the fastest. Returns how many there were.
size_t expect_all_right(const Forward& forward, const Inputs& inputs) {
  const Tuner tuner;
  const program::Program lowered = tuner.lowered(forward, inputs(24));
  size_t count = 1;
  for (size_t planted = 0; planted < count; ++planted) {
    tune::SearchOptions how;
    how.whole_ms = 0;
    how.clock = [&](std::span<const std::shared_ptr<tune::ChoiceCaller>> callers) -> tune::Sample {
      count = std::max(count, callers.size());
      return [planted](size_t i) { return i == planted ? 1e6 : 2e6; };
    };
    tune::TuneReport report;
    const program::Program p = tune::tune(lowered, tuner.pipeline, how, nullptr, report);
    for (auto& region : report.regions) EXPECT_EQ(region.winner, planted < region.rows.size() ? planted : 0) << tune::to_string(report);
    for (int64_t n : {3, 24, 65}) expect_near(tuner.run(p, inputs(n)).at(0), forward(inputs(n)));
  }
  return count;
}

TEST_F(SymbolicTuning, WhateverWinsIsRightAtAllSizes) { EXPECT_GT(expect_all_right(kProduct, operands), 3u); }

TEST_F(SymbolicTuning, SumsOfOpenLength) {
  const Forward squared = [](const std::vector<Tensor>& in) { return matmul(transpose(in[0], 0, 1), in[0]); };
  EXPECT_GT(expect_all_right(squared, [](int64_t n) { return std::vector{ramp({n, 48}, 0.1)}; }), 1u);
}

TEST_F(SymbolicTuning, AttentionOfOpenLength) {
  const Forward attention = [](const std::vector<Tensor>& in) {
    const Tensor x = unsqueeze(permute(in[0], {1, 0, 2}), 0);
    return scaled_dot_product_attention(x, x, x);
  };
  EXPECT_GT(expect_all_right(attention, [](int64_t n) { return std::vector{ramp({n, 4, 32}, 0.1)}; }), 1u);
}

TEST_F(SymbolicTuning, ConvolutionsOfOpenBatches) {
  const Tensor weight = ramp({16, 8, 3, 3}, 0.2);
  const Forward convolution = [weight](const std::vector<Tensor>& in) { return relu(conv2d(in[0], weight, {}, 1, 1)); };
  EXPECT_GT(expect_all_right(convolution, [](int64_t n) { return std::vector{ramp({n, 8, 6, 6}, 0.1)}; }), 1u);
}

TEST_F(SymbolicTuning, ASecondCompileTimesNothingAndOtherSizesAreTimed) {
  tuned(kProduct, operands(24));
  CompiledModel again = tuned(kProduct, operands(24));
  EXPECT_EQ(again.report().tuning.regions.at(0).source, "database");
  EXPECT_EQ(again.report().tuning.compiled, 0u);
  CompiledModel other = tuned(kProduct, operands(40));
  EXPECT_EQ(other.report().tuning.regions.at(0).source.substr(0, 15), "timed at s0=40");
  const tune::LockFile lock = again.report().tuning.decided;
  EXPECT_EQ(lock.size(), 1u);
}

TEST_F(SymbolicTuning, ALockFileDecidesTheSizesThatItWasMadeFor) {
  const Tuner tuner;
  const program::Program lowered = tuner.lowered(kProduct, operands(24));
  tune::SearchOptions how;
  how.whole_ms = 0;
  int samples = 0;
  how.clock = [&](std::span<const std::shared_ptr<tune::ChoiceCaller>>) -> tune::Sample {
    return [&](size_t i) { return ++samples, i == 1 ? 1e6 : 2e6; };
  };
  tune::Memory empty("a device", "tests", {});
  tune::TuneReport first, locked, other;
  const program::Program p = tune::tune(lowered, tuner.pipeline, how, &empty, first);
  const tune::LockFile lock = tune::LockFile::parse(first.decided.text());
  const int timed = samples;
  EXPECT_GT(timed, 0);
  tune::Memory memory("a device", "tests", {.lock = &lock});
  EXPECT_EQ(program::to_string(tune::tune(lowered, tuner.pipeline, how, &memory, locked)), program::to_string(p));
  EXPECT_EQ(locked.regions.at(0).source, "lock file");
  tune::tune(tuner.lowered(kProduct, operands(40)), tuner.pipeline, how, &memory, other);
  EXPECT_EQ(other.regions.at(0).drift, "the lock file does not decide it");
  EXPECT_EQ(samples, timed);
}

// Right for the five rows of the example alone.
TEST_F(SymbolicTuning, WhatIsRightAtTheSizeThatWasSeenAloneIsRefused) {
  static auto average = [] {
    auto op = custom_op("symbolic_tuning::average(Tensor x) -> Tensor", [](const Tensor& x) { return mean(x, {0}, false); });
    register_custom_op_autotuning(op, {{.name = "fifth", .decomposition = [](const Tensor& x) { return sum(x, {0}, false) * 0.2; }}});
    return op;
  }();
  const Forward forward = [](auto& in) { return relu(average(in[0])); };
  CompiledModel model = tuned(forward, {ramp({5, 64}, 0.1)});
  size_t refused = 0;
  for (auto& row : model.report().tuning.regions.at(0).rows) {
    if (!test::contains(row.name, "fifth")) continue;
    ++refused;
    EXPECT_TRUE(test::contains(row.measured.status, "not equivalent to the default at s0=3")) << row.name << ": " << row.measured.status;
  }
  EXPECT_GE(refused, 1u) << tune::to_string(model.report().tuning);
  for (int64_t n : {4, 5, 9}) expect_near(model.run(std::vector{ramp({n, 64}, 0.1)}).at(0), forward({ramp({n, 64}, 0.1)}));
}

TEST_F(SymbolicTuning, SizesFromDataKeepTheDefault) {
  const Forward forward = [](const std::vector<Tensor>& in) { return matmul(to(nonzero(in[0] > 0), DType::F32), in[1]); };
  const std::vector<Tensor> inputs = {ramp({6, 4}, 0.5), ramp({2, 8}, 0.3)};
  CompiledModel model = tuned(forward, inputs);
  bool seen = false;
  for (auto& region : model.report().tuning.regions)
    seen = seen ||
           (test::contains(region.source, "not tuned: the size u") && test::contains(region.source, "is known only when the program runs"));
  EXPECT_TRUE(seen) << tune::to_string(model.report().tuning);
  expect_near(model.run(inputs).at(0), forward(inputs));
}

TEST_F(SymbolicTuning, TrialsInAProcessOfTheirOwnRunAtTheSizesThatWereSeen) {
  const ScopedOption isolated("tune_isolated", "1");
  CompiledModel model = tuned(kProduct, operands(24));
  const tune::RegionReport& region = model.report().tuning.regions.at(0);
  EXPECT_EQ(region.source.substr(0, 15), "timed at s0=24") << tune::to_string(model.report().tuning);
  for (auto& row : region.rows) EXPECT_FALSE(row.measured.failed) << row.name << ": " << row.measured.status;
  for (int64_t m : {7, 24, 130}) expect_near(model.run(operands(m)).at(0), kProduct(operands(m)));
}

TEST_F(SymbolicTuning, AWholeProgramIsComparedAtTheSizesThatWereSeen) {
  const Tuner tuner;
  const program::Program lowered = tuner.lowered(kProduct, operands(24));
  const tune::WholeTime w = tune::compare_whole(lowered, lowered, *tuner.pipeline, 2000, 1e9);
  EXPECT_EQ(w.refusal, "");
  EXPECT_GT(w.ratio, 0);
  EXPECT_EQ(tune::compare_whole(lowered, lowered, *tuner.pipeline, 2000, 0).refusal, "the budget was used");
}

TEST_F(SymbolicTuning, WholeProgramsThatTakeLongerThanTheWishAreComparedAllTheSame) {
  const Tuner tuner;
  const program::Program lowered = tuner.lowered(kProduct, operands(24));
  double now = 0;
  const tune::Clock slow = [&now] { return now += 100; };  // milliseconds
  const tune::WholeTime w = tune::compare_whole(lowered, lowered, *tuner.pipeline, 150, 1e9, slow);
  EXPECT_EQ(w.refusal, "");
  EXPECT_GT(w.ratio, 0);
}

}  // namespace
}  // namespace toroid

// Mode max-autotune from end to end, on the CPU.
#include "compile/tuning.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/options.h"
#include "compile/harness.h"
#include "device/cpu/isa.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "jit/jit.h"
#include "lower/lowering.h"
#include "toroid/compile.h"
#include "toroid/custom_op.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/tuning.h"
#include "tune/check/check.h"
#include "tune/isolate/vet.h"
#include "tune/region/precompile.h"
#include "tune/search/choices.h"

namespace toroid {
namespace {

using compiler::CompiledModel;
using test::Forward;
using test::graph_of;

// What tuning finds is remembered here alone.
class Tuning : public testing::Test {
 protected:
  static std::string file(const std::string& name) {
    return (std::filesystem::path(testing::TempDir()) / ("tuning_test_" + name)).string();
  }
  void SetUp() override {
    for (const char* name : {"db", "db-wal", "db-shm", "lock", "lock again"}) std::filesystem::remove(file(name));
  }
  static CompiledModel tuned(const Forward& forward, const std::vector<Tensor>& inputs) {
    return front::compile_model(graph_of(forward, inputs), {.mode = Mode::MaxAutotune});
  }
  ScopedOption database_{"tune_database", file("db")};
  ScopedOption region_{"tune_region_ms", "4000"};  // more than it takes, also on a busy machine
  ScopedOption whole_{"tune_whole_ms", "0"};       // what a busy machine says of a whole program is tested in tests/tune
};

Tensor ramp(const std::vector<int64_t>& sizes, double step) {
  Tensor t = Tensor::empty(sizes, DType::F32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  return t;
}

void expect_near(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  auto x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-3 * (1 + std::abs(y[i]))) << "element " << i;
}

const Forward kProduct = [](const std::vector<Tensor>& in) { return relu(matmul(in[0], in[1]) + in[2]); };
std::vector<Tensor> operands(int64_t m, int64_t n, int64_t k) { return {ramp({m, k}, 0.1), ramp({k, n}, 0.3), ramp({n}, 0.7)}; }

TEST_F(Tuning, ATunedProductComputesTheSame) {
  const auto inputs = operands(48, 64, 2048);
  CompiledModel model = tuned(kProduct, inputs);
  expect_near(model.run(inputs).at(0), front::compile_model(graph_of(kProduct, inputs)).run(inputs).at(0));
  const tune::TuneReport& r = model.report().tuning;
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_EQ(r.regions[0].source.substr(0, 5), "timed");
  EXPECT_GT(r.regions[0].originals, 4u);
  const std::string text = tune::to_string(r);
  for (const char* part : {"default", "template  gemm(", "subgraph  decompose_k(splits=2)", "fused     default alone"})
    EXPECT_TRUE(test::contains(text, part)) << part << " in\n" << text;
}

// The choices of the one region of a program.
struct OneRegion {
  OneRegion(const Forward& forward, const std::vector<Tensor>& inputs) {
    const compiler::Setup setup = front::setup_of({.mode = Mode::MaxAutotune});
    const std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);
    const auto pipeline = compiler::pipeline_for({.setup = setup, .target = target});
    auto g = graph::run_passes(graph_of(forward, inputs), graph::pipeline(graph::kFrozen));
    const program::Program lowered = lower::lower(*g, {.target = target.get()});
    regions = tune::find_regions(lowered, pipeline->schedule(lowered), 3);
    EXPECT_EQ(regions.size(), 1u);
    tune::RegionReport report;
    callers = tune::choices_of(regions.at(0), pipeline, {}, report);
  }
  std::vector<tune::Region> regions;
  std::vector<std::shared_ptr<tune::ChoiceCaller>> callers;
};

// Every way to compute it, whether it is fast or not.
TEST_F(Tuning, AllChoicesAreEquivalent) {
  const OneRegion one(kProduct, operands(20, 40, 1024));
  const auto& [regions, callers] = one;
  ASSERT_GT(callers.size(), 6u);
  tune::precompile(callers, 2);
  for (auto& c : callers) EXPECT_EQ(c->compiles(), 1) << c->name();
  const tune::Sample sample = tune::time_checked(callers, regions[0], Device::cpu());
  for (size_t i = 0; i < callers.size(); ++i) EXPECT_GT(sample(i), 0) << callers[i]->name();
  for (auto& c : callers) EXPECT_EQ(c->compiles(), 1) << c->name() << " was compiled again to be timed";
}

TEST_F(Tuning, ASecondCompileTimesNothing) {
  const auto inputs = operands(24, 32, 512);
  tuned(kProduct, inputs);
  CompiledModel again = tuned(kProduct, inputs);
  EXPECT_EQ(again.report().tuning.regions.at(0).source, "database");
  EXPECT_EQ(again.report().tuning.compiled, 0u);
}

TEST_F(Tuning, ALockFileGivesTheSameKernelsWithoutTiming) {
  const auto inputs = operands(24, 32, 512);
  CompiledModel first = tuned(kProduct, inputs);
  first.report().tuning.decided.write(file("lock"));
  const std::string bytes = read_file(file("lock"));
  const ScopedOption lock("tune_lock", file("lock"));
  const ScopedOption nothing("tune_database", "none");
  for (int run = 0; run < 2; ++run) {
    CompiledModel model = tuned(kProduct, inputs);
    EXPECT_EQ(model.sources(), first.sources());
    EXPECT_EQ(model.report().tuning.regions.at(0).source, "lock file");
    EXPECT_EQ(model.report().tuning.regions.at(0).drift, "");
    model.report().tuning.decided.write(file("lock again"));
    EXPECT_EQ(read_file(file("lock again")), bytes);
  }
  const ScopedOption missing("tune_lock", file("no such lock"));
  EXPECT_THROW(tuned(kProduct, inputs), Error);
}

TEST_F(Tuning, DeterministicTimesNothing) {
  const ScopedOption deterministic("deterministic", "1");
  const auto inputs = operands(24, 32, 256);
  CompiledModel model = tuned(kProduct, inputs);
  EXPECT_EQ(model.report().tuning.compiled, 0u);
  EXPECT_EQ(model.sources(), front::compile_model(graph_of(kProduct, inputs)).sources());
}

// A sum that is cut into parts is rounded otherwise, unless these are the blocks that the template sums by themselves.
TEST_F(Tuning, StrictTakesOnlyWhatHasTheSameBits) {
  const ScopedOption strict("tune_strict", "1");
  const auto inputs = operands(48, 64, 2048);
  CompiledModel model = tuned(kProduct, inputs);
  size_t refused = 0;
  for (auto& row : model.report().tuning.regions.at(0).rows) {
    if (!test::contains(row.text, "decompose_k") || !row.measured.failed) continue;  // timed, as its bits were the same
    ++refused;
    EXPECT_TRUE(test::contains(row.measured.status, "expected exactly")) << row.name << ": " << row.measured.status;
  }
  EXPECT_GT(refused, 0u);
  const auto x = model.run(inputs).at(0).to_vector(), y = front::compile_model(graph_of(kProduct, inputs)).run(inputs).at(0).to_vector();
  EXPECT_EQ(x, y);
}

// All that the public headers offer.
TEST_F(Tuning, AFunctionsChoicesCanBeRestrictedSeenAndLocked) {
  const auto layer = [](const Tensor& a, const Tensor& b, const Tensor& c) { return relu(matmul(a, b) + c); };
  const auto inputs = operands(24, 32, 512);
  std::vector<TuneResult> found;
  const TuneFeedback feedback([&](const TuneResult& r) { found.push_back(r); });
  const auto call = [&](std::map<std::string, std::string> options) {
    found.clear();
    compile(layer, {.mode = Mode::MaxAutotune, .options = std::move(options)})(inputs[0], inputs[1], inputs[2]);
    EXPECT_EQ(found.size(), 1u);
    return found.at(0).parts.at(0);
  };
  EXPECT_EQ(call({{"tune_backends", "none"}, {"tune_choices", "gemm"}}).choices.size(), 0u) << "nothing is timed";
  EXPECT_TRUE(call({{"tune_backends", "subgraph"}}).chosen == "default" || test::contains(found.at(0).parts[0].chosen, "decompose_k"));
  const TunedPart part = call({{"tune_backends", "template"}, {"tune_choices", "gemm"}});
  ASSERT_GT(part.choices.size(), 1u);
  EXPECT_EQ(part.choices[0].kind, "default");
  for (size_t i = 1; i < part.choices.size(); ++i) EXPECT_EQ(part.choices[i].kind, "template") << part.choices[i].name;
  write_tune_lock(file("lock"), found);
  const std::map<std::string, std::string> locked = {{"tune_lock", file("lock")}, {"tune_lock_check", "1"}};
  const TunedPart again = call(locked);
  EXPECT_EQ(again.source, "lock file");
  EXPECT_EQ(again.drift, "");
  EXPECT_EQ(again.chosen, part.chosen);
  std::string text = read_file(file("lock"));
  const size_t at = text.find("kernels ") + 8;
  text[at] = text[at] == '0' ? '1' : '0';
  write_file_atomic(file("lock"), text);
  EXPECT_TRUE(test::contains(call(locked).drift, "its kernels are ")) << found.at(0).parts[0].drift;
  for (size_t device = text.find("device \"") + 8; text[device] != '"'; ++device) text[device] = 'X';
  write_file_atomic(file("lock"), text);
  EXPECT_TRUE(test::contains(call(locked).drift, "the lock file decides for XX")) << found.at(0).parts[0].drift;
  const std::string bad = test::user_error([&] { call({{"tune_choices", "gemm("}}); });
  EXPECT_TRUE(test::contains(bad, "tune_choices: \"gemm(\" is no regular expression")) << bad;
}

TEST_F(Tuning, TheBudgetIsObeyed) {
  const ScopedOption budget("tune_budget_ms", "1"), off("tune_precompile", "0");  // less than the choices' texts take
  const Forward several = [](const std::vector<Tensor>& in) {
    Tensor x = in[0];
    for (int64_t i = 0; i < 3; ++i) x = relu(matmul(x, in[1]));
    return matmul(x, in[2]);
  };
  const std::vector<Tensor> inputs = {ramp({64, 96}, 0.1), ramp({96, 96}, 0.2), ramp({96, 400}, 0.3)};
  CompiledModel model = tuned(several, inputs);
  EXPECT_EQ(model.report().tuning.compiled, 0u) << "nothing is begun past it";
  EXPECT_TRUE(model.report().tuning.out_of_budget) << tune::to_string(model.report().tuning);
  EXPECT_TRUE(test::contains(model.report().tuning.regions.back().source, "the budget was used"));
  expect_near(model.run(inputs).at(0), several(inputs));
}

// The sum of all ranks and their mean are not the same function.
TEST_F(Tuning, VariantsThatAreAnotherFunctionAreRefused) {
  static auto reduce = [] {
    auto op = custom_op("tuning::reduce(Tensor x) -> Tensor", [](const Tensor& x) { return sum(x, {0}, false); });
    register_custom_op_autotuning(op, {{.name = "average", .decomposition = [](const Tensor& x) { return mean(x, {0}, false); }},
                                       {.name = "halves", .decomposition = [](const Tensor& x) {
                                          return sum(sum(reshape(x, {2, 4, 64}), {0}, false), {0}, false);
                                        }}});
    return op;
  }();
  const std::vector<Tensor> inputs = {ramp({8, 64}, 0.1)};
  CompiledModel model = tuned([](auto& in) { return relu(reduce(in[0])); }, inputs);
  const auto& region = model.report().tuning.regions.at(0);
  size_t refused = 0;
  for (auto& row : region.rows) {
    const bool wrong = test::contains(row.name, "average");
    EXPECT_EQ(row.measured.failed, wrong) << row.name << ": " << row.measured.status;
    if (!wrong) continue;
    ++refused;
    EXPECT_TRUE(test::contains(row.measured.status, "not equivalent to the default: result 0 has an error of ")) << row.measured.status;
  }
  EXPECT_GE(refused, 1u);
  expect_near(model.run(inputs).at(0), relu(sum(inputs[0], {0}, false)));
}

TEST_F(Tuning, AnOperationAndTwoNeighboursHaveSixChoices) {
  static auto reduce = [] {
    auto op = custom_op("tuning::all_reduce(Tensor x) -> Tensor", [](const Tensor& x) { return x + x; });
    register_custom_op_autotuning(op, {{.name = "tree", .decomposition = [](const Tensor& x) { return x * 2.0; }}});
    return op;
  }();
  const ScopedOption depth("max_fusion_depth", "2");
  const std::vector<Tensor> inputs = {ramp({64, 64}, 0.1)};
  const Forward forward = [](auto& in) { return relu(reduce(in[0])) * 0.5; };
  CompiledModel model = tuned(forward, inputs);
  const auto& region = model.report().tuning.regions.at(0);
  EXPECT_EQ(region.originals + region.fused, 6u) << tune::to_string(model.report().tuning);
  EXPECT_EQ(model.report().kernels, test::contains(region.rows.at(region.winner).name, "alone") ? 2u : 1u);
  expect_near(model.run(inputs).at(0), relu(inputs[0] * 2.0) * 0.5);
  const ScopedOption none("fusion_types", "none");
  CompiledModel unfused = tuned(forward, inputs);
  EXPECT_EQ(unfused.report().tuning.regions.at(0).fused, 0u);
  EXPECT_EQ(unfused.report().kernels, 2u);
  expect_near(unfused.run(inputs).at(0), relu(inputs[0] * 2.0) * 0.5);
}

// Two configs and the operation's own function are timed, once for each shape.
TEST_F(Tuning, AnOperationIsTimedOncePerShape) {
  static auto twice = [] {
    auto op = custom_op("tuning::per_shape(Tensor x, int parts=1) -> Tensor", [](const Tensor& x, int64_t parts) {
      return parts == 1 ? x * 2.0 : cat({slice(x, 0, 0, 1) * 2.0, slice(x, 0, 1) * 2.0}, 0);
    });
    register_custom_op_autotuning(
        op, {{.params = {{"parts", 2}}}, {.name = "sum", .decomposition = [](const Tensor& x, int64_t) { return x + x; }}});
    return op;
  }();
  const Forward forward = [](auto& in) { return twice(in[0]); };
  const std::vector<Tensor> small = {ramp({128, 128}, 0.1)}, large = {ramp({256, 256}, 0.1)};
  const CompiledModel first = tuned(forward, small);
  std::vector<std::string> names;
  for (auto& row : first.report().tuning.regions.at(0).rows) names.push_back(row.name);
  EXPECT_EQ(names, (std::vector<std::string>{"default", "variant 1 (parts=2)", "sum"}));
  const CompiledModel again = tuned(forward, small), other = tuned(forward, large);
  EXPECT_EQ(again.report().tuning.regions.at(0).source, "database");
  EXPECT_EQ(again.report().tuning.compiled, 0u);
  EXPECT_EQ(other.report().tuning.regions.at(0).source, "timed");
}

// Of an operation with two results one reader each, and all variants are wrong: it is one launch, by its own function.
TEST_F(Tuning, WhereAllVariantsAreWrongTheOperationsOwnFunctionStays) {
  static auto both = [] {
    auto op = custom_op("tuning::both(Tensor x) -> (Tensor, Tensor)", [](const Tensor& x) { return std::pair(x * 2.0, x + 1.0); });
    register_custom_op_autotuning(op, {{.name = "first", .decomposition = [](const Tensor& x) { return std::pair(x * 3.0, x + 1.0); }},
                                       {.name = "second", .decomposition = [](const Tensor& x) { return std::pair(x * 2.0, x + 2.0); }}});
    return op;
  }();
  const std::vector<Tensor> inputs = {ramp({64, 64}, 0.1)};
  const Forward forward = [](auto& in) {
    auto [a, b] = both(in[0]);
    return relu(a) * sigmoid(b);
  };
  const ScopedOption depth("max_fusion_depth", "3");
  CompiledModel model = tuned(forward, inputs);
  const tune::TuneReport& r = model.report().tuning;
  size_t refused = 0;
  for (auto& row : r.regions.at(0).rows) {
    const bool wrong = row.name.starts_with("first") || row.name.starts_with("second");
    EXPECT_EQ(row.measured.failed, wrong) << row.name << ": " << row.measured.status;
    refused += wrong;
  }
  EXPECT_GE(refused, 2u) << tune::to_string(r);
  expect_near(model.run(inputs).at(0), relu(inputs[0] * 2.0) * sigmoid(inputs[0] + 1.0));
}

struct Subject {
  std::string name;
  Forward forward;
  std::vector<Tensor> inputs;
};

// Small ones of three kinds: convolutions; attention with indices, an epilogue of gelu and norms; and grouped queries with rotations.
std::vector<Subject> small_models() {
  auto resnet = std::make_shared<nn::ResNet>(nn::ResNetConfig{.blocks = {1}, .num_classes = 10, .base_width = 8}, nn::Init(1));
  nn::BertConfig b;
  b.vocab_size = 50, b.hidden_size = 32, b.num_attention_heads = 2, b.intermediate_size = 64, b.num_hidden_layers = 1;
  auto bert = std::make_shared<nn::BertModel>(b, false, nn::Init(2));
  bert->eval();
  nn::LlamaConfig l;
  l.vocab_size = 50, l.hidden_size = 32, l.intermediate_size = 48, l.num_hidden_layers = 1, l.num_attention_heads = 4;
  l.num_key_value_heads = 2;
  auto llama = std::make_shared<nn::LlamaForCausalLM>(l, nn::Init(3));
  Tensor ids = Tensor::empty({2, 6}, DType::I64);
  for (int64_t i = 0; i < ids.numel(); ++i) ids.data<int64_t>()[i] = (i * 7 + 3) % 50;
  return {{"resnet", [resnet](auto& in) { return resnet->forward(in[0]); }, {ramp({1, 3, 32, 32}, 0.1)}},
          {"bert", [bert](auto& in) { return bert->forward(in[0], {}); }, {ids}},
          {"llama", [llama](auto& in) { return llama->forward(in[0], {}); }, {ids}}};
}

// Each choice runs in a process of its own first; none of ours is refused there.
void expect_isolated_agrees(const Subject& subject, const Device& device) {
  std::vector<Tensor> inputs;
  for (auto& t : subject.inputs) inputs.push_back(t.to(device));
  tune::TuneProgress latest;
  size_t told = 0;
  CompiledModel model = front::compile_model(graph_of(subject.forward, subject.inputs), {.device = device, .mode = Mode::MaxAutotune},
                                             [&](const tune::TuneProgress& p) { latest = p, ++told; });
  const tune::TuneReport& r = model.report().tuning;
  size_t rows = 0;
  for (auto& part : r.regions) {
    EXPECT_FALSE(test::contains(part.source, "in a process of its own")) << subject.name << ": " << part.source;
    // Libraries of GPUs may round otherwise, and cuDNN has less for some problems than the three algorithms that are tried.
    const auto may_fail = [&](const tune::ChoiceRow& row) {
      const std::string& why = row.measured.status;
      return device.is_cuda() && (test::contains(why, "not equivalent") ||
                                  (test::contains(row.text, "cudnn(") && test::contains(why, " implementations; tune it again")));
    };
    for (auto& row : part.rows)
      EXPECT_TRUE(!row.measured.failed || may_fail(row))
          << subject.name << ", " << part.label << ", " << row.name << ": " << row.measured.status;
    rows += part.rows.size();
  }
  EXPECT_GT(rows, 4u) << tune::to_string(r);
  EXPECT_EQ(latest.decided, r.regions.size());
  EXPECT_EQ(latest.regions, r.regions.size());
  EXPECT_EQ(latest.compiled, latest.choices);
  EXPECT_GT(told, r.regions.size());
  CompiledModel untuned = front::compile_model(graph_of(subject.forward, subject.inputs), {.device = device});
  expect_near(model.run(inputs).at(0).to(Device::cpu()), untuned.run(inputs).at(0).to(Device::cpu()));
}

class IsolatedTuning : public Tuning {
 protected:
  ScopedOption isolated_{"tune_isolated", "1"}, short_{"tune_region_ms", "50"};
};

TEST_F(IsolatedTuning, ComputesTheSame) {
  for (auto& subject : small_models()) expect_isolated_agrees(subject, Device::cpu());
}

TEST_F(IsolatedTuning, ComputesTheSameOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& subject : small_models()) expect_isolated_agrees(subject, Device::cuda());
}

// Of a dimension of one element, 0 is the only index.
TEST_F(IsolatedTuning, TrialsKeepIndicesInRange) {
  const ScopedOption region("tune_region_ms", "4000");
  const Tensor zeros = Tensor::full(std::vector<int64_t>{6}, 0, DType::I64);
  const std::vector<Tensor> inputs = {ramp({1, 64}, 0.1), zeros, ramp({64, 48}, 0.3)};
  const Forward forward = [](auto& in) { return relu(matmul(embedding(in[0], in[1]), in[2])); };
  CompiledModel model = tuned(forward, inputs);
  const tune::TuneReport& r = model.report().tuning;
  ASSERT_EQ(r.regions.size(), 1u);
  EXPECT_TRUE(r.regions[0].source.starts_with("timed")) << tune::to_string(r);
  for (auto& row : r.regions[0].rows) EXPECT_FALSE(row.measured.failed) << row.name << ": " << row.measured.status;
  expect_near(model.run(inputs).at(0), forward(inputs));
}

// What an operation's generator gives is what its kernels get there, too.
TEST_F(IsolatedTuning, TrialsHaveTheContentsThatAnOperationAsksFor) {
  static auto twice = [] {
    auto op = custom_op("tuning::twice(Tensor x) -> Tensor", [](const Tensor& x) { return x + x; });
    CustomTuning how;
    how.input_gen_fns["x"] = [](const CustomOperand& o) { return Tensor::full(o.sizes, 7, DType::F32); };
    register_custom_op_autotuning(op, {{.name = "product", .decomposition = [](const Tensor& x) { return x * 2.0; }}}, how);
    return op;
  }();
  const OneRegion one([](auto& in) { return twice(in[0]); }, {ramp({8, 16}, 0.1)});
  const tune::WorkerJob job = tune::job_of(*one.callers.at(0), one.regions[0], "native");
  ASSERT_EQ(job.kernels.size(), 1u);
  ASSERT_EQ(job.buffers.size(), 2u);
  EXPECT_EQ(job.buffers[0].use, tune::WorkerBuffer::Use::Read);
  const std::vector<float> sevens(8 * 16, 7);
  EXPECT_EQ(job.buffers[0].contents, std::string(reinterpret_cast<const char*>(sevens.data()), sevens.size() * sizeof(float)));
  EXPECT_EQ(job.buffers[1].use, tune::WorkerBuffer::Use::Write);
  EXPECT_EQ(job.buffers[1].contents, "");
}

// Contents follow the argument's name, also behind weights, which are constants and no operands.
TEST_F(Tuning, GeneratorsAreForTheArgumentsOfTheirNames) {
  static const Tensor weight = ramp({16}, 0.2);
  static auto scaled = [] {
    auto op = custom_op("tuning::scaled(Tensor w, Tensor x) -> Tensor", [](const Tensor& w, const Tensor& x) { return x * w; });
    CustomTuning how;
    how.input_gen_fns["w"] = [](const CustomOperand& o) { return Tensor::full(o.sizes, 5, DType::F32); };
    how.input_gen_fns["x"] = [](const CustomOperand& o) { return Tensor::full(o.sizes, 7, DType::F32); };
    register_custom_op_autotuning(op, {{.decomposition = [](const Tensor& w, const Tensor& x) { return w * x + 0.0; }}}, how);
    return op;
  }();
  const OneRegion one([](auto& in) { return scaled(weight, in[0]); }, {ramp({8, 16}, 0.1)});
  size_t made = 0;
  for (auto& in : one.regions[0].program.inputs) {
    if (in.data.defined()) continue;
    ++made;
    EXPECT_EQ(tune::made_by_operation(one.regions[0], in, {}).to_vector(), std::vector<double>(8 * 16, 7));
  }
  EXPECT_EQ(made, 1u);
}

TEST_F(Tuning, AFunctionWithOpenSizesIsRightAtAll) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return relu(matmul(x, w)); },
                   {.mode = Mode::MaxAutotune, .dynamic = true, .name = "f"});
  for (int64_t m : {5, 64, 3}) expect_near(f(ramp({m, 16}, 0.1), ramp({16, 8}, 0.2)), relu(matmul(ramp({m, 16}, 0.1), ramp({16, 8}, 0.2))));
}

// A rotation: the product's epilogue stores one half of what cat joins, a loop outside of its region the other.
TEST_F(Tuning, AResultThatIsWrittenInPartRefusesNobody) {
  const int64_t tokens = 16, heads = 4, dims = 8;
  const Forward rotated = [&](const std::vector<Tensor>& in) {
    const Tensor q = transpose(reshape(matmul(in[0], in[1]), {1, tokens, heads, dims}), 1, 2);
    return q * in[2] + cat({-slice(q, -1, dims / 2), slice(q, -1, 0, dims / 2)}, -1) * in[3];
  };
  const std::vector<Tensor> inputs = {ramp({1, tokens, heads * dims}, 0.1), ramp({heads * dims, heads * dims}, 0.3),
                                      ramp({tokens, dims}, 0.7), ramp({tokens, dims}, 1.1)};
  CompiledModel model = tuned(rotated, inputs);
  size_t choices = 0;
  for (auto& r : model.report().tuning.regions)
    for (auto& row : r.rows) {
      ++choices;
      EXPECT_EQ(row.measured.status.find("not equivalent"), std::string::npos) << row.name << ": " << row.measured.status;
    }
  EXPECT_GT(choices, 2u);
  expect_near(model.run(inputs).at(0), front::compile_model(graph_of(rotated, inputs)).run(inputs).at(0));
}

// What is measured with other instructions, or by another compiler, is another record.
TEST_F(Tuning, KeysNameInstructionsAndCompiler) {
  const auto keys = [](const std::string& isa) {
    const ScopedOption with("isa", isa);
    CompiledModel model = tuned(kProduct, operands(24, 32, 40));
    return model.report().tuning.regions.at(0).source;
  };
  EXPECT_EQ(keys("scalar"), "timed");
  EXPECT_EQ(keys("scalar"), "database");
  if (device::host().isa == device::Isa::Scalar) GTEST_SKIP() << "one instruction set";
  EXPECT_EQ(keys("avx2"), "timed");
  EXPECT_EQ(keys("scalar"), "database");
  const tune::LockFile scalar = [] {
    const ScopedOption with("isa", "scalar");
    return tuned(kProduct, operands(24, 32, 40)).report().tuning.decided;
  }();
  scalar.write(file("lock"));
  const ScopedOption with("isa", "avx2"), lock("tune_lock", file("lock"));
  CompiledModel model = tuned(kProduct, operands(24, 32, 40));
  EXPECT_NE(model.report().tuning.regions.at(0).drift.find("the lock file decides for"), std::string::npos);
  EXPECT_NE(jit::compiler_revision("native").find("clang"), std::string::npos);
  EXPECT_NE(jit::compiler_revision("sm_90a").find("nvrtc"), std::string::npos);
}

}  // namespace
}  // namespace toroid

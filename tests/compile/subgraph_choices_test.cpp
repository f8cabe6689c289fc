// Ways to compute products and convolutions that are other programs: operands laid out anew, and sums of products as one product.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/options.h"
#include "codegen/rearrange.h"
#include "compile/tuning.h"
#include "errors.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "jit/nvrtc.h"
#include "lower/lowering.h"
#include "tune/check/check.h"
#include "tune/check/inputs.h"
#include "tune/region/precompile.h"
#include "tune/search/choices.h"

namespace toroid {
namespace {

using compiler::CompiledModel;

// %b, %d: constants.
std::unique_ptr<graph::Graph> program(const std::string& text) {
  auto g = graph::parse(text);
  for (auto& in : g->inputs) {
    if (in.name != "b" && in.name != "d") continue;
    in.kind = graph::InputKind::Constant;
    in.data = tune::generate_input(in.value->type, in.name[0], {}, Device::cpu());
  }
  return g;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

// relu(a b), sizes that are no multiples of anything.
const std::string kWeight = R"(graph "g"(%a: T[37, 51], %b: T[51, 45]) {
  %c: T[37, 45] = mm(%a, %b)
  %r: T[37, 45] = relu(%c)
  return %r
})";
const std::string kBatches = R"(graph "g"(%a: T[3, 51, 37], %x: T[3, 45, 51]) {
  %at: T[3, 37, 51] = permute(%a, dims=[0, 2, 1])
  %xt: T[3, 51, 45] = permute(%x, dims=[0, 2, 1])
  %c: T[3, 37, 45] = bmm(%at, %xt)
  %r: T[3, 37, 45] = relu(%c)
  return %r
})";
const std::string kSum = R"(graph "g"(%a: T[37, 51], %b: T[45, 51], %c: T[37, 29], %d: T[29, 45], %v: T[45]) {
  %bt: T[51, 45] = permute(%b, dims=[1, 0])
  %p: T[37, 45] = addmm(%v, %a, %bt, beta=1, alpha=1)
  %q: T[37, 45] = mm(%c, %d)
  %s: T[37, 45] = add.Tensor(%p, %q, alpha=1)
  %r: T[37, 45] = relu(%s)
  return %r
})";
const std::string kSumOfInputs = R"(graph "g"(%a: T[37, 21], %x: T[21, 45], %e: T[37, 11], %y: T[45, 11]) {
  %f: T[37, 11] = exp(%e)
  %yt: T[11, 45] = permute(%y, dims=[1, 0])
  %p: T[37, 45] = mm(%a, %x)
  %q: T[37, 45] = mm(%f, %yt)
  %s: T[37, 45] = add.Tensor(%p, %q, alpha=1)
  return %s
})";

const std::string kImage = R"(graph "g"(%x: T[2, 3, 20, 18], %b: T[16, 3, 3, 3], %v: T[16]) {
  %c: T[2, 16, 10, 9] = convolution(%x, %b, %v, stride=[2, 2], padding=[1, 1], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1)
  %r: T[2, 16, 10, 9] = relu(%c)
  return %r
})";

program::Program lowered(const std::string& text, const backend::Backend& target) {
  return lower::lower(*graph::run_passes(program(text), graph::pipeline(graph::kFrozen)), {.target = &target});
}

const std::vector<const char*> kBoth = {"f32", "bf16"};

// The ways of the region of all nodes, each compared with the default.
void expect_equal(const std::string& text, const std::vector<std::string>& choices, const std::vector<const char*>& dtypes) {
  for (const char* dtype : dtypes) {
    SCOPED_TRACE(dtype);
    const compiler::Setup setup = front::setup_of({.mode = Mode::MaxAutotune});
    const std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);
    const auto pipeline = compiler::pipeline_for({.setup = setup, .target = target});
    const program::Program p = lowered(replaced(text, "T[", std::string(dtype) + "["), *target);
    std::vector<size_t> all(p.nodes.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const tune::Region region = tune::region_of(p, all);
    const auto shared = std::make_shared<program::Program>(region.program);
    std::vector<std::shared_ptr<tune::ChoiceCaller>> callers;
    for (auto& c : choices)
      callers.push_back(std::make_shared<tune::ChoiceCaller>(c, tune::CallerKind::Subgraph, tune::parse_choice(c), shared, pipeline));
    tune::precompile(callers, 2);
    for (size_t i = 0; i < callers.size(); ++i) {
      EXPECT_EQ(callers[i]->failure(), "") << callers[i]->name();
      EXPECT_EQ(callers[i]->kernels() == callers[0]->kernels(), i == 0) << callers[i]->name();
    }
    const tune::Sample sample = tune::time_checked(callers, region, Device::cpu());
    for (size_t i = 0; i < callers.size(); ++i) EXPECT_GT(sample(i), 0) << callers[i]->name();
  }
}

TEST(SubgraphChoices, OperandsThatLieOtherwiseGiveTheSame) {
  expect_equal(
      kWeight,
      {"default", "0: pad_mm(a=16,b=0)", "0: transpose(a=1,b=0)", "0: transpose(a=1,b=1)", "0: pad_mm(a=8,b=8); 0: decompose_k(splits=3)"},
      kBoth);
  expect_equal(kBatches, {"default", "0: pad_mm(a=8,b=16)", "0: transpose(a=0,b=1)", "0: transpose(a=1,b=0)", "0: transpose(a=1,b=1)"},
               kBoth);
}

TEST(SubgraphChoices, FewRowsStreamWeightsThatLieAlongK) {
  const std::string few = replaced(kWeight, "37", "3");
  expect_equal(few, {"default", "0: transpose(a=0,b=1)", "0: pad_mm(a=16,b=0); 0: transpose(a=0,b=1)"}, {"f32"});
}

TEST(SubgraphChoices, ConvolutionsOfOtherChannelsGiveTheSame) {
  expect_equal(kImage, {"default", "0: channels_last(multiple=1)", "0: channels_last(multiple=8)", "0: channels_last(multiple=16)"},
               {"f32"});
}

TEST(SubgraphChoices, ASumOfProductsIsOneProduct) {
  expect_equal(kSum, {"default", "1: mm_plus_mm()"}, kBoth);
  expect_equal(kSumOfInputs, {"default", "2: mm_plus_mm()"}, kBoth);
}

// Chosen by a lock file, nothing is timed.
TEST(SubgraphChoices, ALockFilePrescribesThem) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "subgraph_choices_lock").string();
  const ScopedOption nothing("tune_database", "none"), brief("tune_region_ms", "300"), whole("tune_whole_ms", "0");
  const std::string text = replaced(kSum, "T[", "f32[");
  std::vector<Tensor> inputs;
  const auto g = program(text);
  for (auto& in : g->inputs)
    if (!in.data.defined()) inputs.push_back(tune::generate_input(in.value->type, 7, {}, Device::cpu()));
  const auto compiled = [&](Mode mode) { return front::compile_model(program(text), {.mode = mode}); };
  CompiledModel tuned = compiled(Mode::MaxAutotune), plain = compiled(Mode::Default);
  const auto& sum = tuned.report().tuning.regions.at(0);
  EXPECT_TRUE(sum.label.starts_with("mm [") && sum.label.ends_with("] as one")) << sum.label;
  ASSERT_EQ(sum.rows.size(), 2u);
  EXPECT_EQ(sum.rows[1].text, "1: mm_plus_mm()");
  EXPECT_EQ(sum.rows[1].kind, tune::CallerKind::Subgraph);

  std::string forced = tuned.report().tuning.decided.text();
  const size_t at = forced.find("winner", forced.find(sum.key.hex())), end = forced.find('\n', at);
  forced.replace(at, end - at, "winner \"1: mm_plus_mm()\"");
  tune::LockFile::parse(forced).write(path);
  const ScopedOption from("tune_lock", path);
  CompiledModel locked = compiled(Mode::MaxAutotune);
  EXPECT_EQ(locked.report().tuning.regions.at(0).source, "lock file");
  EXPECT_EQ(locked.report().kernels, 1) << "the product, which reads a row of each";
  const auto x = locked.run(inputs).at(0).to_vector(), y = plain.run(inputs).at(0).to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-3) << i;
}

// What computes the last node of a program on a Hopper GPU, with a choice; NVRTC takes its text, where there is one.
std::string kernel_for_gpu(const std::string& text, const std::string& choice) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  const compiler::Setup setup = front::setup_of({.device = Device::cuda()});
  const auto target = backend::make_backend(setup.device, setup.options, &gpu);
  const program::Program p = lowered(replaced(text, "T[", "bf16["), *target);
  program::Program made = tune::apply(p, tune::parse_choice(choice), tune::own_numbers(p));
  made = target::run_passes(std::move(made), *target, program::Stage::Scheduled, setup.options);
  codegen::ConstantMemory constants;
  for (auto& in : made.inputs)
    if (in.data.defined()) constants.tensors[in.buffer] = in.data;
  for (auto& r : made.rearranged) {
    const auto& b = made.buffers[static_cast<size_t>(r.buffer)];
    const auto [how, from] = codegen::packing_of(r, b.dtype, b.numel.constant(), constants.tensors);
    const codegen::Packed made = codegen::rearrange(how, from);
    for (auto& job : made.jobs) job();
    constants.tensors[r.buffer] = made.tensor;
  }
  const codegen::KernelText k = target->generate(made.nodes.back(), made, constants);
  try {
    jit::nvrtc_check(k.source, gpu.architecture, k.name);
  } catch (const EnvironmentError&) {  // no NVRTC here
  }
  return k.name;
}

TEST(SubgraphChoices, PaddedRowsAreForTensorCores) {
  const std::string text = replaced(kWeight, "37", "512");
  EXPECT_EQ(kernel_for_gpu(text, "default"), "gemm_mma_max");
  EXPECT_EQ(kernel_for_gpu(text, "0: pad_mm(a=8,b=8)"), "gemm_wgmma_max");
  EXPECT_EQ(kernel_for_gpu(text, "0: pad_mm(a=8,b=0); 0: transpose(a=0,b=1)"), "gemm_wgmma_max");
}

// Not tuned: weights of odd sizes are padded when the program is compiled, and the activation between two products is stored with gaps
// between its rows by the first of them.
TEST(SubgraphChoices, OddSizesAreForTensorCoresByDefault) {
  auto g = program(R"(graph "odd"(%x: bf16[1024, 768], %b: bf16[768, 771], %d: bf16[771, 768]) {
    %h: bf16[1024, 771] = mm(%x, %b)
    %r: bf16[1024, 771] = relu(%h)
    %y: bf16[1024, 768] = mm(%r, %d)
    return %y
  })");
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  std::vector<std::string> names;
  for (auto& k : front::kernels_for_gpu(std::move(g), gpu)) {
    names.push_back(k.name.substr(0, 10));
    try {
      jit::nvrtc_check(k.source, gpu.architecture, k.name);
    } catch (const EnvironmentError&) {  // no NVRTC here
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"gemm_wgmma", "gemm_wgmma"}));
}

TEST(SubgraphChoices, PaddedChannelsAreForTensorMaps) {
  EXPECT_EQ(kernel_for_gpu(kImage, "default").substr(0, 8), "conv_mma");
  EXPECT_EQ(kernel_for_gpu(kImage, "0: channels_last(multiple=64)").substr(0, 10), "conv_wgmma");
}

TEST(SubgraphChoices, ASumOfProductsOnAGpuIsOneProduct) {
  EXPECT_EQ(kernel_for_gpu(kSum, "1: mm_plus_mm()").substr(0, 10), "gemm_wgmma");
  EXPECT_EQ(kernel_for_gpu(replaced(kSum, "37", "1"), "1: mm_plus_mm()").substr(0, 4), "gemv");
}

}  // namespace
}  // namespace toroid

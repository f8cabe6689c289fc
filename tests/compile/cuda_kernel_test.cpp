// Kernels that users give opaque operations: launches of the program, planned and compiled without a GPU, and run on one.
#include "toroid/cuda_kernel.h"

#include <gtest/gtest.h>

#include "compile/harness.h"
#include "compile/opaque_on_gpu.h"
#include "compile/pipeline.h"
#include "exec/plan_text.h"
#include "exec/steps.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "program/interpret.h"
#include "toroid/compile.h"
#include "toroid/device_graph.h"
#include "toroid/ops.h"
#include "toroid/tensor_copy.h"

namespace toroid {
namespace {

using test::counting;
using test::graph_of;
using test::user_error;
using Values = std::vector<double>;

// x times a number.
const auto& scale() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_kernel_test::scale(Tensor x, float by) -> Tensor", [](const MemoryType& x, double) { return x; },
        [](InputMemory x, double by, OutputMemory y) {
          for (size_t i = 0; i < y.as<float>().size(); ++i) y.as<float>()[i] = static_cast<float>(by) * x.as<float>()[i];
        }));
    register_cuda_kernel(
        *made, {.name = "scale_by",
                .text = R"(extern "C" __global__ void scale_by(const float* x, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = BY * x[i];
})",
                .launch = [](const MemoryType& x, double by) {
                  SymInt n = 1;
                  for (auto& s : x.sizes) n = n * s;
                  return CudaLaunch{.blocks = (n + 127) / 128, .threads = 128, .params = {n}, .defines = {{"BY", cuda_literal(by) + "f"}}};
                }});
    return made;
  }();
  return op;
}

// Row `at` of a cache becomes the row; gives what was there.
const auto& put() {
  static const auto& op = *[] {
    auto* made = new auto(opaque_op(
        "cuda_kernel_test::put(Tensor row, Tensor(a!) cache, int at) -> Tensor",
        [](const MemoryType& row, const MemoryType&, const SymInt&) { return row; },
        [](InputMemory row, OutputMemory cache, int64_t at, OutputMemory before) {
          float* there = cache.as<float>().data() + at * row.numel();
          std::copy_n(there, row.numel(), before.as<float>().data());
          std::copy_n(row.as<float>().data(), row.numel(), there);
        }));
    register_cuda_kernel(
        *made, {.name = "put_row",
                .text = R"(extern "C" __global__ void put_row(const float* row, float* cache, float* before, long long n, long long at) {
  for (long long i = threadIdx.x; i < n; i += blockDim.x) {
    before[i] = cache[at * n + i];
    cache[at * n + i] = row[i];
  }
})",
                .launch = [](const MemoryType& row, const MemoryType&, const SymInt& at) {
                  return CudaLaunch{.threads = 64, .params = {row.sizes[0], at}};
                }});
    return made;
  }();
  return op;
}

bool has_all(const std::string& text, std::initializer_list<const char*> parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const char* part) { return text.find(part) != std::string::npos; });
}

// A stage of a graph's compile for a GPU that need not be here.
template <class Stage>
Stage for_absent_gpu(std::unique_ptr<graph::Graph> g) {
  device::cuda::GpuInfo gpu;
  compiler::Job job = compiler::job_of(g->name, front::setup_of({.device = Device::cuda()}), {}, &gpu);
  job.may_tune = false;
  compiler::CompileReport report;
  return compiler::advance<Stage>(compiler::Imported{std::move(g)}, job, report);
}

const codegen::KernelText* kernel_named(const compiler::Kernels& k, const std::string& name) {
  for (auto& [node, text] : k.texts)
    if (text.name == name) return &text;
  return nullptr;
}

std::unique_ptr<graph::Graph> with_open_rows() {
  scale();
  return graph::parse(R"(graph "t"(%x: f32[s0, 96]) symbols(s0 in 2..4096) {
  %e: f32[s0, 96] = exp(%x)
  %y: f32[s0, 96] = cuda_kernel_test::scale(%e, 2.5)
  %r: f32[s0, 96] = relu(%y)
  return %r
})");
}

TEST(CudaKernel, IsALaunchWhoseNumbersAreFormulasOfTheSizes) {
  const auto kernels = for_absent_gpu<compiler::Kernels>(with_open_rows());
  EXPECT_EQ(kernels.texts.size(), 3u) << "it is fused with nothing, and nothing is a call";
  const auto* k = kernel_named(kernels, "scale_by");
  ASSERT_TRUE(k);
  const auto at = [&](const Expr& e) { return sym::evaluate(e, [](const sym::Node&) { return int64_t{10}; }); };
  EXPECT_EQ(at(k->tasks), (960 + 127) / 128);
  ASSERT_EQ(k->params.size(), 1u);
  EXPECT_EQ(at(k->params[0]), 960);
  EXPECT_EQ(k->block, 128);
  EXPECT_TRUE(k->source.starts_with("#define BY 0x1.4p+1f\n")) << k->source;
  ASSERT_EQ(k->buffers.size(), 2u);
  EXPECT_NE(k->buffers[0], k->buffers[1]);
}

TEST(CudaKernel, IsCompiledAndStoredWithTheProgram) {
  exec::Loadable made;
  try {
    made = for_absent_gpu<exec::Loadable>(with_open_rows());
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  }
  ASSERT_EQ(made.plan.steps.size(), 3u);
  const auto* l = std::get_if<exec::Launch>(&made.plan.steps[1]);
  ASSERT_TRUE(l) << exec::to_string(made.plan);
  EXPECT_EQ(l->name, "scale_by");
  EXPECT_EQ(l->written, (std::vector<bool>{false, true}));
  EXPECT_NE(made.store.kernels.at(l->kernel).object->find(".text.scale_by"), std::string::npos);
}

TEST(CudaKernel, TextsThatDoNotCompileAreTheUsersError) {
  static const auto broken = opaque_op(
      "cuda_kernel_test::broken(Tensor x) -> Tensor", [](const MemoryType& x) { return x; }, [](InputMemory, OutputMemory) {});
  static const bool once = [] {
    register_cuda_kernel(broken, {.name = "broken",
                                  .text = "extern \"C\" __global__ void broken(const float* x, float* y) { y[0] = nonsense; }",
                                  .launch = [](const MemoryType&) { return CudaLaunch{}; }});
    return true;
  }();
  (void)once;
  try {
    for_absent_gpu<exec::Loadable>(graph_of([](auto& in) { return broken(in[0]); }, {counting({4})}));
    ADD_FAILURE() << "it compiled";
  } catch (const EnvironmentError& e) {
    GTEST_SKIP() << e.what();
  } catch (const UserError& e) {
    EXPECT_TRUE(has_all(e.what(), {"cuda_kernel_test::broken", "does not compile", "nonsense"})) << e.what();
  }
}

// Two ways to what the kernel writes over: the argument's own memory, or a copy where the old contents are needed later.
TEST(CudaKernel, WritesWhereTheArgumentLiesOrInACopy) {
  const auto in_place = [](auto& in) { return put()(in[1] * 2.0, in[0], 1) + 1.0; };
  const auto in_a_copy = [](auto& in) {
    const Tensor later = in[0] * 1.0;
    const Tensor mine = in[0] * 3.0, before = put()(in[1] * 2.0, mine, 1);
    return sum(mine * later) + sum(before);
  };
  const std::vector<Tensor> inputs{counting({3, 4}), counting({4}) + 50.0};
  for (const bool copies : {false, true}) {
    auto g = graph_of([&](auto& in) { return copies ? in_a_copy(in) : in_place(in); }, inputs);
    const auto kernels = for_absent_gpu<compiler::Kernels>(graph::clone(*g));
    const auto* k = kernel_named(kernels, "put_row");
    ASSERT_TRUE(k);
    ASSERT_EQ(k->buffers.size(), 3u);
    const bool there = k->buffers[1] == kernels.program.inputs[0].buffer;
    EXPECT_EQ(there, !copies);
    for (auto& n : kernels.program.nodes)
      if (auto* call = std::get_if<program::Extern>(&n.problem)) {
        EXPECT_EQ(call->outputs.at(1).memory.buffer, k->buffers[1]) << "what it writes is what is read behind it";
      }
    test::expect_meaning(kernels.program, std::move(g), inputs);
  }
}

// Two tensors of equal sizes: what reads the old contents behind the kernel keeps them.
TEST(CudaKernel, OldContentsThatAreReadLaterStay) {
  const auto body = [](auto& in) {
    const Tensor mine = in[0] * 3.0;
    const Tensor kept = exp(mine), total = sum(mine, {0});  // computed once, read before and behind
    put()(in[1], mine, 2);
    return sum(kept * mine) + sum(total);
  };
  const std::vector<Tensor> inputs{counting({3, 4}) * 0.1, counting({4})};
  auto g = graph_of(body, inputs);
  const auto kernels = for_absent_gpu<compiler::Kernels>(graph::clone(*g));
  const double expected = body(inputs).item();
  EXPECT_NEAR(program::interpret(kernels.program, inputs).at(0).item(), expected, 1e-4 * expected);
}

TEST(CudaKernel, ArgumentsWithGapsAndWithinOtherMemoryAreCopied) {
  const std::vector<Tensor> inputs{counting({4, 4})};
  const auto body = [](auto& in) { return scale()(slice(in[0], 0, 1, 3), 2.0) + slice(scale()(transpose(in[0], 0, 1), 3.0), 0, 0, 2); };
  const auto kernels = for_absent_gpu<compiler::Kernels>(graph_of(body, inputs));
  size_t launches = 0;
  for (auto& [node, k] : kernels.texts) {
    if (k.name != "scale_by") continue;
    EXPECT_NE(k.buffers[0], kernels.program.inputs[0].buffer);
    ++launches;
  }
  EXPECT_EQ(launches, 2u);
  EXPECT_EQ(program::interpret(kernels.program, inputs).at(0).to_vector(), body(inputs).to_vector());
}

TEST(CudaKernel, LaunchRulesThatCannotBeAreRefused) {
  const auto fresh = [](const char* name) {
    return opaque_op(
        std::string("cuda_kernel_test::") + name + "(Tensor x, int n) -> Tensor", [](const MemoryType& x, int64_t) { return x; },
        [](InputMemory, int64_t, OutputMemory) {});
  };
  const auto a = fresh("refused_a"), b = fresh("refused_b"), c = fresh("refused_c");
  const auto kernel = [](CudaLaunchRule rule) {
    return CudaKernel{"k", "extern \"C\" __global__ void k(const float* x, float* y) {}", std::move(rule)};
  };
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_kernel(a, kernel([](const MemoryType&) { return CudaLaunch{}; })); }),
                      {"refused_a", "other arguments"}));
  const auto composite = custom_op("cuda_kernel_test::composite(Tensor x) -> Tensor", [](const Tensor& x) { return x * 2.0; });
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_kernel(composite, kernel([](const MemoryType&) { return CudaLaunch{}; })); }),
                      {"cuda_kernel_test::composite", "opaque_op"}));
  register_cuda_kernel(b, kernel([](const MemoryType&, int64_t) { return CudaLaunch{.threads = 4096}; }));
  EXPECT_TRUE(has_all(user_error([&] { register_cuda_kernel(b, kernel([](const MemoryType&, int64_t) { return CudaLaunch{}; })); }),
                      {"refused_b", "already"}));
  const auto compile_for_gpu = [](const CustomOpBase& op) {
    return user_error([&] {
      for_absent_gpu<compiler::Kernels>(
          graph::parse("graph \"t\"(%x: f32[s0]) symbols(s0 in 2..4096) {\n  %y: f32[s0] = " + op.name() + "(%x, 3)\n  return %y\n}"));
    });
  };
  EXPECT_TRUE(has_all(compile_for_gpu(b), {"refused_b", "4096 threads", "1 to 1024"}));
  register_cuda_kernel(c, kernel([](const MemoryType& x, int64_t) { return CudaLaunch{.blocks = x.sizes[0] > 100 ? 2 : 1}; }));
  EXPECT_TRUE(has_all(compile_for_gpu(c), {"refused_c", "compares sizes", "s0"}));
}

TEST(CudaKernel, RunsOnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  const auto body = [](const Tensor& x, const Tensor& cache) {
    const Tensor before = put()(scale()(x + 1.0, 2.5), cache, 1);
    return relu(scale()(before, 0.5)) + x;
  };
  test::expect_as_on_the_host(body, {300, 301, 5});
}

TEST(CudaKernel, IsReplayedByGraphsThatAreMadeByHand) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  auto f = compile([](const Tensor& x) { return scale()(x, 2.0) + 1.0; }, {.fullgraph = true});
  const Tensor x = counting({500}).to(Device::cuda());
  f(x);
  Tensor y;
  CudaGraph g(Device::cuda());
  g.capture([&] { y = f(x); });
  for (double start : {1.0, 7.0}) {
    const Tensor next = counting({500}) + start;
    copy_async(x, pin_memory(next));
    g.replay();
    synchronize(Device::cuda());
    EXPECT_EQ(y.to_vector(), (next * 2.0 + 1.0).to_vector());
  }
}

}  // namespace
}  // namespace toroid

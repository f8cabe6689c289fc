// Kernels by which ranks meet in memory that their GPUs share: their texts compile, and which form takes which size. That they give
// what ranks on the host do needs several GPUs: tests/dist/gpu_test.cpp.
#include <gtest/gtest.h>

#include <set>

#include "base/scalar_builder.h"
#include "codegen/cuda/generate.h"
#include "codegen/cuda/template.h"
#include "cuda_jobs.h"

namespace toroid::codegen {
namespace {

using distributed::Kind;
using distributed::ReduceOp;

struct Reduction {
  program::Program program;
  program::Node node;
};

// relu(meeting(x) + bias), whose result is [rows, columns]; with `plain` the meeting alone.
Reduction reduction(int64_t ranks, const Expr& rows, int64_t columns, DType t, ReduceOp op = ReduceOp::Sum, int64_t offset = 0,
                    Kind kind = Kind::AllReduce, bool plain = false) {
  Reduction out;
  program::Program& p = out.program;
  program::Meeting a;
  a.kind = kind;
  a.op = op;
  a.group = "world";
  a.ranks = ranks;
  a.sizes = {rows, columns};
  const Expr numel = rows * Expr(columns);
  a.input = {
      p.new_buffer("x", t, program::product(program::input_sizes(a)) + Expr(offset), loop::BufferKind::Input), t, offset, {columns, 1}};
  const int bias = p.new_buffer("bias", t, columns, loop::BufferKind::Input),
            result = p.new_buffer("out", t, numel, loop::BufferKind::Output);
  a.peers = {p.peers("world"), DType::I64, 0, {}};
  a.faults = {p.faults(), DType::I64, 0, {}};
  a.site = p.site({"all_reduce", "model.cpp:7", IndexSite::kRank, false});
  const Expr i = sym::loop_symbol("i", rows), j = sym::loop_symbol("j", columns);
  out.node.domain.vars = {{i, false}, {j, false}};
  loop::BodyBuilder b(out.node.body);
  if (plain)
    b.store(result, t, i * Expr(columns) + j, b.accumulator(DType::F32));
  else
    b.store(result, t, i * Expr(columns) + j, cast(maximum(b.accumulator(DType::F32) + cast(b.load(bias, t, j), DType::F32), 0.0), t));
  out.node.problem = a;
  return out;
}

KernelText text_of(const Reduction& r, const program::Config& config = {}, const std::string& architecture = "sm_90a") {
  device::cuda::GpuInfo gpu;
  gpu.architecture = architecture;
  program::Node node = r.node;
  node.config = config;
  program::Program p = r.program;
  ConstantMemory constants;
  return generate_cuda(node, p, gpu, constants);
}

std::string form_of(const Reduction& r) {
  const KernelText k = text_of(r);
  return k.plan.substr(0, k.plan.find(':'));
}

TEST(CudaAllReduce, AllFormsCompile) {
  std::vector<CudaJob> jobs;
  const Expr open = sym::symbol("n", 1, 1 << 20);
  for (const auto& [architecture, t] : {std::pair("sm_80", DType::BF16), {"sm_90a", DType::BF16}, {"sm_90a", DType::F32}})
    for (const auto& r : {reduction(2, 8, 64, t), reduction(3, 8, 65, t, ReduceOp::Max), reduction(8, 4, 24, t, ReduceOp::Avg, 3),
                          reduction(2, open, 64, t, ReduceOp::Product), reduction(4, 1, 16, t, ReduceOp::Min)}) {
      device::cuda::GpuInfo gpu;
      gpu.architecture = architecture;
      const auto configs = cuda_configs(r.node, r.program, gpu);
      EXPECT_FALSE(configs.empty());
      std::set<std::string> forms;
      for (auto& config : configs)
        if (forms.insert(config.form).second) jobs.push_back({text_of(r, config, architecture), architecture});
    }
  compile_side_by_side(
      jobs, [](const CudaJob& j) { return j.architecture; }, false);
  for (auto& j : jobs) EXPECT_EQ(j.error, "") << j.kernel.plan << j.kernel.source;
}

// Parts that are aligned and parts that are not, with and without what follows.
TEST(CudaExchange, AllFormsCompile) {
  std::vector<CudaJob> jobs;
  const Expr open = Expr(3) * sym::symbol("n", 1, 1 << 20);
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter})
    for (const auto& r :
         {reduction(2, 8, 64, DType::BF16, ReduceOp::Sum, 0, kind, true), reduction(3, open, 33, DType::F32, ReduceOp::Max, 1, kind, false),
          reduction(4, 4, 7, DType::F16, ReduceOp::Avg, 0, kind, true)}) {
      std::set<std::string> forms;
      for (auto& config : cuda_configs(r.node, r.program, device::cuda::GpuInfo()))
        if (forms.insert(config.form).second) jobs.push_back({text_of(r, config), "sm_90a"});
      EXPECT_TRUE(forms.count("exchange_rings"));
    }
  EXPECT_EQ(form_of(reduction(2, 8, 64, DType::BF16, ReduceOp::Sum, 0, Kind::AllGather)), "exchange_inline");
  EXPECT_EQ(form_of(reduction(2, 1 << 16, 64, DType::BF16, ReduceOp::Sum, 0, Kind::AllGather)), "exchange_rings");
  compile_side_by_side(
      jobs, [](const CudaJob& j) { return j.architecture; }, false);
  for (auto& j : jobs) EXPECT_EQ(j.error, "") << j.kernel.plan << j.kernel.source;
}

// relu(all_reduce(x * w) + bias), of rows of 64 * columns.
Reduction of_product(int64_t ranks, int64_t rows, int64_t depth, int64_t columns, DType t, ReduceOp op = ReduceOp::Sum) {
  Reduction out = reduction(ranks, rows, columns, t, op);
  auto& m = std::get<program::Meeting>(out.node.problem);
  m.product.emplace();
  m.product->m = rows, m.product->n = columns, m.product->k = depth;
  out.program.buffers[static_cast<size_t>(m.input.buffer)].numel = rows * depth;
  m.product->a = {m.input.buffer, t, 0, {depth, 1}};
  m.product->b = {out.program.new_buffer("w", t, columns * depth, loop::BufferKind::Input), t, 0, {1, depth}};
  m.input = {-1, t, 0, {}};
  return out;
}

// With weights of one slice and of several, of all dtypes.
TEST(CudaAllReduce, ProductsThatSendCompile) {
  std::vector<CudaJob> jobs;
  for (const auto& r : {of_product(2, 1, 2048, 4096, DType::BF16), of_product(4, 2, 8192, 512, DType::F16, ReduceOp::Avg),
                        of_product(3, 1, 96, 33, DType::F32, ReduceOp::Max), of_product(8, 8, 4096, 256, DType::BF16)}) {
    std::set<int64_t> slices;
    for (auto& config : cuda_configs(r.node, r.program, device::cuda::GpuInfo())) {
      EXPECT_EQ(config.form, "gemv_all_reduce");
      if (slices.insert(config.fields[1].second).second) jobs.push_back({text_of(r, config), "sm_90a"});
      EXPECT_LE(jobs.back().kernel.tasks.constant(), device::cuda::GpuInfo().multiprocessors) << "blocks that wait run at once";
    }
    jobs.push_back({text_of(r, {}, "sm_80"), "sm_80"});
  }
  compile_side_by_side(
      jobs, [](const CudaJob& j) { return j.architecture; }, false);
  for (auto& j : jobs) EXPECT_EQ(j.error, "") << j.kernel.plan << j.kernel.source;
}

TEST(CudaAllReduce, ProductsOfManySumsDoNotSend) {
  const device::cuda::GpuInfo gpu;
  const auto refusal = [&](const Reduction& r) { return cuda_bringing_refusal(r.node, gpu); };
  EXPECT_EQ(refusal(of_product(4, 1, 2048, 4096, DType::BF16)), "");
  EXPECT_EQ(refusal(of_product(4, 4, 2048, 4096, DType::BF16)), "");
  EXPECT_NE(refusal(of_product(4, 8, 2048, 4096, DType::BF16)), "") << "32,768 sums in 8 bytes each to three others";
  EXPECT_NE(refusal(of_product(2, 16, 2048, 4096, DType::BF16)), "") << "tiles are faster";
  EXPECT_NE(refusal(of_product(17, 1, 2048, 4096, DType::BF16)), "");
  EXPECT_NE(refusal(of_product(2, 1, 2048, 4096, DType::F64)), "");
}

// Where ranks meet between the pieces of a product.
TEST(CudaBarrier, Compiles) {
  std::vector<CudaJob> jobs;
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter})
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      Reduction r = of_product(4, 8, 64, 32, DType::BF16);
      std::get<program::Meeting>(r.node.problem).kind = kind;
      jobs.push_back({text_of(r, {}, architecture), architecture});
      EXPECT_EQ(jobs.back().kernel.tasks, Expr(1));
      EXPECT_EQ(form_of(r), "barrier");
    }
  compile_side_by_side(
      jobs, [](const CudaJob& j) { return j.architecture; }, false);
  for (auto& j : jobs) EXPECT_EQ(j.error, "") << j.kernel.plan << j.kernel.source;
}

// Small inputs go with their flags, large ones in parts.
TEST(CudaAllReduce, SizesHaveForms) {
  EXPECT_EQ(form_of(reduction(2, 1, 4096, DType::BF16)), "all_reduce_inline");
  EXPECT_EQ(form_of(reduction(2, 64, 1024, DType::BF16)), "all_reduce_inline");
  EXPECT_EQ(form_of(reduction(2, 512, 1024, DType::BF16)), "all_reduce_one_shot");
  EXPECT_EQ(form_of(reduction(2, 4096, 4096, DType::BF16)), "all_reduce_two_shot");
  EXPECT_EQ(form_of(reduction(8, 64, 1024, DType::BF16)), "all_reduce_one_shot") << "each byte goes to seven others";
  EXPECT_EQ(form_of(reduction(8, 512, 1024, DType::BF16)), "all_reduce_two_shot");
  EXPECT_EQ(form_of(reduction(2, sym::symbol("n", 1, 1 << 20), 1024, DType::BF16)), "all_reduce_two_shot") << "of any size";
}

// Blocks that wait for others all run at once.
TEST(CudaAllReduce, NoMoreBlocksThanRunAtOnce) {
  const Reduction r = reduction(2, 1 << 16, 4096, DType::BF16);
  for (auto& config : cuda_configs(r.node, r.program, device::cuda::GpuInfo()))
    EXPECT_LE(text_of(r, config).tasks.constant(),
              (config.form == "all_reduce_two_shot" ? 2 : 1) * device::cuda::GpuInfo().multiprocessors);
  EXPECT_THROW(text_of(r, {.form = "all_reduce_two_shot", .fields = {{"blocks", 265}}}), UserError);
  EXPECT_THROW(text_of(r, {.form = "all_reduce_inline", .fields = {{"blocks", 1}}}), UserError) << "it has no room";
}

TEST(CudaAllReduce, RefusesWhatItHasNoArithmeticFor) {
  const device::cuda::GpuInfo gpu;
  for (const DType t : {DType::F64, DType::I32, DType::Bool, DType::C64}) {
    Reduction r = reduction(2, 8, 64, DType::F32);
    std::get<program::Meeting>(r.node.problem).input.dtype = t;
    EXPECT_NE(cuda_whole_refusal(r.node.problem, gpu), "") << name_of(t);
  }
  EXPECT_NE(cuda_whole_refusal(reduction(17, 8, 64, DType::F32).node.problem, gpu), "");
  EXPECT_EQ(cuda_whole_refusal(reduction(16, 8, 64, DType::F32).node.problem, gpu), "");
}

}  // namespace
}  // namespace toroid::codegen

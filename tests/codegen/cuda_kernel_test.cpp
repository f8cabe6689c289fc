// The GPU's loop kernels: their text for two architectures, and on a GPU what they compute. The loops of the other tests run there too.
#include "codegen/cuda/plan.h"
#include "codegen/prelude/prelude.h"
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  }
};

TEST_F(CudaKernels, EveryScalarFunctionOfThePrelude) {
  std::vector<std::string> names = prelude_functions();
  std::vector<std::string_view> scalar;
  for (auto& n : names)
    if (n.starts_with("s_") && cuda_prelude_has(n)) scalar.push_back(n);
  ASSERT_GT(scalar.size(), 500u);
  const std::string text = cuda_prelude_for(scalar) + "extern \"C\" __global__ void nothing() {}\n";
  for (const char* architecture : {"sm_80", "sm_90a"}) EXPECT_FALSE(jit::nvrtc_compile(text, architecture, "prelude").empty());
}

// All functions of floats in one loop.
TEST_F(CudaKernels, FunctionsOfFloats) {
  for (DType t : {DType::F32, DType::F64}) {
    loop::Nest nest;
    nest.domain.vars.push_back({sym::loop_symbol("i0", 333), false});
    const Expr i = nest.domain.vars[0].symbol;
    loop::BodyBuilder builder(nest.body);
    const S x = builder.load(0, t, i), y = builder.load(1, t, i);
    std::vector<BufferSpec> specs = {{0, t, 333, -0.95, 0.95}, {1, t, 333, 0.1, 2}};
    for (int o = static_cast<int>(ScalarOp::Add); o <= static_cast<int>(ScalarOp::Erfinv); ++o) {
      const auto op = static_cast<ScalarOp>(o);
      const bool compares = op >= ScalarOp::Eq && op <= ScalarOp::Ge, asks = op == ScalarOp::IsNan || op == ScalarOp::IsInf;
      if ((op >= ScalarOp::And && op <= ScalarOp::Shr) || op == ScalarOp::SignBit || op == ScalarOp::Acosh) continue;
      const DType result = compares || asks ? DType::Bool : t;
      const S a =
          op == ScalarOp::Sqrt || op == ScalarOp::Rsqrt || op == ScalarOp::Pow || (op >= ScalarOp::Log && op <= ScalarOp::Log1p) ? y : x;
      const S value = arity_of(op) > 1 ? emit(op, result, {a, y}) : emit(op, result, {a});
      const int buffer = static_cast<int>(specs.size());
      specs.push_back({buffer, result, 333});
      builder.store(buffer, result, i, value);
    }
    KernelRunner r;
    r.check_on_gpu(nest.domain, nest.body, specs);
  }
}

// Rows of every kind of length: in a few lanes, in a warp, in a block, kept and not kept, with and without rests.
TEST_F(CudaKernels, Rows) {
  if (!KernelRunner::has_gpu()) GTEST_SKIP() << "no GPU";
  for (int64_t rows : {1, 3, 64})
    for (int64_t n : {1, 2, 7, 32, 100, 128, 1000, 4096, 10007, 40000}) {
      KernelRunner r;
      r.tolerance = 1e-4;
      r.check_on_gpu_text(fmt::format("loop (i0: {0}, r r0: {1}) {{\n v0: bf16 = load %0 [i0*{1} + r0]\n v1: f32 = Cast v0\n v2: f32 = "
                                      "reduce max v1\n v3: f32 = Sub v1 v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: f32 = Div v4 "
                                      "v5\n store %1 [i0*{1} + r0] v6\n v8: i64 = reduce argmin v1\n store %2 [i0] v8\n}}",
                                      rows, n),
                          {{0, DType::BF16, rows * n}, {1, DType::F32, rows * n}, {2, DType::I64, rows}});
      r.check_on_gpu_text(
          fmt::format("loop (i0: {0}, r r0: {1}) {{\n v0: f32 = load %0 [i0 + r0*{0}]\n v1: f32 = reduce sum v0\n v2: f32 = "
                      "Sub v0 v1\n v3: f32 = reduce max v2\n store %1 [i0] v3\n}}",
                      rows, n),
          {{0, DType::F32, rows * n}, {1, DType::F32, rows}});
    }
}

// Whole rows stay in registers, and memory moves in accesses of 16 bytes.
TEST_F(CudaKernels, PlanOfASoftmax) {
  const loop::Nest nest = loop::parse(
      "loop (i0: 4096, r r0: 8192) {\n v0: bf16 = load %0 [i0*8192 + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce max v1\n v3: f32 = Sub v1 "
      "v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: f32 = Div v4 v5\n v7: bf16 = Cast v6\n store %1 [i0*8192 + r0] v7\n}");
  const CudaPlan p = make_cuda_plan(nest.domain, nest.body);
  EXPECT_EQ(p.shape, CudaPlan::Shape::Rows);
  EXPECT_EQ(p.vector, 8);
  EXPECT_EQ(p.packs.size(), 2u);
  EXPECT_EQ(p.repeats * p.row_threads * p.vector, 8192);
  EXPECT_FALSE(p.wide);
  const KernelText k = generate_cuda_loop(nest.domain, nest.body);
  EXPECT_EQ(k.name, "fused_reducemax_sub_exp_reducesum_div");
  EXPECT_EQ(k.buffers, (std::vector<int>{0, 1}));
  size_t loads = 0;
  for (size_t at = 0; (at = k.source.find("load_pack<bf16, 8>(b", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 1u) << k.source;
}

}  // namespace
}  // namespace toroid::codegen

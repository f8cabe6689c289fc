// The GPU's loop kernels: their text for two architectures, and on a GPU what they compute. The loops of the other tests run there too.
#include <limits>

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

// Who only asks is told of what no machine code can be made of, too.
TEST_F(CudaKernels, ACheckRefusesWhatACompileDoes) {
  const auto kernel = [](const std::string& body) { return "extern \"C\" __global__ void f(float* a) {\n" + body + "\n}\n"; };
  for (const char* architecture : {"sm_80", "sm_90a"}) {
    EXPECT_NO_THROW(jit::nvrtc_check(kernel("a[threadIdx.x] = 1;"), architecture, "f"));
    for (const char* body : {"a[0] = b;", "asm(\"no.such.instruction;\");", "__shared__ float x[1 << 20]; a[0] = x[threadIdx.x];"}) {
      EXPECT_THROW(jit::nvrtc_check(kernel(body), architecture, "f"), InternalError) << body;
      EXPECT_THROW(jit::nvrtc_compile(kernel(body), architecture, "f"), InternalError) << body;
    }
  }
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

// Shorter functions where halves follow, for every half there is: the result is the right one or its neighbour.
TEST_F(CudaKernels, ActivationsOfEveryHalf) {
  const std::string erf = "v2: f32 = const 0.70710678118654752\n v3: f32 = Mul v1 v2\n v4: f32 = Erf v3\n ",
                    tanh = "v2: f32 = const 0.7978845608028654\n v3: f32 = Mul v1 v2\n v4: f32 = Tanh v3\n ",
                    gelu = "v5: f32 = const 1\n v6: f32 = Add v4 v5\n v7: f32 = const 0.5\n v8: f32 = Mul v1 v7\n v9: f32 = Mul v8 v6\n ";
  const std::vector<std::pair<std::string, int>> formulas = {// each with its last step
                                                             {erf + gelu, 9},
                                                             {tanh + gelu, 9},
                                                             {erf, 4},
                                                             {tanh, 4},
                                                             {"v2: f32 = Sigmoid v1\n v3: f32 = Mul v1 v2\n ", 3},
                                                             {"v2: f32 = Sigmoid v1\n ", 2},
                                                             {"v2: f32 = Exp v1\n ", 2}};
  for (DType t : {DType::BF16, DType::F16})
    for (auto& [formula, last] : formulas) {
      KernelRunner r;
      r.half_tolerance = t == DType::BF16 ? 0x1p-7 : 0x1p-10;
      r.check_on_gpu_text(fmt::format("loop (i0: 65536) {{\n v0: {0} = load %0 [i0]\n v1: f32 = Cast v0\n {1}v{2}: {0} = Cast v{3}\n "
                                      "store %1 [i0] v{2}\n}}",
                                      name_of(t), formula, last + 1, last),
                          {{0, t, 65536, 0, 0, true}, {1, t, 65536}});
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

// Rows that begin anywhere in memory move in vectors but for their ends: kept and not kept, of few rows that blocks share, beside what
// begins elsewhere (a weight, a mask).
TEST_F(CudaKernels, UnalignedRows) {
  for (int64_t rows : {1, 5, 300})
    for (int64_t n : {513, 1001, 1022, 8191, 50257}) {
      if (rows * n > 2000000 || (!KernelRunner::has_gpu() && rows == 5)) continue;
      KernelRunner r;
      r.tolerance = 1e-4;
      const std::string row =
          fmt::format("loop (i0: {0}, r r0: {1}) {{\n v0: bf16 = load %0 [i0*{1} + r0]\n v1: f32 = Cast v0\n ", rows, n);
      const std::string sum = "v2: f32 = reduce max v1\n v3: f32 = Sub v1 v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n ";
      r.check_on_gpu_text(
          row + sum +
              fmt::format("v6: f32 = Div v4 v5\n v7: f32 = load %1 [r0]\n v8: f32 = Mul v6 v7\n v9: bool = load %2 [i0*{0} + r0]\n "
                          "v10: f32 = const 7\n v11: f32 = Select v9 v8 v10\n store %3 [i0*{0} + r0] v11\n v13: i64 = reduce argmax v1\n "
                          "store %4 [i0] v13\n v15: bf16 = Cast v8\n store %5 [i0*{0} + r0 + 3] v15\n}}",
                          n),
          {{0, DType::BF16, rows * n},
           {1, DType::F32, n},
           {2, DType::Bool, rows * n},
           {3, DType::F32, rows * n},
           {4, DType::I64, rows},
           {5, DType::BF16, rows * n + 3}});
      r.check_on_gpu_text(row + sum + "store %1 [i0] v5\n}", {{0, DType::BF16, rows * n}, {1, DType::F32, rows}});
    }
  const loop::Nest nest = loop::parse(
      "loop (i0: 64, r r0: 8191) {\n v0: f16 = load %0 [i0*8191 + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce sum v1\n v3: f32 = Sub v1 "
      "v2\n "
      "v4: f32 = load %1 [r0]\n v5: f32 = Mul v3 v4\n v6: f16 = Cast v5\n store %2 [i0*8191 + r0] v6\n}");
  const CudaPlan p = make_cuda_plan(nest.domain, nest.body, {});
  EXPECT_TRUE(p.unaligned);
  EXPECT_EQ(p.vector, 8);
  EXPECT_EQ(p.packs.size(), 2u) << "the weight begins elsewhere";
}

// Loops without reductions over such rows: what lies as the widest access does moves in aligned vectors, a weight by vectors around it.
TEST_F(CudaKernels, UnalignedRowsWithoutReductions) {
  for (int64_t n : {513, 1001, 1022, 50257})
    for (const char* type : {"bf16", "f32"}) {
      KernelRunner r;
      const DType t = type == std::string_view("f32") ? DType::F32 : DType::BF16;
      const std::string text = fmt::format(
          "loop (i0: 7, i1: {0}) {{\n v0: {1} = load %0 [i0*{0} + i1 + 3]\n v1: f32 = Cast v0\n v2: f32 = load %1 [i1 + 1]\n "
          "v3: f32 = Mul v1 v2\n v4: bool = load %2 [i0*{0} + i1]\n v5: f32 = Select v4 v3 v1\n v6: {1} = Cast v5\n "
          "store %3 [i0*{0} + i1 + 3] v6\n store %4 [i1*7 + i0] v3\n v9: i64 = index [i1]\n store %5 [i0*{0} + i1] v9\n}}",
          n, type);
      const loop::Nest nest = loop::parse(text);
      const CudaPlan p = make_cuda_plan(nest.domain, nest.body, {});
      EXPECT_TRUE(p.unaligned);
      EXPECT_EQ(p.vector, 8);
      if (KernelRunner::has_gpu() || n == 1001)
        r.check_on_gpu_text(text, {{0, t, 7 * n + 3},
                                   {1, DType::F32, n + 1},
                                   {2, DType::Bool, 7 * n},
                                   {3, t, 7 * n + 3},
                                   {4, DType::F32, 7 * n},
                                   {5, DType::I64, 7 * n}});
    }
}

// A norm of few rows: weights are read before the kernel waits for the one before, the residual's sum stays.
TEST_F(CudaKernels, LoadsBeforeTheFirstPass) {
  for (int64_t n : {768, 775, 4096}) {
    const loop::Nest nest = loop::parse(fmt::format(
        "loop (i0: 60, r r0: {0}) {{\n v0: bf16 = load %0 [i0*{0} + r0]\n v1: f32 = Cast v0\n v2: bf16 = load %1 [r0]\n v3: f32 = Cast "
        "v2\n "
        "v4: f32 = Mul v1 v3\n v5: f32 = reduce sum v4\n v6: f32 = Sub v1 v5\n v7: bf16 = load %2 [r0]\n v8: f32 = Cast v7\n v9: f32 = Mul "
        "v6 "
        "v8\n v10: bf16 = load %3 [i0*{0} + r0]\n v11: f32 = Cast v10\n v12: f32 = Add v9 v11\n v13: bf16 = Cast v12\n store %4 [i0*{0} + "
        "r0] v13\n}}",
        n));
    const CudaPlan p = make_cuda_plan(nest.domain, nest.body, {.overlaps = true, .constants = {1, 2}});
    if (!p.unaligned) {
      EXPECT_EQ(p.early_constants.size(), 2u);
      EXPECT_EQ(p.early.size(), 1u);
    }
    KernelRunner r;
    r.constants = {1, 2};
    r.check_on_gpu(
        nest.domain, nest.body,
        {{0, DType::BF16, 60 * n}, {1, DType::BF16, n}, {2, DType::BF16, n}, {3, DType::BF16, 60 * n}, {4, DType::BF16, 60 * n}});
  }
}

// One row or few, of every kind of length and of elements that make vectors or do not: blocks share them.
TEST_F(CudaKernels, SharedRows) {
  for (int64_t rows : {1, 3})
    for (int64_t n : {32768, 131071, 300000}) {
      KernelRunner r;
      r.tolerance = 1e-4;
      r.check_on_gpu_text(
          fmt::format("loop (i0: {0}, r r0: {1}) {{\n v0: bf16 = load %0 [i0*{1} + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce "
                      "max v1\n v3: f32 = Sub v1 v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: f32 = Log v5\n v7: "
                      "f32 = Add v6 v2\n store %1 [i0] v7\n v9: i64 = reduce argmax v1\n store %2 [i0] v9\n v11: f32 = "
                      "reduce sum v1\n store %3 [i0] v11\n}}",
                      rows, n),
          {{0, DType::BF16, rows * n}, {1, DType::F32, rows}, {2, DType::I64, rows}, {3, DType::F32, rows}});
    }
}

// Many rows, each of which takes a large block: kept in shared memory where a multiprocessor has room for two. The rest of a row has no
// vector for all threads.
TEST_F(CudaKernels, RowsInSharedMemory) {
  const auto text = [](int64_t rows, int64_t n) {
    return fmt::format(
        "loop (i0: {0}, r r0: {1}) {{\n v0: bf16 = load %0 [i0*{1} + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce max v1\n v3: f32 = Sub v1 "
        "v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: f32 = Log v5\n v7: f32 = Add v6 v2\n store %1 [i0] v7\n v9: f32 = Sub v1 "
        "v7\n v10: bf16 = Cast v9\n store %2 [i0*{1} + r0] v10\n}}",
        rows, n);
  };
  const auto plan = [&](int64_t rows, bool overlaps) {
    const loop::Nest nest = loop::parse(text(rows, 16640));
    return make_cuda_plan(nest.domain, nest.body, {.overlaps = overlaps});
  };
  EXPECT_EQ(plan(528, true).kept_bytes, 3 * 1024 * 8 * 2);
  EXPECT_EQ(plan(528, true).blocks, 2);
  EXPECT_EQ(plan(528, false).kept_bytes, 0);
  EXPECT_EQ(plan(100, true).kept_bytes, 0);
  KernelRunner r;
  r.tolerance = 1e-4;
  r.check_on_gpu_text(text(528, 16640), {{0, DType::BF16, 528 * 16640}, {1, DType::F32, 528}, {2, DType::BF16, 528 * 16640}});
}

// Rows of the reduction side by side in memory, alone or in vectors: one pass that blocks share, or several.
TEST_F(CudaKernels, Columns) {
  for (int64_t columns : {1, 8, 40, 768, 1001})
    for (int64_t n : {1, 3, 64, 1000, 20000}) {
      KernelRunner r;
      r.tolerance = 1e-4;
      const std::string load =
          fmt::format("loop (i0: {0}, r r0: {1}) {{\n v0: f16 = load %0 [i0 + r0*{0}]\n v1: f32 = Cast v0\n ", columns, n);
      r.check_on_gpu_text(load +
                              "v2: f32 = load %1 [i0]\n v3: f32 = load %2 [r0]\n v4: f32 = Mul v1 v3\n v5: f32 = reduce sum v4\n v6: f32 = "
                              "Add v5 v2\n store %3 [i0] v6\n v8: i64 = reduce argmin v1\n store %4 [i0] v8\n v10: f32 = reduce sum v3\n "
                              "store %5 [i0] v10\n}",
                          {{0, DType::F16, columns * n},
                           {1, DType::F32, columns},
                           {2, DType::F32, n, 0, 0.1},
                           {3, DType::F32, columns},
                           {4, DType::I64, columns},
                           {5, DType::F32, columns}});
      r.check_on_gpu_text(
          load + fmt::format("v2: f32 = reduce max v1\n v3: f32 = Sub v1 v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: "
                             "f32 = Div v4 v5\n store %1 [i0 + r0*{0}] v6\n}}",
                             columns),
          {{0, DType::F16, columns * n}, {1, DType::F32, columns * n}});
    }
}

// A mean and the squares of the distances to it in one walk, over columns and rows: far from 0, behind a first element that is far off,
// with more threads than points, of which the last blocks get none, and beside what needs a second walk.
TEST_F(CudaKernels, Moments) {
  for (const bool columns : {true, false})
    for (auto [rows, n] : {std::pair<int64_t, int64_t>{1, 3},
                           {40, 3},
                           {771, 3},
                           {1, 1000},
                           {40, 1000},
                           {771, 1000},
                           {1, 70000},
                           {40, 70000},
                           {64, 32940},
                           {256, 8500}}) {
      KernelRunner r;
      r.tolerance = 1e-4;
      const std::string at = columns ? fmt::format("i0 + r0*{}", rows) : fmt::format("i0*{} + r0", n),
                        load = fmt::format(
                            "loop (i0: {}, r r0: {}) {{\n v0: f32 = load %0 [{}]\n v1: i64 = index [r0]\n v2: i64 = const 1\n "
                            "v3: bool = Lt v1 v2\n v4: f32 = load %1 [0]\n v5: f32 = Select v3 v4 v0\n ",
                            rows, n, at),
                        moments = fmt::format(
                            "v6: f32 = reduce sum v5\n v7: f32 = const {}\n v8: f32 = Div v6 v7\n v9: f32 = Sub v5 v8\n "
                            "v10: f32 = Mul v9 v9\n v11: f32 = reduce sum v10\n store %2 [i0] v11\n store %3 [i0] v6\n ",
                            n),
                        beside =
                            fmt::format("v14: f32 = reduce max v5\n store %4 [i0] v14\n v16: f32 = Sub v9 v14\n store %5 [{}] v16\n", at);
      std::vector<BufferSpec> specs = {
          {0, DType::F32, rows * n, 99.9, 100.1}, {1, DType::F32, 1, 7000, 7000}, {2, DType::F32, rows}, {3, DType::F32, rows}};
      r.check_on_gpu_text(load + moments + "}", specs);
      if (n != 1000) continue;
      specs.insert(specs.end(), {{4, DType::F32, rows}, {5, DType::F32, rows * n}});
      r.check_on_gpu_text(load + moments + beside + "}", specs);
    }
}

TEST_F(CudaKernels, PlanOfMoments) {
  const auto plan = [](const std::string& count) {
    const loop::Nest nest = loop::parse(
        "loop (i0: 64, r r0: 401408) {\n v0: bf16 = load %0 [i0 + 64*r0]\n v1: f32 = Cast v0\n v2: f32 = reduce sum v1\n v3: f32 = const " +
        count + "\n v4: f32 = Div v2 v3\n v5: f32 = Sub v1 v4\n v6: f32 = Mul v5 v5\n v7: f32 = reduce sum v6\n store %1 [i0] v7\n}");
    return make_cuda_plan(nest.domain, nest.body, {});
  };
  const auto walks = [](const CudaPlan& p) { return std::count_if(p.passes.begin(), p.passes.end(), [](auto& q) { return !q.empty(); }); };
  const CudaPlan p = plan("401408"), other = plan("401407");
  EXPECT_EQ(p.moments.size(), 1u);
  EXPECT_EQ(walks(p), 1);
  EXPECT_GT(p.splits, 1);
  EXPECT_TRUE(other.moments.empty());  // not its mean
  EXPECT_EQ(walks(other), 2);
}

// Sums of exponentials over rows that do not fit registers, with elements that are infinite or NaN.
TEST_F(CudaKernels, OnlineSoftmaxOfInfinities) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (double v : {-infinity, infinity}) {
    KernelRunner r;
    r.tolerance = 1e-4;
    const std::string special = v > 0 ? "inf" : "-inf";
    for (int64_t n : {100000, 1000000})
      for (int64_t all : {n, n / 2, int64_t{1}})  // so many elements are special
        r.check_on_gpu_text(
            fmt::format("loop (i0: 2, r r0: {0}) {{\n v0: f32 = load %0 [i0*{0} + r0]\n v1: i64 = index [r0]\n v2: i64 = const "
                        "{1}\n v3: bool = Lt v1 v2\n v4: f32 = const {2}\n v5: f32 = Select v3 v4 v0\n v6: f32 = reduce max "
                        "v5\n v7: f32 = Sub v5 v6\n v8: f32 = Exp v7\n v9: f32 = reduce sum v8\n v10: f32 = Log v9\n v11: f32 "
                        "= Add v10 v6\n store %1 [i0] v11\n}}",
                        n, all, special),
            {{0, DType::F32, 2 * n}, {1, DType::F32, 2}});
  }
}

// A size that the run tells: few rows of any length, and many.
TEST_F(CudaKernels, SymbolicSizes) {
  for (int64_t n : {1, 100, 70000}) {
    KernelRunner r;
    r.tolerance = 1e-4;
    r.sizes = {{"s0", n}};
    const std::string row =
        "v0: bf16 = load %0 [i0*s0 + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce max v1\n v3: f32 = Sub v1 v2\n v4: f32 = "
        "Exp v3\n v5: f32 = reduce sum v4\n ";
    r.check_on_gpu_text("loop (i0: 3, r r0: s0) {\n " + row + "store %1 [i0] v5\n}", {{0, DType::BF16, 3 * n}, {1, DType::F32, 3}});
    r.check_on_gpu_text("loop (i0: 3, r r0: s0) {\n " + row + "v6: f32 = Div v4 v5\n store %1 [i0*s0 + r0] v6\n}",
                        {{0, DType::BF16, 3 * n}, {1, DType::F32, 3 * n}});
    r.check_on_gpu_text(
        "loop (i0: s0, r r0: 40) {\n v0: bf16 = load %0 [i0 + r0*s0]\n v1: f32 = Cast v0\n v2: f32 = reduce sum v1\n store %1 "
        "[i0] v2\n}",
        {{0, DType::BF16, 40 * n}, {1, DType::F32, n}});
  }
}

// Rows found through values, and rows that read one vector: several are taken by a thread.
TEST_F(CudaKernels, VectorsThroughValuesAndOfManyRows) {
  KernelRunner r;
  const std::string gather =
      "loop (i0: 64, r r0: 768) {\n v0: i64 = load %0 [i0]\n v1: bf16 = load %1 [r0 + 768*v0]\n v2: f32 = Cast v1\n v3: f32 = reduce sum "
      "v2\n "
      "v4: f32 = Sub v2 v3\n v5: bf16 = Cast v4\n store %2 [768*i0 + r0] v5\n}";
  r.check_on_gpu_text(gather, {{0, DType::I64, 64, 0, 9.9}, {1, DType::BF16, 768 * 10}, {2, DType::BF16, 64 * 768}});
  const loop::Nest nest = loop::parse(gather);
  EXPECT_EQ(make_cuda_plan(nest.domain, nest.body, {}).packs.size(), 2u);
  const std::string bias =
      "loop (i0: 4096, i1: 4096) {\n v0: bf16 = load %0 [i0*4096 + i1]\n v1: f32 = Cast v0\n v2: bf16 = load %1 [i1]\n v3: f32 = Cast v2\n "
      "v4: "
      "f32 = Add v1 v3\n v5: f32 = Erf v4\n v6: bf16 = Cast v5\n store %2 [i0*4096 + i1] v6\n}";
  const loop::Nest rows = loop::parse(bias);
  EXPECT_EQ(make_cuda_plan(rows.domain, rows.body, {}).unroll_var, 0);
  r.check_on_gpu_text(bias, {{0, DType::BF16, 4096 * 4096, -6, 6}, {1, DType::BF16, 4096}, {2, DType::BF16, 4096 * 4096}});
}

// Loads across memory go through tiles; vectors of a flat loop of any length may end in a part of one.
TEST_F(CudaKernels, TransposesAndRests) {
  for (int64_t n : {17, 64, 200})
    for (int64_t m : {16, 77, 192})
      for (DType t : {DType::Bool, DType::BF16, DType::F32, DType::F64}) {
        if (!KernelRunner::has_gpu() && n + m > 100) continue;
        KernelRunner r;
        const std::string type(name_of(t));
        r.check_on_gpu_text(fmt::format("loop (i0: 3, i1: {0}, i2: {1}) {{\n v0: {2} = load %0 [i0*{3} + i2*{0} + i1]\n v1: {2} = load %1 "
                                        "[i2]\n v2: {2} = Mul v0 v1\n store %2 [i0*{3} + i1*{1} + i2] v2\n}}",
                                        n, m, type, n * m),
                            {{0, t, 3 * n * m}, {1, t, m}, {2, t, 3 * n * m}});
      }
  // More bytes are loaded along one variable than are stored along the other.
  for (int64_t n : {16, 77, 192}) {
    const loop::Nest nest = loop::parse(fmt::format(
        "loop (i0: 5, i1: {0}, i2: 40) {{\n v0: f32 = load %0 [i0*{1} + i2*{0} + i1]\n v1: bf16 = load %1 [i0*{1} + i2*{0} + i1]\n v2: f32 = "
        "Cast v1\n v3: f32 = load %2 [i1]\n v4: f32 = Mul v2 v3\n v5: f32 = Add v0 v4\n v6: bf16 = Cast v5\n store %3 [i1*200 + i2*5 + i0] "
        "v6\n}}",
        n, 40 * n));
    EXPECT_EQ(make_cuda_plan(nest.domain, nest.body, {}).tiled.size(), 0u) << "neighbours of a store are 5 alone";
    const loop::Nest wide = loop::parse(fmt::format(
        "loop (i0: 5, i1: {0}, i2: 40) {{\n v0: f32 = load %0 [i0*{1} + i2*{0} + i1]\n v1: bf16 = load %1 [i0*{1} + i2*{0} + i1]\n v2: f32 = "
        "Cast v1\n v3: f32 = load %2 [i1]\n v4: f32 = Mul v2 v3\n v5: f32 = Add v0 v4\n v6: bf16 = Cast v5\n store %3 [i1*200 + i0*40 + i2] "
        "v6\n}}",
        n, 40 * n));
    EXPECT_EQ(make_cuda_plan(wide.domain, wide.body, {}).tiled.size(), 2u);
    for (const loop::Nest* l : {&nest, &wide}) {
      KernelRunner r;
      r.check_on_gpu(l->domain, l->body,
                     {{0, DType::F32, 200 * n}, {1, DType::BF16, 200 * n}, {2, DType::F32, n}, {3, DType::BF16, 200 * n}});
    }
  }
  for (int64_t n : {1, 8, 9, 100007}) {
    KernelRunner r;
    r.sizes = {{"s0", n}};
    r.check_on_gpu_text(
        "loop (i0: s0) {\n v0: f16 = load %0 [i0]\n v1: f32 = Cast v0\n v2: f32 = load %1 [i0]\n v3: f32 = Add v1 v2\n "
        "store %2 [i0] v3\n}",
        {{0, DType::F16, n}, {1, DType::F32, n}, {2, DType::F32, n}});
  }
}

// What a cubin's machine code loads from and stores to memory: how often by how many bytes, and whether registers are spilled.
struct Accesses {
  int loads_of_16 = 0, other_loads = 0, stores_of_16 = 0, other_stores = 0, spills = 0;
};

Accesses accesses_of(const std::string& cubin) {
  auto u64_at = [&](size_t at) {
    uint64_t v = 0;
    std::memcpy(&v, cubin.data() + at, 8);
    return v;
  };
  auto u16_at = [&](size_t at) { return static_cast<size_t>(u64_at(at) & 0xffff); };
  const size_t headers = u64_at(0x28), size = u16_at(0x3a), count = u16_at(0x3c), names = u64_at(headers + u16_at(0x3e) * size + 0x18);
  Accesses a;
  for (size_t i = 0; i < count; ++i) {
    const size_t header = headers + i * size, begin = u64_at(header + 0x18), bytes = u64_at(header + 0x20);
    const std::string name = cubin.c_str() + names + (u64_at(header) & 0xffffffff);
    if (!name.starts_with(".text.")) continue;
    for (size_t at = begin; at < begin + bytes; at += 16) {
      constexpr uint64_t kLoad = 0x981, kStore = 0x986, kSpill = 0x387, kFill = 0x983;  // LDG, STG, STL, LDL
      const uint64_t operation = u64_at(at) & 0xfff;
      const bool wide = (u64_at(at + 8) >> 9 & 7) == 6;
      if (operation == kLoad) ++(wide ? a.loads_of_16 : a.other_loads);
      if (operation == kStore) ++(wide ? a.stores_of_16 : a.other_stores);
      a.spills += operation == kSpill || operation == kFill;
    }
  }
  return a;
}

// Elements move by 16 bytes, of one row, several, a row that blocks share, columns, a transposed matrix.
TEST_F(CudaKernels, WideAccessesWithoutSpills) {
  const std::string cast = "v1: f32 = Cast v0\n ",
                    exps = "v2: f32 = reduce max v1\n v3: f32 = Sub v1 v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n ";
  struct Case {
    std::string text;
    bool stores;
  };
  const std::vector<Case> cases = {
      {"loop (i0: 8192, r r0: 8192) {\n v0: bf16 = load %0 [i0*8192 + r0]\n " + cast + exps +
           "v6: f32 = Div v4 v5\n v7: bf16 = Cast v6\n store %1 [i0*8192 + r0] v7\n}",
       true},
      {"loop (i0: 512, r r0: 131072) {\n v0: bf16 = load %0 [i0*131072 + r0]\n " + cast + exps +
           "v6: f32 = Div v4 v5\n v7: bf16 = Cast v6\n store %1 [i0*131072 + r0] v7\n}",
       true},
      {"loop (i0: 16, r r0: 128256) {\n v0: bf16 = load %0 [i0*128256 + r0]\n " + cast + exps + "store %1 [i0] v5\n}", false},
      {"loop (i0: 8192, r r0: 8192) {\n v0: bf16 = load %0 [i0 + r0*8192]\n " + cast + "v2: f32 = reduce sum v1\n store %1 [i0] v2\n}",
       false},
      {"loop (i0: 8192, i1: 8192) {\n v0: bf16 = load %0 [i1*8192 + i0]\n store %1 [i0*8192 + i1] v0\n}", true}};
  for (auto& c : cases) {
    const loop::Nest nest = loop::parse(c.text);
    const KernelText k = generate_cuda_loop(nest.domain, nest.body, {});
    const Accesses a = accesses_of(jit::nvrtc_compile(k.source, "sm_90a", k.name));
    EXPECT_GT(a.loads_of_16, 0) << k.plan;
    EXPECT_EQ(a.spills, 0) << k.plan;
    if (!c.stores) continue;
    EXPECT_EQ(a.other_loads, 0) << k.plan;
    EXPECT_GT(a.stores_of_16, 0) << k.plan;
    EXPECT_EQ(a.other_stores, 0) << k.plan;
  }
}

// Neighbouring threads take what lies nearest, though no variable is contiguous.
TEST_F(CudaKernels, PlanOfStridedMemory) {
  const loop::Nest nest =
      loop::parse("loop (i0: 64, i1: 2000) {\n v0: f32 = load %0 [4001*i0 + 2*i1]\n v1: f32 = Exp v0\n store %1 [4001*i0 + 2*i1] v1\n}");
  EXPECT_EQ(make_cuda_plan(nest.domain, nest.body, {}).vector_var, 1);
}

// Whole rows stay in registers, and memory moves in accesses of 16 bytes.
TEST_F(CudaKernels, PlanOfASoftmax) {
  const loop::Nest nest = loop::parse(
      "loop (i0: 4096, r r0: 8192) {\n v0: bf16 = load %0 [i0*8192 + r0]\n v1: f32 = Cast v0\n v2: f32 = reduce max v1\n v3: f32 = Sub v1 "
      "v2\n v4: f32 = Exp v3\n v5: f32 = reduce sum v4\n v6: f32 = Div v4 v5\n v7: bf16 = Cast v6\n store %1 [i0*8192 + r0] v7\n}");
  const CudaPlan p = make_cuda_plan(nest.domain, nest.body, {});
  EXPECT_EQ(p.shape, CudaPlan::Shape::Rows);
  EXPECT_EQ(p.vector, 8);
  EXPECT_EQ(p.packs.size(), 2u);
  EXPECT_EQ(p.repeats * p.row_threads * p.vector, 8192);
  EXPECT_FALSE(p.wide);
  const KernelText k = generate_cuda_loop(nest.domain, nest.body, {});
  EXPECT_EQ(k.name, "fused_reducemax_sub_exp_reducesum_div");
  EXPECT_EQ(k.buffers, (std::vector<int>{0, 1}));
  size_t loads = 0;
  for (size_t at = 0; (at = k.source.find("load_pack<bf16, 8>(b", at)) != std::string::npos; ++at) ++loads;
  EXPECT_EQ(loads, 1u) << k.source;
}

}  // namespace
}  // namespace toroid::codegen

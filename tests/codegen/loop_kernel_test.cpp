// Loop kernels against the interpreter.
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

TEST(LoopKernel, Pointwise) {
  for (int64_t n : {1, 7, 16, 33, 1000, 20000}) {
    KernelRunner r;
    std::string size = std::to_string(n);
    r.check("loop (i0: " + size +
                ") {\n v0: f32 = load %0 [i0]\n v1: f32 = load %1 [i0]\n v2: f32 = Add v0 v1\n v3: f32 = const 0\n v4: f32 = Max v2 v3\n "
                "v5: f32 = Exp v4\n store %2 [i0] v5\n}",
            {{0, DType::F32, n}, {1, DType::F32, n}, {2, DType::F32, n}});
  }
}

// What a maximum was taken of is computed again behind it, and must come out as the same number: exp(0), not exp of what rounding left.
TEST(LoopKernel, ProductsEqualTheirMaximum) {
  const int64_t n = 67;
  for (const char* logit : {"Mul v0 v1", "Add v2 v3"}) {
    const std::string text = fmt::format(
        "loop (i0: 3, r r0: {0}) {{\n v0: f32 = load %0 [i0*{0} + r0]\n v1: f32 = load %1 [0]\n v2: f32 = Mul v0 v1\n v3: f32 = load %2 "
        "[r0]\n v4: f32 = {1}\n v5: f32 = reduce max v4\n v6: f32 = Sub v4 v5\n v7: f32 = Exp v6\n v8: f32 = reduce sum v7\n store %3 "
        "[i0] v8\n store %4 [i0*{0} + r0] v2\n store %5 [i0*{0} + r0] v7\n}}",
        n, logit);
    KernelRunner r;
    r.check(text, {{0, DType::F32, 3 * n, 2e20, 3e20},
                   {1, DType::F32, 1, 0.3, 0.4},
                   {2, DType::F32, n, 1e19, 2e19},
                   {3, DType::F32, 3},
                   {4, DType::F32, 3 * n},
                   {5, DType::F32, 3 * n}});
  }
}

// Two registers side by side hide the latency of chains of functions.
TEST(LoopKernel, ChainsOfFunctionsRunTwoRegistersWide) {
  for (int64_t n : {32, 96, 4096, 100}) {
    KernelRunner r;
    const std::string text = "loop (i0: 3, i1: " + std::to_string(n) + ") {\n v0: f32 = load %0 [i0*" + std::to_string(n) +
                             " + i1]\n v1: f32 = load %1 [i1]\n v2: f32 = Tanh v0\n v3: f32 = Exp v1\n v4: f32 = Mul v2 v3\n v5: bool "
                             "= Lt v4 v0\n v6: f32 = Select v5 v4 v1\n store %2 [i0*" +
                             std::to_string(n) + " + i1] v6\n store %3 [i0*" + std::to_string(n) + " + i1] v5\n}";
    const std::vector<BufferSpec> specs = {{0, DType::F32, 3 * n}, {1, DType::F32, n}, {2, DType::F32, 3 * n}, {3, DType::Bool, 3 * n}};
    r.check(text, specs);
    const loop::Nest p = loop::parse(text);
    std::vector<loop::Buffer> buffers;
    for (auto& s : specs) buffers.push_back({s.id, "b", s.dtype, s.numel, loop::BufferKind::Temporary});
    const std::string plan = generate_loop(p.domain, p.body, buffers, device::Isa::Avx512).plan;
    EXPECT_EQ(plan.find("x 32 lanes") != std::string::npos, n % 32 == 0) << plan;
  }
}

// A shuffle of channels: groups of n become n groups; what depends on the group alone is no vector.
TEST(LoopKernel, WeavesRunsOfMemory) {
  for (int64_t n : {16, 34, 7})
    for (int64_t groups : {2, 3, 8}) {
      const int64_t all = n * groups;
      const std::string text = fmt::format(
          "loop (i0: {0}, i1: {1}, i2: 9) {{\n v0: f32 = load %0 [i0 + {0}*i1 + {2}*i2]\n v1: f32 = load %1 [i1]\n v2: f32 = "
          "Mul v0 v1\n v3: f16 = Cast v2\n store %2 [{1}*i0 + i1 + {2}*i2] v2\n store %3 [{1}*i0 + i1 + {2}*i2] v3\n}}",
          n, groups, all);
      KernelRunner r;
      r.check(text, {{0, DType::F32, 9 * all}, {1, DType::F32, groups}, {2, DType::F32, 9 * all}, {3, DType::F16, 9 * all}});
      const loop::Nest p = loop::parse(text);
      const std::vector<loop::Buffer> buffers = {{0, "a", DType::F32, 9 * all, loop::BufferKind::Input},
                                                 {1, "b", DType::F32, groups, loop::BufferKind::Input},
                                                 {2, "c", DType::F32, 9 * all, loop::BufferKind::Output},
                                                 {3, "d", DType::F16, 9 * all, loop::BufferKind::Output}};
      const std::string plan = generate_loop(p.domain, p.body, buffers, device::Isa::Avx512).plan;
      EXPECT_EQ(plan.find("weaves i1") != std::string::npos, n >= 16) << plan;
    }
}

// The planes of an image one after the other: stretches of a long row are tasks, where no vector of one overlaps another's.
TEST(LoopKernel, WeavesStretchesOfLongRows) {
  for (int64_t n : {8192, 8200}) {
    const std::string text =
        fmt::format("loop (i0: {0}, i1: 3) {{\n v0: f32 = load %0 [i0 + {0}*i1]\n v1: f32 = Abs v0\n store %1 [3*i0 + i1] v1\n}}", n);
    KernelRunner r;
    r.check(text, {{0, DType::F32, 3 * n}, {1, DType::F32, 3 * n}});
    const loop::Nest p = loop::parse(text);
    const std::vector<loop::Buffer> buffers = {{0, "a", DType::F32, 3 * n, loop::BufferKind::Input},
                                               {1, "b", DType::F32, 3 * n, loop::BufferKind::Output}};
    const KernelText kernel = generate_loop(p.domain, p.body, buffers, device::Isa::Avx512);
    EXPECT_EQ(kernel.plan.find("weaves") != std::string::npos, n % 16 == 0) << kernel.plan;
    EXPECT_GT(kernel.tasks.constant(), 1) << kernel.plan;
  }
}

// In eager calls that write in place, a result lies where an operand does.
TEST(LoopKernel, WeavesNothingThatItReadsAtTheSamePoint) {
  const loop::Nest p = loop::parse(
      "loop (i0: 34, i1: 4, i2: 9) {\n v0: f32 = load %0 [4*i0 + i1 + 136*i2]\n v1: f32 = load %1 [i0 + 34*i1]\n v2: f32 = Add v0 v1\n "
      "store %2 [4*i0 + i1 + 136*i2] v2\n}");
  const std::vector<loop::Buffer> buffers = {{0, "a", DType::F32, 9 * 136, loop::BufferKind::Input},
                                             {1, "b", DType::F32, 136, loop::BufferKind::Input},
                                             {2, "c", DType::F32, 9 * 136, loop::BufferKind::Output}};
  const std::string plan = generate_loop(p.domain, p.body, buffers, device::Isa::Avx512).plan;
  EXPECT_EQ(plan.find("weaves"), std::string::npos) << plan;
}

TEST(LoopKernel, LastVectorsOfPoolingsOverlap) {
  for (int64_t channels : {24, 33, 40, 9}) {
    KernelRunner r;
    const std::string text = fmt::format(
        "loop (i0: 5, i1: {0}, r r0: 3) {{\n v0: f32 = load %0 [{0}*i0 + i1 + {0}*r0]\n v1: f32 = reduce max v0\n v2: f32 = load %1 [i1]\n "
        "v3: f32 = Add v1 v2\n v4: f32 = Exp v0\n v5: f32 = reduce sum v4\n store %2 [{0}*i0 + i1] v3\n store %3 [{0}*i0 + i1] v5\n}}",
        channels);
    r.check(text, {{0, DType::F32, 7 * channels}, {1, DType::F32, channels}, {2, DType::F32, 5 * channels}, {3, DType::F32, 5 * channels}});
    const loop::Nest p = loop::parse(text);
    const std::vector<loop::Buffer> buffers = {{0, "a", DType::F32, 7 * channels, loop::BufferKind::Input},
                                               {1, "b", DType::F32, channels, loop::BufferKind::Input},
                                               {2, "c", DType::F32, 5 * channels, loop::BufferKind::Output},
                                               {3, "d", DType::F32, 5 * channels, loop::BufferKind::Output}};
    const std::string plan = generate_loop(p.domain, p.body, buffers, device::Isa::Avx512).plan;
    EXPECT_EQ(plan.find("overlaps") != std::string::npos, channels > 16) << plan;
  }
}

TEST(LoopKernel, BroadcastRowsAndColumns) {
  KernelRunner r;
  r.check(R"(loop (i0: 37, i1: 53) {
    v0: f32 = load %0 [i0*53 + i1]
    v1: f32 = load %1 [i1]
    v2: f32 = load %2 [i0]
    v3: f32 = Mul v0 v1
    v4: f32 = Add v3 v2
    v5: f32 = Tanh v4
    store %3 [i0*53 + i1] v5
  })",
          {{0, DType::F32, 37 * 53}, {1, DType::F32, 53}, {2, DType::F32, 37}, {3, DType::F32, 37 * 53}});
}

TEST(LoopKernel, ElementTypes) {
  for (const char* t : {"bf16", "f16"}) {
    KernelRunner r;
    DType dtype = dtype_from_name(t);
    std::string text = "loop (i0: 300) {\n v0: " + std::string(t) +
                       " = load %0 [i0]\n v1: f32 = Cast v0\n v2: f32 = Sigmoid v1\n v3: f32 = Mul v2 v1\n v4: " + t +
                       " = Cast v3\n v5: " + t + " = Add v4 v0\n store %1 [i0] v5\n}";
    r.check(text, {{0, dtype, 300}, {1, dtype, 300}});
  }
  for (const char* t : {"i8", "i16", "i32", "i64", "u8", "f64"}) {
    KernelRunner r;
    DType dtype = dtype_from_name(t);
    std::string n(t);
    r.check("loop (i0: 131) {\n v0: " + n + " = load %0 [i0]\n v1: " + n + " = load %1 [i0]\n v2: " + n + " = Mul v0 v1\n v3: " + n +
                " = Sub v2 v1\n v4: bool = Lt v3 v0\n v5: " + n + " = Select v4 v3 v1\n v6: " + n +
                " = FloorDiv v5 v1\n store %2 [i0] v6\n store %3 [i0] v4\n}",
            {{0, dtype, 131, 0, 20}, {1, dtype, 131, 0, 9}, {2, dtype, 131}, {3, DType::Bool, 131}});
  }
  KernelRunner r;
  r.check(
      "loop (i0: 77) {\n v0: bool = load %0 [i0]\n v1: bool = load %1 [i0]\n v2: bool = Xor v0 v1\n v3: bool = Not v2\n v4: bool = Mul v3 "
      "v0\n v5: f32 = Cast v4\n v6: i64 = Cast v2\n store %2 [i0] v3\n store %3 [i0] v5\n store %4 [i0] v6\n}",
      {{0, DType::Bool, 77}, {1, DType::Bool, 77}, {2, DType::Bool, 77}, {3, DType::F32, 77}, {4, DType::I64, 77}});
}

TEST(LoopKernel, IntegerPower) {
  for (const char* t : {"i64", "i8", "u8"}) {
    KernelRunner r;
    std::string n(t);
    DType dtype = dtype_from_name(t);
    r.check(
        "loop (i0: 90) {\n v0: " + n + " = load %0 [i0]\n v1: " + n + " = load %1 [i0]\n v2: " + n + " = Pow v0 v1\n store %2 [i0] v2\n}",
        {{0, dtype, 90, n == "u8" ? 0. : -4., 9}, {1, dtype, 90, n == "u8" ? 0. : -3., 12}, {2, dtype, 90}});
  }
}

TEST(LoopKernel, TransposedStridedFlipped) {
  KernelRunner r;
  r.check("loop (i0: 35, i1: 41) {\n v0: f32 = load %0 [i1*35 + i0]\n store %1 [i0*41 + i1] v0\n}",
          {{0, DType::F32, 35 * 41}, {1, DType::F32, 35 * 41}});
  r.check(
      "loop (i0: 19, i1: 40) {\n v0: f32 = load %0 [i0*80 + 2*i1 + 1]\n v1: f32 = load %0 [i0*80 - i1 + 79]\n v2: f32 = Sub v0 v1\n store "
      "%1 [i0*40 + i1] v2\n}",
      {{0, DType::F32, 19 * 80}, {1, DType::F32, 19 * 40}});
  for (const char* t : {"bf16", "f64", "i64", "u8", "bool"}) {  // tiles with edges, and with a term that follows the tile's variable
    std::string n(t);
    DType dtype = dtype_from_name(t);
    r.check("loop (i0: 3, i1: 50, i2: 39) {\n v0: " + n +
                " = load %0 [i0*1950 + i2*50 + i1]\n v1: f32 = Cast v0\n v2: f32 = load %1 [i1]\n v3: f32 = Exp v2\n v4: f32 = Add v1 v3\n "
                "store %2 [i0*1950 + i1*39 + i2] v4\n}",
            {{0, dtype, 5850, 0, 9}, {1, DType::F32, 50}, {2, DType::F32, 5850}});
  }
  r.sizes = {{"s0", 83}, {"s1", 5000}};
  r.check("loop (i0: s0, i1: s1) {\n v0: f32 = load %0 [i1*s0 + i0]\n store %1 [i0*s1 + i1] v0\n}",
          {{0, DType::F32, 83 * 5000}, {1, DType::F32, 83 * 5000}});
  // A view that cuts the flat index into rows: the division goes away.
  r.check("loop (i0: 1024) {\n v0: f32 = load %0 [64*mod(i0, 16) + floordiv(i0, 16)]\n store %1 [i0] v0\n}",
          {{0, DType::F32, 1024}, {1, DType::F32, 1024}});
  // One that does not divide the extent stays.
  r.check("loop (i0: 1000) {\n v0: f32 = load %0 [64*mod(i0, 17) + floordiv(i0, 17)]\n store %1 [i0] v0\n}",
          {{0, DType::F32, 1100}, {1, DType::F32, 1000}});
}

// Along which variable the lanes of a loop run, and what is tiled: "inner i0 x 16 lanes; 1 staged loads in tiles over i1".
std::string lanes_of_plan(const std::string& text, DType dtype, int64_t numel, device::Isa isa) {
  const loop::Nest p = loop::parse(text);
  std::vector<loop::Buffer> buffers;
  for (int id = 0; id < 3; ++id) buffers.push_back({id, "b", dtype, numel, loop::BufferKind::Temporary});
  const std::string plan = generate_loop(p.domain, p.body, buffers, isa).plan;
  return plan.substr(plan.find("inner"), plan.find('\n') - plan.find("inner"));
}

// Whatever order the loop has, the lanes of a transposition run along its stores, and its loads are turned in registers.
TEST(LoopKernel, TranspositionsStoreAlongMemory) {
  for (auto [rows, columns] : {std::pair{64, 3136}, {3136, 64}, {197, 768}, {49, 512}, {512, 49}, {1000, 1000}, {24, 17}})
    for (const char* t : {"f32", "bf16", "i64", "u8"})
      for (int loads = 1; loads <= 2; ++loads)
        for (bool to_last : {true, false}) {
          const std::string here = fmt::format("[i0*{} + i1]", columns), there = fmt::format("[i0 + i1*{}]", rows);
          const std::string second =
              loads == 1 ? fmt::format(" v1: {} = Abs v0\n", t) : fmt::format(" v1: {} = load %2 {}\n", t, to_last ? here : there);
          const std::string text =
              fmt::format("loop (i0: {}, i1: {}) {{\n v0: {} = load %0 {}\n{} v2: {} = {}\n store %1 {} v2\n}}", rows, columns, t,
                          to_last ? here : there, second, t, loads == 1 ? "Neg v1" : "Add v0 v1", to_last ? there : here);
          const std::string expected = fmt::format("{} staged loads in tiles over {}", loads, to_last ? "i1" : "i0");
          for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2}) {
            const std::string lanes = lanes_of_plan(text, dtype_from_name(t), rows * columns, isa);
            EXPECT_TRUE(lanes.starts_with(to_last ? "inner i0" : "inner i1") && lanes.ends_with(expected)) << lanes << "\n" << text;
          }
        }
}

// Booleans and loads with masks are not turned in registers. Far lanes run along the variable whose cache lines stay until the next row.
TEST(LoopKernel, FarLanesReturnToTheirLines) {
  const auto copy = [](int64_t rows, int64_t columns) {
    return fmt::format("loop (i0: {0}, i1: {1}) {{\n v0: bool = load %0 [{1}*i0 + i1]\n store %1 [i0 + {0}*i1] v0\n}}", rows, columns);
  };
  const auto lanes = [&](int64_t rows, int64_t columns) {
    return lanes_of_plan(copy(rows, columns), DType::Bool, rows * columns, device::Isa::Avx512);
  };
  EXPECT_EQ(lanes(64, 3136), "inner i0 x 16 lanes");
  EXPECT_EQ(lanes(3136, 64), "inner i1 x 16 lanes");
  EXPECT_EQ(lanes(2048, 2048), "inner i0 x 16 lanes") << "where none stay, stores cost more";
}

// Lanes that are stored one by one: steps up, down and of sizes that the run tells, elements that meet, with masks and without.
TEST(LoopKernel, StoresLanesOneByOne) {
  const std::string third =
      " v1: i64 = index [i1]\n v2: i64 = const 3\n v3: i64 = Remainder v1 v2\n v4: i64 = const 1\n v5: bool = Ne v3 v4\n";
  for (const char* t : {"f32", "f64", "bf16", "i64", "u8", "bool"})
    for (const char* mask : {"", " if v5"})
      for (const char* at : {"5*i1 + i0", "i0 + 995 - 5*i1", "i1*s0 + i0"}) {
        const DType dtype = dtype_from_name(t);
        KernelRunner r;
        r.sizes["s0"] = 5;
        r.check(
            fmt::format("loop (i0: 5, i1: 200) {{\n v0: {0} = load %0 [200*i0 + i1]\n{1} v6: f32 = load %3 [200*i0 + i1]\n v7: f32 = Exp "
                        "v6\n store %1 [{2}] v0{3}\n store %2 [200*i0 + i1] v7\n}}",
                        t, third, at, mask),
            {{0, dtype, 1000, 0, 9}, {1, dtype, 1000, 0, 9}, {2, DType::F32, 1000}, {3, DType::F32, 1000}});
      }
  for (const char* mode : {"", " add", " max"}) {
    KernelRunner r;
    r.ordered = true;
    r.check(
        fmt::format("loop (i1: 300) {{\n v0: i64 = load %0 [i1]\n{} v6: f32 = load %1 [i1]\n store %2 [v0] v6{} if v5\n}}", third, mode),
        {{0, DType::I64, 300, 0, 9}, {1, DType::F32, 300}, {2, DType::F32, 10}});
  }
}

TEST(LoopKernel, GatherRowsAndElements) {
  KernelRunner r;
  r.check("loop (i0: 23, i1: 48) {\n v0: i64 = load %0 [i0]\n v1: f32 = load %1 [48*v0 + i1]\n store %2 [48*i0 + i1] v1\n}",
          {{0, DType::I64, 23, 0, 10}, {1, DType::F32, 480}, {2, DType::F32, 23 * 48}});
  r.check("loop (i0: 23, i1: 48) {\n v0: i64 = load %0 [48*i0 + i1]\n v1: f32 = load %1 [48*v0 + i1]\n store %2 [48*i0 + i1] v1\n}",
          {{0, DType::I64, 23 * 48, 0, 10}, {1, DType::F32, 480}, {2, DType::F32, 23 * 48}});
}

TEST(LoopKernel, MaskedPad) {
  KernelRunner r;
  r.check(R"(loop (i0: 9, i1: 70) {
    v0: i64 = index [i0]
    v1: i64 = const 2
    v2: bool = Ge v0 v1
    v3: i64 = const 7
    v4: bool = Lt v0 v3
    v5: bool = And v2 v4
    v6: i64 = index [i1]
    v7: i64 = const 3
    v8: bool = Ge v6 v7
    v9: i64 = const 60
    v10: bool = Lt v6 v9
    v11: bool = And v8 v10
    v12: bool = And v5 v11
    v13: f32 = load %0 [57*i0 - 114 + i1 - 3] if v12
    store %1 [70*i0 + i1] v13
    store %2 [57*i0 - 114 + i1 - 3] v13 if v12
    v16: i64 = load %3 [i1] if v2
    v17: f32 = load %0 [v16] if v12
    store %4 [70*i0 + i1] v17
  })",
          {{0, DType::F32, 5 * 57}, {1, DType::F32, 630}, {2, DType::F32, 5 * 57}, {3, DType::I64, 70, 0, 200}, {4, DType::F32, 630}});
}

constexpr const char* kSoftmax = R"(loop (i0: 13, r r0: $) {
  v0: f32 = load %0 [i0*$ + r0]
  v1: f32 = reduce max v0
  v2: f32 = Sub v0 v1
  v3: f32 = Exp v2
  v4: f32 = reduce sum v3
  v5: f32 = Div v3 v4
  store %1 [i0*$ + r0] v5
})";

std::string with_size(std::string text, const std::string& size) {
  for (size_t at; (at = text.find('$')) != std::string::npos;) text.replace(at, 1, size);
  return text;
}

TEST(LoopKernel, SoftmaxRows) {
  for (int64_t n : {1, 5, 64, 197, 3000}) {
    KernelRunner r;
    r.check(with_size(kSoftmax, std::to_string(n)), {{0, DType::F32, 13 * n, -20, 20}, {1, DType::F32, 13 * n}});
  }
  KernelRunner r;
  r.sizes["s0"] = 211;
  r.check(with_size(kSoftmax, "s0"), {{0, DType::F32, 13 * 211}, {1, DType::F32, 13 * 211}});
  // In place.
  std::string text = with_size(kSoftmax, "100");
  text.replace(text.find("%1"), 2, "%0");
  r.check(text, {{0, DType::F32, 1300}});
}

TEST(LoopKernel, SoftmaxColumns) {
  KernelRunner r;
  r.check(R"(loop (i0: 3, i1: 50, r r0: 21) {
    v0: f32 = load %0 [i0*1050 + r0*50 + i1]
    v1: f32 = reduce max v0
    v2: f32 = Sub v0 v1
    v3: f32 = Exp v2
    v4: f32 = reduce sum v3
    v5: f32 = Div v3 v4
    store %1 [i0*1050 + r0*50 + i1] v5
  })",
          {{0, DType::F32, 3150}, {1, DType::F32, 3150}});
}

TEST(LoopKernel, LayerNorm) {
  KernelRunner r;
  r.check(R"(loop (i0: 6, i1: 5, r r0: 133) {
    v0: f32 = load %0 [i0*665 + i1*133 + r0]
    v1: f32 = reduce sum v0
    v2: f32 = const 0.0075187969924812
    v3: f32 = Mul v1 v2
    v4: f32 = Sub v0 v3
    v5: f32 = Mul v4 v4
    v6: f32 = reduce sum v5
    v7: f32 = Mul v6 v2
    v8: f32 = const 1e-5
    v9: f32 = Add v7 v8
    v10: f32 = Rsqrt v9
    v11: f32 = Mul v4 v10
    v12: f32 = load %1 [r0]
    v13: f32 = Mul v11 v12
    store %2 [i0*665 + i1*133 + r0] v13
    store %3 [i0*5 + i1] v10
    store %4 [i0*5 + i1] v3
  })",
          {{0, DType::F32, 3990}, {1, DType::F32, 133}, {2, DType::F32, 3990}, {3, DType::F32, 30}, {4, DType::F32, 30}});
}

TEST(LoopKernel, ReductionsOfAllKinds) {
  for (const char* kind : {"sum", "max", "min", "argmax", "argmin"})
    for (const char* order : {"i0*200 + r0", "r0*40 + i0"})
      for (const char* t : {"f32", "i32", "i64", "f64", "i8"}) {
        KernelRunner r;
        std::string type(t), result = std::string(kind).starts_with("arg") ? "i64" : type;
        r.check("loop (i0: 40, r r0: 200) {\n v0: " + type + " = load %0 [" + order + "]\n v1: " + result + " = reduce " + kind +
                    " v0\n store %1 [i0] v1\n}",
                {{0, dtype_from_name(t), 8000, -4, 4}, {1, dtype_from_name(result), 40}});
      }
  KernelRunner r;
  r.check("loop (i0: 3, r r0: 70) {\n v0: f32 = load %0 [i0*70 + r0]\n v1: f32 = reduce prod v0\n store %1 [i0] v1\n}",
          {{0, DType::F32, 210, 0.9, 1.1}, {1, DType::F32, 3}});
  r.check(
      "loop (i0: 12, r r0: 70) {\n v0: f32 = load %0 [i0*70 + r0]\n v1: f32 = const 1.95\n v2: bool = Gt v0 v1\n v3: bool = reduce any "
      "v2\n v4: bool = Not v2\n v5: bool = reduce all v4\n store %1 [i0] v3\n store %2 [i0] v5\n}",
      {{0, DType::F32, 840}, {1, DType::Bool, 12}, {2, DType::Bool, 12}});
  r.check(
      "loop (i0: 20, r r0: 90) {\n v0: bf16 = load %0 [i0*90 + r0]\n v1: bf16 = reduce max v0\n v2: bf16 = reduce sum v0\n store %1 [i0] "
      "v1\n store %2 [i0] v2\n}",
      {{0, DType::BF16, 1800, 0, 1}, {1, DType::BF16, 20}, {2, DType::BF16, 20}});
}

TEST(LoopKernel, ReductionsOverNanAndInfinity) {
  for (const char* kind : {"max", "min", "argmax", "argmin", "sum"})
    for (const char* order : {"i0*37 + r0", "r0*40 + i0"}) {
      KernelRunner r;
      std::string result = std::string(kind).starts_with("arg") ? "i64" : "f32";
      // log of a negative number is NaN, of 0 minus infinity.
      r.check("loop (i0: 40, r r0: 37) {\n v0: f32 = load %0 [" + std::string(order) + "]\n v1: f32 = Floor v0\n v2: f32 = Log v1\n v3: " +
                  result + " = reduce " + kind + " v2\n v4: f32 = const -inf\n v5: f32 = Min v2 v4\n v6: " + result + " = reduce " + kind +
                  " v5\n store %1 [i0] v3\n store %2 [i0] v6\n}",
              {{0, DType::F32, 1480, -0.05, 2}, {1, dtype_from_name(result), 40}, {2, dtype_from_name(result), 40}});
    }
}

TEST(LoopKernel, LongSums) {
  KernelRunner r;
  r.check("loop (r r0: 200000) {\n v0: f32 = load %0 [r0]\n v1: f32 = reduce sum v0\n store %1 [0] v1\n}",
          {{0, DType::F32, 200000, 0, 1}, {1, DType::F32, 1}});
  r.check("loop (i0: 40, r r0: 5000) {\n v0: f32 = load %0 [r0*40 + i0]\n v1: f32 = reduce sum v0\n store %1 [i0] v1\n}",
          {{0, DType::F32, 200000, 0, 1}, {1, DType::F32, 40}});
  r.check(
      "loop (i0: 4, r r0: 0) {\n v0: f32 = load %0 [r0*4 + i0]\n v1: f32 = reduce sum v0\n v2: f32 = reduce max v0\n store %1 [i0] v1\n "
      "store %2 [i0] v2\n}",
      {{0, DType::F32, 1}, {1, DType::F32, 4}, {2, DType::F32, 4}});
}

TEST(LoopKernel, MiddleReductionWithOuterLoops) {
  KernelRunner r;
  r.check(R"(loop (r r0: 6, i0: 7, r r1: 45) {
    v0: f32 = load %0 [r0*700 + i0*100 + r1]
    v1: f32 = load %1 [r0]
    v2: f32 = Exp v1
    v3: f32 = Mul v0 v2
    v4: f32 = reduce sum v3
    v5: i64 = reduce argmax v3
    v6: f32 = Sub v3 v4
    v7: f32 = reduce max v6
    store %2 [i0] v7
    store %3 [i0] v5
    store %4 [r0*700 + i0*100 + r1] v6
  })",
          {{0, DType::F32, 4200}, {1, DType::F32, 6}, {2, DType::F32, 7}, {3, DType::I64, 7}, {4, DType::F32, 4200}});
}

TEST(LoopKernel, PoolingWindows) {
  KernelRunner r;
  for (const char* kind : {"max", "sum"})
    r.check(R"(loop (i0: 4, i1: 14, i2: 28, r r0: 3, r r1: 3) {
      v0: i64 = index [2*i1 + r0 - 1]
      v1: i64 = const 0
      v2: bool = Ge v0 v1
      v3: i64 = index [2*i2 + r1 - 1]
      v4: bool = Ge v3 v1
      v5: bool = And v2 v4
      v6: f32 = load %0 [i0*1624 + 58*i1 + 29*r0 + 2*i2 + r1 - 30] if v5
      v7: f32 = const -inf
      v8: f32 = Select v5 v6 v7
      v9: f32 = reduce )" +
                std::string(kind) + R"( v8
      store %1 [i0*392 + i1*28 + i2] v9
    })",
            {{0, DType::F32, 4 * 1624 + 200}, {1, DType::F32, 4 * 392}});
}

TEST(LoopKernel, Scatter) {
  KernelRunner r;
  r.tolerance = 1e-4;
  r.check("loop (i0: 50, i1: 24) {\n v0: i64 = load %0 [i0]\n v1: f32 = load %1 [i0*24 + i1]\n store %2 [24*v0 + i1] v1 add\n}",
          {{0, DType::I64, 50, 0, 6}, {1, DType::F32, 1200}, {2, DType::F32, 144}});
  for (const char* mode : {"add", "max", "min", "mul", ""}) {
    r.ordered = *mode == '\0';
    r.check("loop (i0: 500) {\n v0: i64 = load %0 [i0]\n v1: f32 = load %1 [i0]\n store %2 [v0] v1 " + std::string(mode) + "\n}",
            {{0, DType::I64, 500, 0, 90}, {1, DType::F32, 500, 0.8, 1.2}, {2, DType::F32, 90, 0.8, 1.2}});
  }
  r.ordered = false;
  r.check("loop (i0: 30, i1: 40) {\n v0: f32 = load %0 [i0*40 + i1]\n store %1 [i1] v0 add\n store %2 [i0*40 + i1] v0 add\n}",
          {{0, DType::F32, 1200}, {1, DType::F32, 40}, {2, DType::F32, 1200}});
}

TEST(LoopKernel, SymbolicSizes) {
  for (int64_t n : {1, 3, 31, 5000}) {
    KernelRunner r;
    r.sizes = {{"s0", 5}, {"s1", n}};
    r.check(
        "loop (i0: s0, i1: s1) {\n v0: f32 = load %0 [i0*s1 + i1]\n v1: f32 = load %1 [i1]\n v2: f32 = Add v0 v1\n store %2 [i0*s1 + i1] "
        "v2\n v4: i64 = index [i0 + s1]\n store %3 [i0*s1 + i1] v4\n}",
        {{0, DType::F32, 5 * n}, {1, DType::F32, n}, {2, DType::F32, 5 * n}, {3, DType::I64, 5 * n}});
    r.check("loop (i0: s0, r r0: s1) {\n v0: f32 = load %0 [i0*s1 + r0]\n v1: f32 = reduce sum v0\n store %1 [i0] v1\n}",
            {{0, DType::F32, 5 * n}, {1, DType::F32, 5}});
  }
}

TEST(LoopKernel, ScalarsAndSinglePoints) {
  KernelRunner r;
  r.check("loop () {\n v0: f32 = load %0 [0]\n v1: f32 = Exp v0\n store %1 [0] v1\n}", {{0, DType::F32, 1}, {1, DType::F32, 1}});
  r.check("loop (i0: 1, r r0: 1) {\n v0: f32 = load %0 [i0 + r0]\n v1: f32 = reduce sum v0\n store %1 [i0] v1\n}",
          {{0, DType::F32, 1}, {1, DType::F32, 1}});
  r.check("loop (i0: 100) {\n v0: f32 = const 2.5\n store %0 [i0] v0\n}", {{0, DType::F32, 100}});
  r.check("loop (i0: 0) {\n v0: f32 = const 2.5\n store %0 [i0] v0\n}", {{0, DType::F32, 4}});
}

TEST(LoopKernel, RandomNumbersAreTheInterpreters) {
  KernelRunner r;
  r.check(
      "loop (i0: 200) {\n v0: i64 = load %0 [0]\n v1: i64 = index [i0]\n v2: f32 = RandUniform v0 v1\n v3: f32 = RandNormal v0 v1\n store "
      "%1 [i0] v2\n store %2 [i0] v3\n}",
      {{0, DType::I64, 1, 0, 1000}, {1, DType::F32, 200}, {2, DType::F32, 200}});
}

TEST(LoopKernel, EqualLoopsGiveEqualText) {
  std::vector<loop::Buffer> buffers;
  for (int i = 0; i < 9; ++i) buffers.push_back({i, "b" + std::to_string(i), DType::F32, 4096, loop::BufferKind::Temporary});
  auto a = loop::parse("loop (i0: s3, i1: 16) {\n v0: f32 = load %0 [i0*16 + i1]\n v1: f32 = Exp v0\n store %2 [i0*16 + i1] v1\n}");
  auto b = loop::parse("loop (x: s7, y: 16) {\n v0: f32 = load %7 [x*16 + y]\n v1: f32 = Exp v0\n store %5 [x*16 + y] v1\n}");
  KernelText x = generate_loop(a.domain, a.body, buffers, device::Isa::Avx512),
             y = generate_loop(b.domain, b.body, buffers, device::Isa::Avx512);
  EXPECT_EQ(x.source, y.source);
  EXPECT_EQ(x.name, "kernel_exp");
  EXPECT_EQ(y.buffers, (std::vector<int>{7, 5}));
  ASSERT_EQ(y.params.size(), 1u);
  EXPECT_EQ(sym::to_string(y.params[0]), "s7");
}

// What depends on the column alone is the head: not a load of what the body writes, of the row, nor what they become.
TEST(LoopKernel, EpilogueText) {
  auto p = loop::parse(
      "loop (m: 8, n: 64) {\n v0: f32 = accumulate\n v1: f32 = load %0 [n]\n v2: f32 = Rsqrt v1\n v3: f32 = Mul v0 v2\n"
      " v4: f32 = load %1 [n]\n v5: f32 = Add v3 v4\n v6: f32 = load %2 [m]\n v7: f32 = Add v5 v6\n store %1 [64*m + n] v7\n}");
  TemplateNames names;
  names.pointer = [](int b, DType) { return "buf" + std::to_string(b); };
  names.symbol = [](const sym::Node& n) { return n.name == "m" ? std::string("row") : std::string("col"); };
  names.vector_accumulator = "acc";
  names.scalar_accumulator = "acc_s";
  const EpilogueText text = emit_epilogue(p.domain, p.body, 1, 16, names);
  const auto has = [](const std::string& all, const char* part) { return all.find(part) != std::string::npos; };
  EXPECT_TRUE(has(text.vector.head, "v_rsqrt_f32(v1)") && has(text.scalar.head, "s_rsqrt_f32(v1)")) << text.vector.all();
  EXPECT_TRUE(has(text.vector.rest, "v_store_f32(buf1 + (64 * row + col), v7);")) << text.vector.all();
  EXPECT_TRUE(has(text.vector.rest, "v_mul_f32(acc, v2)") && has(text.scalar.rest, "s_mul_f32(acc_s, v2)")) << text.vector.all();
  EXPECT_TRUE(has(text.vector.rest, "buf1 + col") && has(text.vector.rest, "buf2 + row")) << text.vector.all();
  EXPECT_FALSE(has(text.vector.head, "buf1") || has(text.vector.head, "buf2") || has(text.vector.head, "acc")) << text.vector.all();
}

// Quotients that become whole numbers are rounded once: of multiples of a scale, which a row has one of or all share.
TEST(LoopKernel, RoundedQuotientsAreExact) {
  KernelRunner r;
  const std::string
      multiple = "v4: i64 = index [r0]\n v5: f32 = Cast v4\n v6: f32 = Mul v5 v3\n v7: f32 = Div v6 v3\n ",
      scale =
          "loop (i0: 7, r r0: 4096) {\n v0: f32 = load %0 [i0*4096 + r0]\n v1: f32 = reduce max v0\n v2: f32 = const "
          "255\n v3: f32 = Div v1 v2\n ",
      steps = "loop (i0: 7, i1: 4096) {\n v0: f32 = load %0 [i0]\n v1: f32 = Abs v0\n v2: f32 = const 0.3\n v3: f32 = Mul v1 v2\n ";
  r.check(scale + multiple + "v8: f32 = Floor v7\n v9: i32 = Cast v8\n store %1 [i0*4096 + r0] v9\n}",
          {{0, DType::F32, 7 * 4096}, {1, DType::I32, 7 * 4096}});
  std::string flat = steps + multiple + "v8: f32 = Neg v7\n v9: i32 = Cast v8\n store %1 [i0*4096 + i1] v9\n}";
  flat.replace(flat.find("index [r0]"), 10, "index [i1]");
  r.check(flat, {{0, DType::F32, 7}, {1, DType::I32, 7 * 4096}});
}

}  // namespace
}  // namespace toroid::codegen

// Scans, sorts and selections as compiled programs: how they fuse, and that they are what the reference kernels give.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "front/compile_model.h"
#include "graph/interpreter.h"

namespace toroid {
namespace {

size_t launches(const compiler::CompiledModel& m) {
  EXPECT_EQ(m.report().host_calls, 0u);
  return m.report().kernels;
}

// Multiples of 1/4 of which many are equal, zeros of both signs and, among floats, NaN and infinities.
Tensor sample(const std::vector<int64_t>& sizes, DType dtype, unsigned seed, bool special = true) {
  std::mt19937 random(seed);
  Tensor t = Tensor::empty(sizes, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) {
    double v = static_cast<double>(static_cast<int>(random() % 41) - 20) / 4;
    if (v == 0 && random() % 2) v = -0.0;
    if (special && random() % 16 == 0) v = random() % 2 ? std::nan("") : random() % 2 ? HUGE_VAL : -HUGE_VAL;
    Number n = is_bool(dtype)    ? Number::of(v > 0)
               : is_float(dtype) ? Number::of(v)
                                 : Number::of(std::isfinite(v) ? static_cast<int64_t>(4 * v) : int64_t{7});
    store_number(t.raw_data() + i * static_cast<int64_t>(size_of(dtype)), dtype, n);
  }
  return t;
}

bool equal_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && std::memcmp(a.raw_data(), b.raw_data(), static_cast<size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

// Compiles a graph and compares its results with the interpreter's, within `tolerance` of the largest finite element; 0: bit by bit.
size_t check(const std::string& text, const std::vector<std::vector<Tensor>>& calls, double tolerance = 0) {
  auto model = front::compile_model(graph::parse(text));
  auto reference = graph::parse(text);
  for (auto& inputs : calls) {
    auto got = model.run(inputs), want = graph::interpret(*reference, inputs);
    for (size_t r = 0; r < want.size(); ++r) {
      if (tolerance == 0) {
        EXPECT_TRUE(equal_bits(got[r], want[r])) << "result " << r << " of\n" << text;
        continue;
      }
      auto x = got[r].to_vector(), y = want[r].to_vector();
      EXPECT_EQ(x.size(), y.size());
      double most = 1;
      for (double v : y) most = std::isfinite(v) ? std::max(most, std::fabs(v)) : most;
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
        if (!(x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i])) || std::fabs(x[i] - y[i]) <= tolerance * most)) {
          ADD_FAILURE() << "result " << r << "[" << i << "] is " << x[i] << ", expected " << y[i] << " of\n" << text;
          break;
        }
    }
  }
  return launches(model);
}

TEST(CompiledScan, TakesInItsProducerAndItsReader) {
  for (const char* dim : {"0", "1"}) {
    std::string text =
        std::string("graph \"g\"(%x: f32[50, 70]) {\n  %a: f32[50, 70] = mul.Tensor(%x, 2.0)\n  %b: f32[50, 70] = cumsum(%a, ") + dim +
        ")\n  %c: f32[50, 70] = add.Tensor(%b, 1.0)\n  return %c\n}";
    EXPECT_EQ(check(text, {{sample({50, 70}, DType::F32, 1, false)}}, 1e-6), 1u);
  }
}

// The head of a selection by total probability.
TEST(CompiledScan, JoinsReductionsOfItsRow) {
  EXPECT_EQ(check(R"(graph "g"(%x: f32[9, 333]) {
  %p: f32[9, 333] = softmax.int(%x, -1)
  %c: f32[9, 333] = cumsum(%p, -1)
  %d: f32[9, 333] = sub.Tensor(%c, %p)
  %m: bool[9, 333] = gt.Scalar(%d, 0.9)
  %y: f32[9, 333] = masked_fill.Scalar(%p, %m, 0.0)
  %s: f32[9, 1] = sum.dim_IntList(%y, [-1], true)
  %z: f32[9, 333] = div.Tensor(%y, %s)
  return %z
})",
                  {{sample({9, 333}, DType::F32, 1, false)}}, 1e-5),
            1u);
}

TEST(CompiledScan, ScansOverDifferentDimensionsStayApart) {
  EXPECT_EQ(check(R"(graph "g"(%x: f32[20, 30]) {
  %a: f32[20, 30] = cumsum(%x, 0)
  %b: f32[20, 30] = cumsum(%a, 1)
  return %b
})",
                  {{sample({20, 30}, DType::F32, 1, false)}}, 1e-6),
            2u);
}

TEST(CompiledScan, AllKindsAreTheReferenceKernels) {
  for (const char* dim : {"0", "1", "-1"})
    for (const char* op : {"cumsum", "cumprod", "logcumsumexp"})
      EXPECT_EQ(check(std::string("graph \"g\"(%x: f32[3, 21, 40]) {\n  %y: f32[3, 21, 40] = ") + op + "(%x, " + dim + ")\n  return %y\n}",
                      {{sample({3, 21, 40}, DType::F32, 2, false)}, {sample({3, 21, 40}, DType::F32, 3)}}, 1e-6),
                1u);
  for (const char* dim : {"0", "1", "-1"})
    for (const char* op : {"cummax", "cummin"})
      for (const char* t : {"f32", "bf16", "i16", "bool"}) {
        const std::string type = std::string(t) + "[3, 21, 40]";
        EXPECT_EQ(check("graph \"g\"(%x: " + type + ") {\n  %v: " + type + ", %i: i64[3, 21, 40] = " + op + "(%x, " + dim +
                            ")\n  return %v, %i\n}",
                        {{sample({3, 21, 40}, dtype_from_name(t), 4)}}, 1e-9),
                  1u);
      }
}

// Rows that are cut into pieces: one kernel of totals, one of the rows.
TEST(CompiledScan, LongRowsAreScannedInPieces) {
  for (const char* t : {"f32", "f64"}) {
    const std::string type = std::string(t) + "[3, 40001]", text = "graph \"g\"(%x: " + type + ") {\n  %y: " + type;
    const DType dtype = dtype_from_name(t);
    EXPECT_EQ(check(text + " = logcumsumexp(%x, 1)\n  return %y\n}",
                    {{sample({3, 40001}, dtype, 1, false)}, {sample({3, 40001}, dtype, 2)}}, 1e-6),
              2u);
  }
  // As long as two pieces, and shorter; the last lanes of a piece have no elements.
  for (const auto& [n, kernels] : {std::pair<int64_t, size_t>{32768, 2}, {32767, 1}, {32769, 2}, {32768 + 20, 2}}) {
    const std::string type = "f32[1, " + std::to_string(n) + "]";
    EXPECT_EQ(check("graph \"g\"(%x: " + type + ") {\n  %y: " + type + " = logcumsumexp(%x, 1)\n  return %y\n}",
                    {{sample({1, n}, DType::F32, 6, false)}}, 1e-6),
              kernels);
  }
  // Rows that do not lie one after the other, or are short, are loops.
  EXPECT_EQ(check("graph \"g\"(%x: f32[40000, 2]) {\n  %y: f32[40000, 2] = logcumsumexp(%x, 0)\n  return %y\n}",
                  {{sample({40000, 2}, DType::F32, 5, false)}}, 1e-6),
            1u);
}

// A target without a template for a kind of problem keeps the loops.
TEST(CompiledScan, LongRowsAreLoopsOnGpus) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  const auto kernels = front::kernels_for_gpu(
      graph::parse("graph \"g\"(%x: f32[3, 40001]) {\n  %y: f32[3, 40001] = logcumsumexp(%x, 1)\n  return %y\n}"), gpu);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].source.find("scan_rows"), std::string::npos);
}

// A sum that leaves what float64 holds in either direction, and what is smaller than it by more than that.
TEST(CompiledScan, LongSumsOfExponentialsNeitherOverflowNorVanish) {
  Tensor x = Tensor::full(std::vector<int64_t>{1, 40000}, -3000);
  for (int64_t i : {100, 20000, 39999}) x.data<float>()[i] = static_cast<float>(i);
  EXPECT_EQ(check("graph \"g\"(%x: f32[1, 40000]) {\n  %y: f32[1, 40000] = logcumsumexp(%x, 1)\n  return %y\n}", {{x}}, 1e-6), 2u);
}

TEST(CompiledScan, SymbolicEmptySingleAndScalar) {
  std::vector<std::vector<Tensor>> calls;
  for (int64_t n : {0, 1, 2, 17, 300}) calls.push_back({sample({n, 5}, DType::F32, static_cast<unsigned>(n), false)});
  for (const char* dim : {"0", "1"})
    EXPECT_EQ(
        check(std::string(
                  "graph \"g\"(%x: f32[s0, 5]) symbols(s0 in 0..9999) {\n  %a: f32[s0, 5] = exp(%x)\n  %y: f32[s0, 5] = cumsum(%a, ") +
                  dim + ")\n  %z: f32[s0, 5] = mul.Tensor(%y, %x)\n  return %z\n}",
              calls, 1e-6),
        1u);
  check("graph \"g\"(%x: i32[]) {\n  %y: i64[] = cumsum(%x, 0)\n  return %y\n}", {{sample({}, DType::I32, 1)}});
  check("graph \"g\"(%x: f32[4, 1]) {\n  %v: f32[4, 1], %i: i64[4, 1] = cummax(%x, 1)\n  return %v, %i\n}",
        {{sample({4, 1}, DType::F32, 1)}});
  check("graph \"g\"(%x: bool[9]) {\n  %y: i64[9] = cumsum(%x, 0)\n  return %y\n}", {{sample({9}, DType::Bool, 1)}});
}

// A long sum stays exact: its carry is wider than its elements.
TEST(CompiledScan, LongSumsKeepTheirPrecision) {
  Tensor x = Tensor::full(std::vector<int64_t>{1 << 22}, 0.1, DType::F32);
  check("graph \"g\"(%x: f32[4194304]) {\n  %y: f32[4194304] = cumsum(%x, 0)\n  return %y\n}", {{x}}, 1e-7);
}

// Large columns are sorted as rows of a copy.
TEST(CompiledSort, ColumnsOfLargeTensors) {
  EXPECT_EQ(check("graph \"g\"(%x: f32[700, 3, 101]) {\n  %v: f32[700, 3, 101], %i: i64[700, 3, 101] = sort(%x, 0)\n  return %v, %i\n}",
                  {{sample({700, 3, 101}, DType::F32, 8)}}),
            3u);
  EXPECT_EQ(check("graph \"g\"(%x: f32[70000, 3]) {\n  %v: f32[9, 3], %i: i64[9, 3] = topk(%x, 9, 0)\n  return %v, %i\n}",
                  {{sample({70000, 3}, DType::F32, 8)}}),
            3u);
}

constexpr const char* kDtypes[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "bool"};

TEST(CompiledSort, AllDtypesAndLengths) {
  for (const char* t : kDtypes)
    for (const char* descending : {"false", "true"}) {
      const std::string type = std::string(t) + "[3, s0]";
      std::vector<std::vector<Tensor>> calls;
      for (int64_t n : {0, 1, 2, 39, 40, 41, 700}) calls.push_back({sample({3, n}, dtype_from_name(t), static_cast<unsigned>(n))});
      EXPECT_EQ(check("graph \"g\"(%x: " + type + ") symbols(s0 in 0..9999) {\n  %v: " + type + ", %i: i64[3, s0] = sort(%x, -1, " +
                          descending + ")\n  return %v, %i\n}",
                      calls),
                1u);
    }
}

TEST(CompiledSort, RowsOfOneElementCostNothing) {
  EXPECT_EQ(check("graph \"g\"(%x: f32[]) {\n  %v: f32[], %i: i64[] = topk(%x, 1)\n  return %v, %i\n}", {{sample({}, DType::F32, 1)}}), 1u);
  EXPECT_EQ(check("graph \"g\"(%x: bf16[5, 1]) {\n  %v: bf16[5, 1], %i: i64[5, 1] = sort(%x)\n  %y: bf16[5, 1] = neg(%v)\n  return %y\n}",
                  {{sample({5, 1}, DType::BF16, 1)}}),
            1u);
}

// More bytes of a key than one, and rows that may be of any length.
TEST(CompiledSort, WideKeys) {
  std::mt19937_64 random(1);
  for (const char* t : {"f32", "f64", "i32", "i64"}) {
    DType dtype = dtype_from_name(t);
    Tensor x = Tensor::empty({1000}, dtype);
    for (size_t i = 0; i < 1000 * size_of(dtype) / 4; ++i) reinterpret_cast<uint32_t*>(x.raw_data())[i] = static_cast<uint32_t>(random());
    for (const char* size : {"1000", "s0"}) {
      const std::string type = std::string(t) + "[" + size + "]";
      EXPECT_EQ(check("graph \"g\"(%x: " + type + ") symbols(s0 in 0..inf) {\n  %v: " + type + ", %i: i64[" + size +
                          "] = sort.stable(%x, true, 0, false)\n  return %v, %i\n}",
                      {{x}}),
                1u);
    }
  }
}

TEST(CompiledSort, AlongAnyDimensionOfAnyView) {
  for (const char* dim : {"0", "1", "2"})
    EXPECT_EQ(
        check(std::string("graph \"g\"(%x: f32[6, 50, 7]) {\n  %t: f32[7, 50, 6] = permute(%x, dims=[2, 1, 0])\n  %v: f32[7, 50, 6], %i: "
                          "i64[7, 50, 6] = sort(%t, ") +
                  dim + ", true)\n  return %v, %i\n}",
              {{sample({6, 50, 7}, DType::F32, 5)}}),
        1u);
}

TEST(CompiledTopk, AllDtypes) {
  for (const char* t : kDtypes)
    for (const char* largest : {"false", "true"})
      for (int64_t k : {0, 1, 50, 900, 1000}) {
        const std::string count = std::to_string(k), dtype = t;
        EXPECT_EQ(check("graph \"g\"(%x: " + dtype + "[4, 1000]) {\n  %v: " + dtype + "[4, " + count + "], %i: i64[4, " + count +
                            "] = topk(%x, " + count + ", -1, " + largest + ")\n  return %v, %i\n}",
                        {{sample({4, 1000}, dtype_from_name(t), 6)}}),
                  1u);
      }
}

// Rising rows, in which every element is a candidate, falling ones, and equal ones; along memory and across it; any length.
TEST(CompiledTopk, SelectsFromAnyOrder) {
  Tensor x = Tensor::empty({3, 5000}, DType::F32);
  for (int64_t i = 0; i < 5000; ++i) {
    x.data<float>()[i] = static_cast<float>(i / 3);
    x.data<float>()[5000 + i] = static_cast<float>(-i);
    x.data<float>()[10000 + i] = 1;
  }
  for (const char* type : {"f32[3, 5000]", "f32[3, s0]"}) {
    const std::string head = std::string("graph \"g\"(%x: ") + type + ")" + (type[7] == '5' ? "" : " symbols(s0 in 50..inf)") + " {\n";
    EXPECT_EQ(check(head + "  %v: f32[3, 50], %i: i64[3, 50] = topk(%x, 50)\n  return %v, %i\n}", {{x}}), 1u);
    const std::string turned = type[7] == '5' ? "f32[5000, 3]" : "f32[s0, 3]";
    EXPECT_EQ(check(head + "  %t: " + turned +
                        " = permute(%x, dims=[1, 0])\n  %v: f32[50, 3], %i: i64[50, 3] = topk(%t, 50, 0)\n  return %v, %i\n}",
                    {{x}}),
              1u);
  }
}

}  // namespace
}  // namespace toroid

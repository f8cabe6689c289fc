#include "codegen/cpu/templates/gemm_int8.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "device/cpu/isa.h"
#include "template_harness.h"

namespace toroid::codegen {
namespace {

using testing::AlignedFloats;

struct Problem {
  int64_t m, n, k;
  DType a_type = DType::I8;
  bool a_transposed = false, b_transposed = false;
};

struct Way {
  int lanes;
  const char* isa;
};

// One for each way to multiply bytes that this processor has.
std::vector<Way> ways() {
  std::vector<Way> out = {{8, "scalar"}, {16, "native"}};
  if (device::host().isa >= device::Isa::Avx2) out.push_back({8, "avx2"});
  if (device::host().isa >= device::Isa::Avx512) out.push_back({16, "avx512"});
  return out;
}

// A third of them the largest, a third the smallest.
int8_t element(int64_t i, uint32_t seed) {
  const uint32_t x = (static_cast<uint32_t>(i) * 2654435761u + seed * 40503u) * 1664525u + 1013904223u;
  return x >> 16 & 1 ? int8_t(x >> 24) : x >> 17 & 1 ? int8_t(127) : int8_t(-128);
}

// Points where the kernel's sums, plus 1, differ from the definition. fixed: the kernel's sizes are constants.
int64_t wrong(const Problem& p, const Way& way, bool fixed = true, std::optional<Int8Tile> tile = {}) {
  AlignedFloats a(ceil_div(p.m * p.k, 4)), out(p.m * p.n);
  std::vector<int8_t> b(static_cast<size_t>(p.k * p.n));
  auto* from = static_cast<int8_t*>(a.get());
  for (int64_t i = 0; i < p.m * p.k; ++i) from[i] = p.a_type == DType::U8 && i % 5 == 0 ? int8_t(-1) : element(i, 1);
  for (int64_t i = 0; i < p.k * p.n; ++i) b[static_cast<size_t>(i)] = element(i, 2);
  const int64_t params[] = {p.m};
  Int8Config c;
  c.name = "int8";
  c.m = fixed ? Extent(p.m) : Extent::at(0);
  c.n = p.n, c.k = p.k;
  c.tile = tile.value_or(choose_int8_tile(p.m, p.n, p.k, way.lanes));
  c.a_type = p.a_type;
  c.a_row_stride = std::to_string(p.a_transposed ? 1 : p.k);
  c.a_col_stride = std::to_string(p.a_transposed ? p.m : 1);
  c.epilogue.declarations = "int* restrict out = (int*)bufs[2];";
  c.epilogue.vector = fmt::format("*(t_vf32_unaligned*)(out + m * {} + n) = (vf32)(acc + 1);", p.n);
  c.epilogue.scalar = fmt::format("out[m * {} + n] = acc + 1;", p.n);
  c.scratch_buffer = 3;
  const int panel = c.tile.lanes * c.tile.vecs;
  AlignedFloats packed(packed_int8_bytes(p.k, p.n, panel) / 4), scratch(int8_scratch_bytes(c) / 2);
  std::fill_n(static_cast<char*>(scratch.get()), 2 * int8_scratch_bytes(c), char(-1));  // a fresh launch
  pack_int8(b.data(), p.k, p.n, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1, panel, p.a_type == DType::I8 ? 128 : 0, packed.get());
  testing::run_template(int8_text(c), c.name, way.lanes, {a.get(), packed.get(), out.get(), scratch.get()}, params,
                        int8_task_count(c, params), way.isa);
  const auto* got = static_cast<const int32_t*>(out.get());
  int64_t differ = 0;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      int32_t sum = 1;
      for (int64_t l = 0; l < p.k; ++l) {
        const int8_t x = from[p.a_transposed ? l * p.m + i : i * p.k + l];
        sum +=
            (p.a_type == DType::U8 ? int32_t(uint8_t(x)) : int32_t(x)) * b[static_cast<size_t>(p.b_transposed ? j * p.k + l : l * p.n + j)];
      }
      differ += got[i * p.n + j] != sum;
    }
  return differ;
}

TEST(Int8Template, IsExactForAllHeights) {
  for (int64_t m = 1; m <= 17; ++m)
    EXPECT_EQ(wrong({m, 1 + m * 7 % 53, 1 + m * 13 % 71, m % 3 ? DType::I8 : DType::U8}, ways()[m % 2]), 0) << m;
}

TEST(Int8Template, IsExactOnAllProcessors) {
  for (const Way& way : ways())
    for (DType t : {DType::I8, DType::U8})
      for (const Problem& p : {Problem{13, 101, 130, t}, {9, 48, 67, t, true, false}, {5, 33, 300, t, false, true}})
        EXPECT_EQ(wrong(p, way), 0) << way.isa << " " << p.n << " columns of " << name_of(t);
}

TEST(Int8Template, RowsThatOnlyTheRunTells) {
  for (int64_t m : {1, 7, 30}) EXPECT_EQ(wrong({m, 50, 70}, {16, "native"}, false), 0) << m;
}

TEST(Int8Template, AllTilesAreExact) {
  const Problem p{37, 100, 21};
  for (const Int8Tile& t : other_int8_tiles(p.m, p.n, p.k, 16)) {
    EXPECT_EQ(int8_tile_refusal(t), "");
    EXPECT_EQ(wrong(p, {16, "native"}, true, t), 0) << t.rows << "x" << t.vecs << " in tasks of " << t.block_m;
  }
  EXPECT_NE(int8_tile_refusal({.rows = 16, .vecs = 2}), "");
}

}  // namespace
}  // namespace toroid::codegen

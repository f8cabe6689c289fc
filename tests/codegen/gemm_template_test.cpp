#include "codegen/cpu/templates/gemm_template.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "codegen/cpu/templates/gemm_pack.h"
#include "codegen/cpu/templates/gemv_template.h"
#include "template_harness.h"

namespace toroid::codegen {
namespace {

using testing::AlignedFloats;
using testing::values;

struct Problem {
  int64_t m, n, k, batch = 1;
  bool a_transposed = false, b_transposed = false;
};

GemmConfig config_for(const Problem& p, int lanes) {
  GemmConfig c;
  c.name = "gemm";
  c.m = p.m, c.n = p.n, c.k = p.k, c.batch = p.batch;
  c.tile = choose_gemm_tile(p.m, p.n, p.k, lanes, true);
  c.a_row_stride = std::to_string(p.a_transposed ? 1 : p.k);
  c.a_col_stride = std::to_string(p.a_transposed ? p.m : 1);
  c.a_batch_offset = fmt::format("batch * {}", p.m * p.k);
  c.b_row_stride = std::to_string(p.b_transposed ? 1 : p.n);
  c.b_col_stride = std::to_string(p.b_transposed ? p.k : 1);
  if (p.batch > 1) c.b_batch_offset = fmt::format("batch * {}", p.n * p.k);
  c.scratch_buffer = 3;
  c.epilogue.declarations = fmt::format("float* restrict out = (float*)bufs[2] + batch * {};", p.m * p.n);
  c.epilogue.vector = fmt::format("t_store(out + m * {} + n, acc + 1.0f);", p.n);
  c.epilogue.scalar = fmt::format("out[m * {} + n] = acc + 1.0f;", p.n);
  return c;
}

// Largest difference between the kernel's C and the definition A B + 1.
double error_of(const Problem& p, const GemmConfig& c, const int64_t* params = nullptr) {
  AlignedFloats a = values(p.batch * p.m * p.k, 1), b = values(p.batch * p.k * p.n, 2), out(p.batch * p.m * p.n);
  const int64_t bytes = 2 * gemm_scratch_bytes(c, p.k).constant();
  AlignedFloats scratch(bytes / 4);
  std::memset(scratch.get(), 0xff, static_cast<size_t>(bytes));  // a fresh launch
  const int panel = c.tile.lanes * c.tile.vecs;
  AlignedFloats packed(packed_b_elements(p.k, p.n, panel));
  const bool packs = c.b_source == GemmB::Packed;
  if (packs) {
    pack_b(b.get(), DType::F32, p.k, p.n, p.b_transposed ? 1 : p.n, p.b_transposed ? p.k : 1, panel, packed.get(), DType::F32);
  }
  testing::FloatsBeforeAWall walled(b.size);
  std::memcpy(walled.get(), b.get(), static_cast<size_t>(b.size) * sizeof(float));
  testing::run_template(gemm_text(c), c.name, c.tile.lanes, {a.get(), packs ? packed.get() : walled.get(), out.get(), scratch.get()},
                        params, gemm_task_count(c, params));
  double worst = 0;
  for (int64_t q = 0; q < p.batch; ++q) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 1;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += double(a[q * p.m * p.k + (p.a_transposed ? l * p.m + i : i * p.k + l)]) *
                 b[q * p.k * p.n + (p.b_transposed ? j * p.k + l : l * p.n + j)];
        }
        const double difference = std::fabs(out[(q * p.m + i) * p.n + j] - sum);
        if (!(difference <= worst)) worst = difference;
      }
    }
  }
  return worst;
}

TEST(GemmTemplate, PackedWeightsOddShapes) {
  for (const Problem& p : {Problem{1, 1, 1}, {13, 50, 33}, {37, 100, 300}, {131, 97, 70}}) {
    for (int lanes : {8, 16}) EXPECT_LT(error_of(p, config_for(p, lanes)), 1e-4) << p.m << "x" << p.n << "x" << p.k;
  }
}

TEST(GemmTemplate, TransposedWeight) {
  const Problem p{9, 40, 21, 1, false, true};
  EXPECT_LT(error_of(p, config_for(p, 16)), 1e-4);
}

// Whatever lies across, in one block of rows and in several, with copied rows and without, and with fewer numbers than a vector has lanes.
TEST(GemmTemplate, CopiedPanels) {
  for (const int lanes : {8, 16})
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        for (const int64_t k : {5, 45})
          for (const int64_t blocks : {1, 3})
            for (const bool copy : {false, true}) {
              const Problem p{40, 70, k, 2, a, b};
              GemmConfig c = config_for(p, lanes);
              c.b_source = GemmB::Strided;
              c.tile.block_m = p.m / blocks, c.tile.block_k = 16, c.tile.copy_a = copy;
              settle_gemm_tile(c.tile);
              EXPECT_LT(error_of(p, c), 1e-4) << lanes << a << b << k << blocks << copy;
            }
}

TEST(GemmTemplate, GroupsOfPanelsShareABlockOfA) {
  for (const bool copies : {false, true}) {
    const Problem p{21, 330, 70, 1, copies};  // 7 panels of 48 columns: groups of unequal length, ragged ends
    GemmConfig c = config_for(p, 16);
    c.tile.block_m = 2 * c.tile.rows, c.tile.block_k = 32, c.tile.group = 3;
    EXPECT_LT(error_of(p, c), 1e-4);
  }
}

TEST(GemmTemplate, SymbolicSizes) {
  const Problem p{23, 61, 300};
  const int64_t params[] = {p.m, p.n, p.k};
  GemmConfig c = config_for(p, 16);
  c.m = Extent::at(0), c.n = Extent::at(1), c.k = Extent::at(2);
  c.a_row_stride = "params[2]";
  EXPECT_LT(error_of(p, c, params), 1e-4);
}

TEST(GemmTemplate, BatchedInPlaceAndStrided) {
  const Problem plain{19, 70, 33, 3}, both{19, 70, 33, 3, true, true};
  GemmConfig c = config_for(plain, 16);
  c.b_source = GemmB::InPlace;
  EXPECT_LT(error_of(plain, c), 1e-4);
  c.b_source = GemmB::Strided;
  EXPECT_LT(error_of(plain, c), 1e-4);
  c = config_for(both, 16);
  c.b_source = GemmB::Strided;
  EXPECT_LT(error_of(both, c), 1e-4);
}

TEST(GemmTemplate, ComputedRowsFeedTheProduct) {
  for (const Problem& p : {Problem{5, 32, 40}, {37, 330, 70, 2}, {70, 61, 300, 2, false, true}})
    for (const GemmB source : {GemmB::Packed, GemmB::Strided}) {
      if (source == GemmB::Packed && p.batch > 1) continue;
      GemmConfig c = config_for(p, 16);
      c.b_source = source;
      c.tile.block_m = 2 * c.tile.rows, c.tile.block_k = 32, c.tile.group = 3;
      c.rows_of_a.statements = fmt::format(
          "const float* restrict x = (const float*)bufs[0] + (batch * {} + m) * {};\nfor (int k = 0; k < {}; ++k) row[k] = x[k];\n"
          "scratch[0] = scratch[99] = 1;",
          p.m, p.k, p.k);
      c.rows_of_a.scratch_bytes = 100, c.rows_of_a.scratch_text = "100";
      EXPECT_LT(error_of(p, c), 1e-4) << p.m << "x" << p.n << "x" << p.k;
    }
}

TEST(GemmTemplate, InPlaceNeedsContiguousColumns) {
  GemmConfig c = config_for({4, 4, 4, 1, false, true}, 16);
  c.b_source = GemmB::InPlace;
  EXPECT_THROW(gemm_text(c), InternalError);
}

TEST(GemvTemplate, AllRowCountsAndHalfWeights) {
  for (int64_t m = 1; m <= 4; ++m) {
    const int64_t n = 37, k = 50;
    AlignedFloats a = values(m * k, 1), w = values(n * k, 2), out(m * n);
    std::vector<uint16_t> half(n * k);
    for (int64_t i = 0; i < n * k; ++i) half[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(w[i]) >> 16);
    GemvConfig c;
    c.name = "gemv";
    c.m = m, c.n = n, c.k = k;
    c.a_row_stride = c.b_row_stride = std::to_string(k);
    c.b_type = DType::BF16;
    c.tile.task_columns = 16;
    c.epilogue.declarations = "float* restrict out = bufs[2];";
    c.epilogue.vector = fmt::format("t_store(out + m * {} + n, acc);", n);
    c.epilogue.scalar = fmt::format("out[m * {} + n] = acc;", n);
    testing::run_template(gemv_text(c), c.name, c.lanes, {a.get(), half.data(), out.get()}, nullptr, gemv_task_count(c, nullptr));
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += double(a[i * k + l]) * std::bit_cast<float>(uint32_t(half[j * k + l]) << 16);
        ASSERT_NEAR(out[i * n + j], sum, 1e-4) << i << "," << j;
      }
    }
  }
}

}  // namespace
}  // namespace toroid::codegen

#include "codegen/cpu/templates/gemm_pack.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "codegen/cpu/templates/gemm_int8.h"
#include "codegen/cpu/templates/half_convert.h"

namespace toroid::codegen {
namespace {

template <class Src, class Dst, class Convert>
void pack(const Src* src, int64_t k, int64_t n, int64_t row_stride, int64_t col_stride, int panel, Dst* dst, Convert convert) {
  // 16 rows of K at a time, so that a [N,K] weight is read in whole cache lines.
  constexpr int64_t kRows = 16;
  for (int64_t n0 = 0; n0 < n; n0 += panel, dst += k * panel) {
    const int64_t columns = std::min<int64_t>(panel, n - n0);
    for (int64_t k0 = 0; k0 < k; k0 += kRows) {
      const int64_t k1 = std::min(k, k0 + kRows);
      for (int64_t c = 0; c < columns; ++c) {
        for (int64_t i = k0; i < k1; ++i) dst[i * panel + c] = convert(src[i * row_stride + (n0 + c) * col_stride]);
      }
      for (int64_t i = k0; i < k1; ++i) std::fill(dst + i * panel + columns, dst + (i + 1) * panel, Dst(0));
    }
  }
}

using Four = float __attribute__((vector_size(16)));

// One panel of whole columns that are contiguous along K, transposed in squares of four: most weights of most models.
void pack_panel_of_rows(const float* src, int64_t k, int64_t col_stride, int panel, float* dst) {
  constexpr int64_t kRows = 16;
  const auto at = [&](int64_t c, int64_t i) {
    Four x;  // of floats at any place
    std::memcpy(&x, src + c * col_stride + i, sizeof x);
    return x;
  };
  const auto put = [&](int64_t i, int64_t c, Four x) { std::memcpy(dst + i * panel + c, &x, sizeof x); };
  const int64_t whole = k / kRows * kRows;
  for (int64_t k0 = 0; k0 < whole; k0 += kRows) {
    for (int64_t c = 0; c < panel; c += 4) {
      for (int64_t i = k0; i < k0 + kRows; i += 4) {
        const Four r0 = at(c, i), r1 = at(c + 1, i), r2 = at(c + 2, i), r3 = at(c + 3, i);
        const Four a = __builtin_shufflevector(r0, r1, 0, 4, 1, 5), b = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
        const Four d = __builtin_shufflevector(r0, r1, 2, 6, 3, 7), e = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
        put(i, c, __builtin_shufflevector(a, b, 0, 1, 4, 5));
        put(i + 1, c, __builtin_shufflevector(a, b, 2, 3, 6, 7));
        put(i + 2, c, __builtin_shufflevector(d, e, 0, 1, 4, 5));
        put(i + 3, c, __builtin_shufflevector(d, e, 2, 3, 6, 7));
      }
    }
  }
  for (int64_t i = whole; i < k; ++i) {
    for (int64_t c = 0; c < panel; ++c) dst[i * panel + c] = src[c * col_stride + i];
  }
}

}  // namespace

int64_t packed_b_elements(int64_t k, int64_t n, int panel) { return (n + panel - 1) / panel * panel * k; }

void pack_b(const void* src, DType src_type, int64_t k, int64_t n, int64_t row_stride, int64_t col_stride, int panel, void* dst,
            DType dst_type) {
  TOROID_CHECK(dst_type == DType::F32 || dst_type == src_type, "cannot pack {} into {}", name_of(src_type), name_of(dst_type));
  const auto same = [](auto x) { return x; };
  const auto* half = static_cast<const uint16_t*>(src);
  auto* wide = static_cast<float*>(dst);
  if (is_half(src_type) && dst_type == src_type) {
    pack(half, k, n, row_stride, col_stride, panel, static_cast<uint16_t*>(dst), same);
  } else if (src_type == DType::BF16) {
    pack(half, k, n, row_stride, col_stride, panel, wide, bf16_to_f32);
  } else if (src_type == DType::F16) {
    pack(half, k, n, row_stride, col_stride, panel, wide, f16_to_f32);
  } else {
    TOROID_CHECK(src_type == DType::F32, "cannot pack {} weights", name_of(src_type));
    const auto* from = static_cast<const float*>(src);
    const int64_t fast = row_stride == 1 && panel % 4 == 0 ? n / panel * panel : 0;
    for (int64_t n0 = 0; n0 < fast; n0 += panel) pack_panel_of_rows(from + n0 * col_stride, k, col_stride, panel, wide + n0 * k);
    pack(from + fast * col_stride, k, n - fast, row_stride, col_stride, panel, wide + fast * k, same);
  }
}

int64_t packed_int8_bytes(int64_t k, int64_t n, int panel) { return ceil_div(n, int64_t{panel}) * panel * (4 + ceil_div(k, 4) * 4); }

void pack_int8(const int8_t* src, int64_t k, int64_t n, int64_t row_stride, int64_t col_stride, int panel, int64_t more, void* dst) {
  auto* to = static_cast<int8_t*>(dst);
  const int64_t bytes = packed_int8_bytes(k, panel, panel);
  for (int64_t n0 = 0; n0 < n; n0 += panel, to += bytes) {
    std::memset(to, 0, static_cast<size_t>(bytes));
    const int64_t columns = std::min<int64_t>(panel, n - n0);
    int8_t* quads = to + int64_t{panel} * 4;
    std::vector<int64_t> sums(static_cast<size_t>(columns));
    constexpr int64_t kRows = 64;  // at a time, so that both orders of B are read in whole cache lines
    for (int64_t k0 = 0; k0 < k; k0 += kRows) {
      for (int64_t c = 0; c < columns; ++c) {
        const int8_t* column = src + (n0 + c) * col_stride;
        int64_t sum = 0;
        for (int64_t i = k0; i < std::min(k, k0 + kRows); ++i) {
          const int8_t x = column[i * row_stride];
          quads[(i / 4 * panel + c) * 4 + i % 4] = x;
          sum += x;
        }
        sums[static_cast<size_t>(c)] += sum;
      }
    }
    for (int64_t c = 0; c < columns && more != 0; ++c) {
      const auto start = static_cast<int32_t>(static_cast<uint32_t>(-more * sums[static_cast<size_t>(c)]));
      std::memcpy(to + c * 4, &start, sizeof start);
    }
  }
}

}  // namespace toroid::codegen

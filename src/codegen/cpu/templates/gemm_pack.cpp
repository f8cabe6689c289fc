#include "codegen/cpu/templates/gemm_pack.h"

#include <algorithm>

#include "base/check.h"
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
    pack(static_cast<const float*>(src), k, n, row_stride, col_stride, panel, wide, same);
  }
}

}  // namespace toroid::codegen

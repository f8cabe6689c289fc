// What both texts of attention_prefill.cpp are made of. A warp has 16 queries; its lanes hold scores and outputs as the tensor cores leave
// them: lane 4 * g + t has columns 8 * n + 2 * t and the next of rows g and g + 8, at 4 * n.
#pragma once

#include <string_view>

namespace toroid::codegen {

// Which tile is the work of a number. Heads whose keys and values fit the cache together take turns; their last tiles, which see the most
// keys, come first.
constexpr std::string_view kPrefillOrder = R"(const int tiles = (M + kBM - 1) / kBM, in_batch = work % (tiles * heads);
const int turn = in_batch / (tiles * kHeadGroup), in_turn = in_batch % (tiles * kHeadGroup);
const int sharing = min(kHeadGroup, heads - turn * kHeadGroup);
const int tile = tiles - 1 - in_turn / sharing, head = turn * kHeadGroup + in_turn % sharing, kv_head = head / (heads / kv_heads);
const int batch = work / (tiles * heads);
const int visible = @VISIBLE@, blocks = (visible + kBN - 1) / kBN;)";

// The running softmax (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018) of a warp's queries from row0 on.
constexpr std::string_view kPrefillSoftmax = R"(int limit[2];  // the last key that a row sees
#pragma unroll
for (int e = 0; e < 2; ++e) limit[e] = @LIMIT@;
const int all_see = @ALL_SEE@;
float o[kDV / 2], s[kBN / 2], peak[2] = {NEGATIVE_INFINITY, NEGATIVE_INFINITY}, sum[2] = {0, 0}, decay[2];
#pragma unroll
for (int i = 0; i < kDV / 2; ++i) o[i] = 0;
auto mask_scores = [&](int j, bool mixed) {
  if (kPreScaled) {
#pragma unroll
    for (int i = 0; i < kBN / 2; ++i) s[i] *= kFactor;
  }
  @MASK@
  if (j * kBN + kBN - 1 > all_see) {
#pragma unroll
    for (int n = 0; n < kBN / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (j * kBN + n * 8 + 2 * t + (e & 1) > limit[e >> 1]) s[n * 4 + e] = NEGATIVE_INFINITY;
  }
};
// Scores become powers of two relative to the peak; `decay` is what sums and outputs so far have to be multiplied with.
auto softmax = [&] {
  constexpr float f = kPreScaled ? 1.0f : kFactor;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    float high = peak[e];
#pragma unroll
    for (int n = 0; n < kBN / 8; ++n) high = fmaxf(high, fmaxf(s[n * 4 + 2 * e], s[n * 4 + 2 * e + 1]));
    high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));
    high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
    const float base = fmaxf(high, -1.0e37f) * f;  // finite even when everything so far is masked out
    decay[e] = power_of_two(peak[e] * f - base);
    peak[e] = high;
    float total = 0;
#pragma unroll
    for (int n = 0; n < kBN / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& p = s[n * 4 + 2 * e + c];
        p = power_of_two(p * f - base);
        total += p;
      }
    sum[e] = sum[e] * decay[e] + total;
  }
};
auto rescale = [&] {
#pragma unroll
  for (int i = 0; i < kDV / 2; ++i) o[i] *= decay[i >> 1 & 1];
};)";

// Elements one by one, or in twos.
constexpr std::string_view kPrefillMaskElements = R"(#pragma unroll
for (int e = 0; e < 2; ++e) {
  const mask_type* const m = @ROW@;
#pragma unroll
  for (int n = 0; n < kBN / 8; ++n) {
    const int key = j * kBN + n * 8 + 2 * t;
    @LOAD@
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float& score = s[n * 4 + e * 2 + c];
      @APPLY@
    }
  }
})";

// A lane reads 32 bytes of its rows and hands them on as bits.
constexpr std::string_view kPrefillMaskBits = R"(if (mixed) {
  u32 bits[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const u8* const m = @ROW@;
    bits[e] = 0;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint4 x = *(const uint4*)(m + min(j * kBN + t * 32 + h * 16, N - 16));
      bits[e] |= (byte_bits(x.x) | byte_bits(x.y) << 4 | byte_bits(x.z) << 8 | byte_bits(x.w) << 12) << (h * 16);
    }
  }
#pragma unroll
  for (int w = 0; w < kBN / 32; ++w)
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const u32 word = __shfl_sync(~0u, bits[e], (lane & ~3) | w) >> (2 * t);
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (!(word >> (i / 2 * 8 + i % 2) & 1)) s[(w * 4 + i / 2) * 4 + e * 2 + i % 2] = NEGATIVE_INFINITY;
    }
})";

// Rows go through shared memory of the warp's own, `mine`, so that a thread has eight neighbours.
constexpr std::string_view kPrefillStore = R"(#pragma unroll
for (int e = 0; e < 2; ++e) {
  sum[e] += __shfl_xor_sync(~0u, sum[e], 1);
  sum[e] += __shfl_xor_sync(~0u, sum[e], 2);
  const float inverse = sum[e] > 0 ? 1.0f / sum[e] : 0.0f;  // nothing seen: zero
#pragma unroll
  for (int i = 0; i < kDV / 8; ++i)
    *(float2*)(mine + (g + e * 8) * kPitchO + i * 8 + 2 * t) = make_float2(o[i * 4 + 2 * e] * inverse, o[i * 4 + 2 * e + 1] * inverse);
}
__syncwarp();
for (int item = lane; item < 16 * (kDV / 8); item += 32) {
  const int r = item / (kDV / 8), d = item % (kDV / 8) * 8, query = row0 + r;
  if (query >= M) break;
  float acc[8];
  *(float4*)acc = *(const float4*)(mine + r * kPitchO + d);
  *(float4*)(acc + 4) = *(const float4*)(mine + r * kPitchO + d + 4);
  @EPILOGUE@
})";

}  // namespace toroid::codegen

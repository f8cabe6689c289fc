// The text of attention_decode.cpp for keys that several blocks share: how their sums come together.
#pragma once

#include <string_view>

namespace toroid::codegen {

// Where several blocks share the keys of a head, their sums travel as words that are their own sign of arrival: zero until then, and zero
// again once they are read. So nobody waits for a fence, a counter and then for the sums: the last block of the head, which adds them up,
// asks for them until they are there. (Blocks begin in the order of their numbers, so that those it waits for are under way.) Each vector
// of 8 sums has the peak and the total of its row beside it: a thread reads words that no other reads.
constexpr std::string_view kDecodePartDefinitions = R"(
constexpr int kPartRows = @ROWS@, kRowWords = kDV + 2 * kVectors;
__device__ __forceinline__ u32 word_of(float x) {
  const u32 w = ~__float_as_uint(x);
  return w != 0 ? w : 1;  // instead of one NaN another
}
__device__ __forceinline__ float float_of(u32 word) { return __uint_as_float(~word); }
__device__ __forceinline__ void write_words(u32* p, u32 a, u32 b) {
  asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(a), "r"(b) : "memory");
}
__device__ __forceinline__ void write_words(u32* p, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
// The 8 sums at `sums`, then peak and total.
__device__ __forceinline__ void read_words(u32* w, const u32* sums, const u32* totals) {
#pragma unroll
  for (int i = 0; i < 8; i += 4)
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[i]), "=r"(w[i + 1]), "=r"(w[i + 2]), "=r"(w[i + 3]) : "l"(sums + i) : "memory");
  asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(w[8]), "=r"(w[9]) : "l"(totals) : "memory");
}
)";

constexpr std::string_view kDecodeParts = R"(constexpr int kOthers = kSplits - 1;
u32* const part = counters + (idx)part_of * (kOthers * kPartRows * kRowWords);)";

// The last block keeps its own in place of what it has added up.
constexpr std::string_view kDecodeFinishPart = R"(if (split == kOthers) {
  float* const own = (float*)sh.warps[0] + r * kDV + d;
#pragma unroll
  for (int i = 0; i < 8; ++i) own[i] = acc[i];
  *(float2*)((float*)sh.warps[1] + r * kDV + d) = make_float2(high, total);
  continue;
}
u32* const to = part + (split * kPartRows + r) * kRowWords;
write_words(to + d, word_of(acc[0]), word_of(acc[1]), word_of(acc[2]), word_of(acc[3]));
write_words(to + d + 4, word_of(acc[4]), word_of(acc[5]), word_of(acc[6]), word_of(acc[7]));
write_words(to + kDV + d / 4, word_of(high), word_of(total));)";

constexpr std::string_view kDecodeCombine = R"(if (split != kOthers) return;
__syncthreads();
int sharers = 1;  // threads that share a vector
while (sharers < 8 && sharers * 2 <= kSplits && rows_used * kVectors * sharers < kThreads) sharers *= 2;
const int sub = threadIdx.x % sharers;
for (int item0 = 0; item0 < rows_used * kVectors; item0 += kThreads / sharers) {
  const int item = item0 + threadIdx.x / sharers, r = item / kVectors, d = item % kVectors * 8;
  float high = NEGATIVE_INFINITY, total = 0, acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  auto add = [&](const float* x, float peak, float sum) {
    const float top = fmaxf(high, peak), base = fmaxf(top, -3.0e38f), before = power_of_two(high - base), f = power_of_two(peak - base);
    high = top;
    total = total * before + sum * f;
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] = acc[i] * before + x[i] * f;
  };
  if (item < rows_used * kVectors) {
    if (sub == 0) {
      const float2 sums = *(const float2*)((const float*)sh.warps[1] + r * kDV + d);
      add((const float*)sh.warps[0] + r * kDV + d, sums.x, sums.y);
    }
    constexpr int kAtOnce = kOthers < 8 ? 1 : 4;
    for (int first = sub; first < kOthers; first += sharers * kAtOnce) {
      u32 words[kAtOnce][10];
      bool missing;
      do {
        missing = false;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const u32* const from = part + (min(first + i * sharers, kOthers - 1) * kPartRows + r) * kRowWords;
          read_words(words[i], from + d, from + kDV + d / 4);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
          for (int j = 0; j < 10; ++j) missing |= words[i][j] == 0 && first + i * sharers < kOthers;
      } while (missing);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int s = first + i * sharers;
        if (s >= kOthers) break;
        u32* const from = part + (s * kPartRows + r) * kRowWords;
        write_words(from + d, 0, 0, 0, 0);
        write_words(from + d + 4, 0, 0, 0, 0);
        write_words(from + kDV + d / 4, 0, 0);
        float x[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) x[j] = float_of(words[i][j]);
        add(x, float_of(words[i][8]), float_of(words[i][9]));
      }
    }
  }
  float top = high;
  for (int m = 1; m < sharers; m *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, m));
  const float f = power_of_two(high - fmaxf(top, -3.0e38f));
  total *= f;
  for (int m = 1; m < sharers; m *= 2) total += __shfl_xor_sync(~0u, total, m);
  const float scale = total > 0 ? f / total : 0.0f;  // nothing seen: zero
#pragma unroll
  for (int i = 0; i < 8; ++i) acc[i] *= scale;
  for (int m = 1; m < sharers; m *= 2)
#pragma unroll
    for (int i = 0; i < 8; ++i) acc[i] += __shfl_xor_sync(~0u, acc[i], m);
  if (sub == 0 && item < rows_used * kVectors) {
    const int head = kv_head * group + (row0 + r) / M, query = (row0 + r) % M;
    @EPILOGUE@
  }
})";

}  // namespace toroid::codegen

// Text that moves neighbours to and from rows that begin anywhere in memory, by whole vectors at aligned places.
#pragma once

#include <string_view>

namespace toroid::codegen {

// A lane has N neighbours from p on, of which `left` are in the row and in memory. Vectors begin as far before p as p lies behind an
// aligned place: what they read of others is not used. What a lane stores of the first of its vectors, the lane before has: kLanes lanes
// hold neighbours of one row, and the last one hands on to the first one of the next call (`carried`). `begins`, `ends`: nobody before
// (behind) the lane does. All lanes of a warp call it together. Pieces at both ends are stored by the widest accesses that are aligned.
inline constexpr std::string_view kAround = R"(
template <class T, int N> struct Around {
  static constexpr int kBytes = N * sizeof(T), kVector = kBytes < 16 ? kBytes : 16;
  static constexpr int kBack = kVector / 4, kWords = kBytes / 4;  // words of a vector, of all
  u32 words[kWords + kBack];

  static u32 behind(const T* p) { return (u32)(u64)p % kVector; }
  Pack<T, N> pack(const T* p) const;
  Pack<T, N> pack_alike(const T* p) const;  // where p lies as far behind for all lanes, mostly not at all
};

template <class T, int N> union AroundWords {
  Pack<T, N> pack;
  u32 words[N * sizeof(T) / 4];
};

// to[i] = from[i + by], by less than kBack.
template <int kBack, int kFrom, int kTo> void shift_words(const u32 (&from)[kFrom], u32 by, u32 (&to)[kTo]) {
  if constexpr (kBack == 4) {
    u32 some[kTo + 1];
#pragma unroll
    for (int i = 0; i < kTo + 1; ++i) some[i] = by & 2 ? (i + 2 < kFrom ? from[i + 2] : 0) : from[i];
#pragma unroll
    for (int i = 0; i < kTo; ++i) to[i] = by & 1 ? some[i + 1] : some[i];
  } else {
#pragma unroll
    for (int i = 0; i < kTo; ++i) to[i] = kBack > 1 && by ? from[i + 1] : from[i];
  }
}

template <class T, int N> Around<T, N> load_around(const T* p, int left) {
  typedef Around<T, N> A;
  const u32 behind = A::behind(p);
  const typename Word<A::kVector>::T* const from = (const typename Word<A::kVector>::T*)((const u8*)p - behind);
  union { typename Word<A::kVector>::T vectors[A::kWords / A::kBack + 1]; A around; } x = {};
#pragma unroll
  for (int i = 0; i <= A::kWords / A::kBack; ++i)
    if (left > 0 && i * A::kVector < (int)behind + left * (int)sizeof(T) && (i < A::kWords / A::kBack || behind > 0)) x.vectors[i] = from[i];
  return x.around;
}

template <class T, int N> Pack<T, N> Around<T, N>::pack(const T* p) const {
  u32 shifted[kWords + 1];
  shift_words<kBack>(words, behind(p) / 4, shifted);
  AroundWords<T, N> x;
#pragma unroll
  for (int i = 0; i < kWords; ++i) x.words[i] = sizeof(T) < 4 ? __funnelshift_r(shifted[i], shifted[i + 1], behind(p) % 4 * 8) : shifted[i];
  return x.pack;
}

template <class T, int N> Pack<T, N> Around<T, N>::pack_alike(const T* p) const {
  AroundWords<T, N> x;
#pragma unroll
  for (int i = 0; i < kWords; ++i) x.words[i] = words[i];
  if (behind(p) > 0) {
    asm volatile("");  // a branch
    x.pack = pack(p);
  }
  return x.pack;
}

// How many are left where that differs, but in few tiles: pieces are stored one by one then, which is less code.
struct LeftOfFew {
  int left;
  operator int() const { return left; }
};
template <class T> struct IsOfFew { static constexpr bool value = false; };
template <> struct IsOfFew<LeftOfFew> { static constexpr bool value = true; };

// Bytes `first` to `last` of B, which lie in words.
template <class T, int B, bool kOfFew> void store_bytes(u8* to, const u32* words, int first, int last) {
  if (first <= 0 && last >= B) {
    if constexpr (B == 16) *(uint4*)to = uint4{words[0], words[1], words[2], words[3]};
    else if constexpr (B == 8) *(uint2*)to = uint2{words[0], words[1]};
    else *(typename Word<B>::T*)to = (typename Word<B>::T)words[0];
  } else if constexpr (kOfFew) {
#pragma unroll
    for (int i = 0; i < B; i += sizeof(T))
      if (i >= first && i < last) {
        const u32 element = words[i / 4] >> i % 4 * 8;
        store_bytes<T, sizeof(T), false>(to + i, sizeof(T) < 4 ? &element : words + i / 4, 0, sizeof(T));
      }
  } else if constexpr (B > sizeof(T)) {
    if (first >= B || last <= 0) return;
    constexpr int kHalf = B / 2;
    const u32 high = words[0] >> kHalf * 8 % 32;
    store_bytes<T, kHalf, false>(to, words, first, last);
    store_bytes<T, kHalf, false>(to + kHalf, B > 4 ? words + kHalf / 4 : &high, first - kHalf, last - kHalf);
  }
}

template <int kLanes, class T, int N, class Left>
void store_around(T* p, const Pack<T, N>& own, u32 (&carried)[Around<T, N>::kBack], bool begins, bool ends, Left left) {
  typedef Around<T, N> A;
  AroundWords<T, N> x;
  x.pack = own;
  u32 all[A::kBack + A::kWords], shifted[A::kWords + 1], words[A::kWords];
#pragma unroll
  for (int i = 0; i < A::kBack; ++i) {
    const u32 before = __shfl_sync(~0u, x.words[A::kWords - A::kBack + i], threadIdx.x + kLanes - 1, kLanes);
    all[i] = threadIdx.x % kLanes == 0 ? carried[i] : before;
    carried[i] = before;
  }
#pragma unroll
  for (int i = 0; i < A::kWords; ++i) all[A::kBack + i] = x.words[i];
  const u32 behind = A::behind(p), bits = behind % 4 * 8;
  u8* const to = (u8*)p - behind;
  shift_words<A::kBack>(all, A::kBack - 1 - behind / 4, shifted);
#pragma unroll
  for (int i = 0; i < A::kWords; ++i) words[i] = sizeof(T) < 4 ? __funnelshift_l(shifted[i], shifted[i + 1], bits) : shifted[i + 1];
  const int last = (int)behind + (int)left * (int)sizeof(T);
#pragma unroll
  for (int i = 0; i < A::kWords; i += A::kBack)
    store_bytes<T, A::kVector, IsOfFew<Left>::value>(to + i * 4, words + i, begins ? (int)behind - i * 4 : 0, last - i * 4);
  if (ends && behind > 0) {
    u32 rest[A::kBack + 1];
#pragma unroll
    for (int i = 0; i < A::kBack; ++i) all[i] = x.words[A::kWords - A::kBack + i];
    shift_words<A::kBack>(all, A::kBack - 1 - behind / 4, rest);
#pragma unroll
    for (int i = 0; i < A::kBack; ++i) words[i] = sizeof(T) < 4 ? __funnelshift_l(rest[i], rest[i + 1], bits) : rest[i + 1];
    store_bytes<T, A::kVector, IsOfFew<Left>::value>(to + A::kBytes, words, 0, min((int)behind, last - A::kBytes));
  }
}
)";

}  // namespace toroid::codegen

#include "codegen/cuda/templates/sort.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codegen/cuda/templates/parts.h"
#include "codegen/sort_key.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kSharedPairs = 128 << 10;  // bytes of shared memory for pairs, at most
constexpr int64_t kOpenRoom = 4096;          // pairs there when the length of rows is not known
constexpr int64_t kMostSelected = 4096;      // more are sorted with their whole row

// An element's key and its place in the row, in one number or in two. All are different, so that any sort is a stable one.
constexpr std::string_view kShortPair = R"(
typedef u64 Pair;
__device__ __forceinline__ Pair pair_of(u32 key, u32 at) { return (u64)key << 32 | at; }
__device__ __forceinline__ u32 key_in(Pair p) { return (u32)(p >> 32); }
__device__ __forceinline__ u32 at_in(Pair p) { return (u32)p; }
__device__ __forceinline__ bool before(Pair a, Pair b) { return a < b; }
__device__ __forceinline__ Pair last_pair() { return ~0ull; }
)";
constexpr std::string_view kLongPair = R"(
struct alignas(16) Pair { u64 key, at; };
__device__ __forceinline__ Pair pair_of(u64 key, u32 at) { return {key, at}; }
__device__ __forceinline__ u64 key_in(Pair p) { return p.key; }
__device__ __forceinline__ u32 at_in(Pair p) { return (u32)p.at; }
__device__ __forceinline__ bool before(Pair a, Pair b) { return a.key != b.key ? a.key < b.key : a.at < b.at; }
__device__ __forceinline__ Pair last_pair() { return {~0ull, ~0ull}; }
)";

constexpr std::string_view kDefinitions = R"(
typedef @BITS@ Bits;
constexpr int kThreads = @THREADS@, kWarps = kThreads / 32, kBytes = sizeof(Bits);
__device__ __forceinline__ Bits key_of(Bits x) {
  @KEYTEXT@
}
@PAIR@
// Sorts `room` pairs, a power of two, in shared memory (bitonic sort: K. E. Batcher, "Sorting networks and their applications", 1968).
__device__ void order(Pair* pairs, int room) {
  for (int run = 2; run <= room; run *= 2)
    for (int apart = run / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (int i = threadIdx.x; i < room / 2; i += kThreads) {
        const int a = 2 * i - (i & (apart - 1)), b = a + apart;
        const Pair x = pairs[a], y = pairs[b];
        if (before(y, x) == ((a & run) == 0)) pairs[a] = y, pairs[b] = x;
      }
    }
  __syncthreads();
}
__device__ __forceinline__ int power_of_two_from(int n) { return n <= 1 ? 1 : 1 << (32 - __clz(n - 1)); }
)";

// In shared memory, filled up with the largest pairs.
constexpr std::string_view kWhole = R"({
  const int room = power_of_two_from(n);
  for (int i = threadIdx.x; i < room; i += kThreads) pairs[i] = i < n ? pair_of(key_of(x[i * step]), i) : last_pair();
  order(pairs, room);
  first = pairs;
})";

// Byte by byte from the highest on, the key of element number `count` (radix select: Alabi et al., "Fast k-selection algorithms for
// graphics processing units", 2012). Then those before it, and the first ones that equal it.
constexpr std::string_view kSelect = R"({
  Bits limit = 0, known = 0;
  int equals = count;  // of those that equal the limit, how many are wanted
  for (int d = kBytes - 1; d >= 0; --d) {
    for (int i = threadIdx.x; i < 256; i += kThreads) counts[i] = 0;
    __syncthreads();
    for (int i0 = 0; i0 < n; i0 += kThreads) {
      const int i = i0 + threadIdx.x;
      const Bits key = i < n ? key_of(x[i * step]) : (Bits)0;
      const bool counted = i < n && (key & known) == limit;
      const u32 all = __ballot_sync(~0u, counted);
      if (counted) {
        const int byte = (int)(key >> (8 * d)) & 255;
        const u32 same = __match_any_sync(all, byte);
        if ((same & below) == 0) atomicAdd(counts + byte, __popc(same));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int byte = 0;
      while (byte < 255 && counts[byte] < (u32)equals) equals -= (int)counts[byte++];
      chosen[0] = byte;
      chosen[1] = equals;
    }
    __syncthreads();
    limit |= (Bits)((Bits)chosen[0] << (8 * d));
    known |= (Bits)((Bits)255 << (8 * d));
    equals = chosen[1];
    __syncthreads();
  }
  const int room = power_of_two_from(count);
  for (int i = threadIdx.x; i < room; i += kThreads) pairs[i] = last_pair();
  if (threadIdx.x == 0) filled = 0;
  __syncthreads();
  int seen = 0;  // that equal the limit
  for (int i0 = 0; i0 < n; i0 += kThreads) {
    const int i = i0 + threadIdx.x;
    const Bits key = i < n ? key_of(x[i * step]) : (Bits)0;
    bool taken = i < n && key < limit;
    const bool equal = i < n && key == limit;
    const u32 mine = __ballot_sync(~0u, equal);
    const int here = __syncthreads_count(equal);
    if (here > 0 && seen < equals) {
      if (lane == 0) counts[warp] = __popc(mine);
      __syncthreads();
      int place = seen + __popc(mine & below);
      for (int w = 0; w < warp; ++w) place += (int)counts[w];
      taken |= equal && place < equals;
      __syncthreads();
    }
    seen += here;
    if (taken) pairs[atomicAdd(&filled, 1)] = pair_of(key, i);
  }
  order(pairs, room);
  first = pairs;
})";

// By the bytes of the keys, from the lowest on (radix sort: Knuth, The Art of Computer Programming 3, 5.2.5).
constexpr std::string_view kLong = R"({
  Pair* from = (Pair*)scratch + (i64)row * 2 * n;
  Pair* to = from + n;
  __shared__ u32 of_warps[kWarps][256];
  for (int d = 0; d < kBytes; ++d) {
    for (int i = threadIdx.x; i < 256; i += kThreads) counts[i] = 0;
    __syncthreads();
    for (int i0 = 0; i0 < n; i0 += kThreads) {
      const int i = i0 + threadIdx.x;
      const u32 all = __ballot_sync(~0u, i < n);
      if (i < n) {
        const int byte = (int)((d == 0 ? key_of(x[i * step]) : key_in(from[i])) >> (8 * d)) & 255;
        const u32 same = __match_any_sync(all, byte);
        if ((same & below) == 0) atomicAdd(counts + byte, __popc(same));
      }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      u32 sum = 0;
      for (int i = 0; i < 256; ++i) {
        const u32 count = counts[i];
        counts[i] = sum;
        sum += count;
      }
    }
    for (int i0 = 0; i0 < n; i0 += kThreads) {
      for (int i = threadIdx.x; i < kWarps * 256; i += kThreads) of_warps[i / 256][i % 256] = 0;
      __syncthreads();
      const int i = i0 + threadIdx.x;
      const u32 all = __ballot_sync(~0u, i < n);
      Pair p = last_pair();
      int byte = 0, place = 0;
      if (i < n) {
        p = d == 0 ? pair_of(key_of(x[i * step]), i) : from[i];
        byte = (int)(key_in(p) >> (8 * d)) & 255;
        const u32 same = __match_any_sync(all, byte);
        place = __popc(same & below);
        if (place == 0) of_warps[warp][byte] = __popc(same);
      }
      __syncthreads();
      for (int b = threadIdx.x; b < 256; b += kThreads) {
        u32 sum = counts[b];
        for (int w = 0; w < kWarps; ++w) {
          const u32 count = of_warps[w][b];
          of_warps[w][b] = sum;
          sum += count;
        }
        counts[b] = sum;
      }
      __syncthreads();
      if (i < n) to[of_warps[warp][byte] + place] = p;
      __syncthreads();
    }
    Pair* const other = from;
    from = to;
    to = other;
  }
  first = from;
})";

constexpr std::string_view kText = R"(
extern __shared__ __align__(16) char smem[];
Pair* const pairs = (Pair*)smem;
__shared__ u32 counts[256];
__shared__ int chosen[2], filled;
const int n = (int)(@LENGTH@), count = (int)(@COUNT@);
const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
const u32 below = (1u << lane) - 1;
const idx row = blockIdx.x, step = @STEP@;
const Bits* const x = (const Bits*)@X@;
const Pair* first;
@SORT@
for (int i = threadIdx.x; i < count; i += kThreads) {
  const u32 at = at_in(first[i]);
  @STORES@
}
)";

struct Shape {
  int64_t room = 0;  // pairs in shared memory
  bool whole = false, selects = false, sorts_long = false;
};

Shape shape_of(const choice::Sort& s) {
  const int64_t pair = size_of(s.keys.dtype) == 8 ? 16 : 8, most = kSharedPairs / pair;
  auto room_for = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)))); };
  Shape out;
  if (s.length.is_const() && room_for(s.length.constant()) <= most) return {room_for(s.length.constant()), true, false, false};
  out.whole = !s.length.is_const();
  out.selects = s.count.is_const() && s.count.constant() <= kMostSelected;
  out.sorts_long = !out.selects;
  out.room = std::max(out.whole ? kOpenRoom : 1, out.selects ? room_for(s.count.constant()) : 1);
  return out;
}

std::string sort_statements(const Shape& s) {
  std::string longer = std::string(s.selects ? kSelect : s.sorts_long ? kLong : "");
  if (!s.whole) return longer;
  return longer.empty() ? std::string(kWhole) : fmt::format("if (n <= {}) {} else {}", s.room, kWhole, longer);
}

}  // namespace

bool cuda_supports(const choice::Sort& s) { return !is_complex(s.keys.dtype); }

KernelText generate_cuda_sort(const choice::Sort& s) {
  const Shape shape = shape_of(s);
  const int64_t element = static_cast<int64_t>(size_of(s.keys.dtype)), pair = element == 8 ? 16 : 8;
  const bool one_step = shape.whole && !shape.selects && !shape.sorts_long;
  const int threads = one_step ? static_cast<int>(std::clamp<int64_t>(shape.room / 2, 32, 1024)) : 1024;
  const std::string bits = fmt::format("u{}", 8 * element);
  CudaArguments arguments;
  const std::vector<std::string> rows = cuda_unflatten(arguments, "row", s.rows);
  auto address = [&](const choice::Operand& o, const std::string& position) {
    std::vector<std::string> at = rows;
    at.push_back(position);
    return fmt::format("{} + {}", arguments.pointer(o.buffer, o.dtype), cuda_address(arguments, o.offset, o.strides, at));
  };
  const std::string x = "(" + address(s.keys, "0") + ")";
  std::string stores;
  for (const choice::Operand* o : {&s.values, &s.positions}) {
    if (o->buffer < 0) continue;
    arguments.mark_written(o->buffer);
    stores += o == &s.values ? fmt::format("*({}*)({}) = x[at * step];\n", bits, address(*o, "i"))
                             : fmt::format("*({}) = at;\n", address(*o, "i"));
  }
  Expr tasks = 1;
  for (auto& r : s.rows) tasks = tasks * r;
  if (shape.sorts_long) arguments.use_scratch(tasks * s.length * (2 * pair));
  arguments.define(expand(kDefinitions, {{"BITS", bits},
                                         {"THREADS", std::to_string(threads)},
                                         {"KEYTEXT", sort_key_text(s.keys.dtype, s.descending, bits, fmt::format("i{}", 8 * element))},
                                         {"PAIR", std::string(pair == 16 ? kLongPair : kShortPair)}}));
  const std::string body = expand(kText, {{"LENGTH", cuda_size(arguments, s.length)},
                                          {"COUNT", cuda_size(arguments, s.count)},
                                          {"STEP", cuda_size(arguments, s.keys.strides.back())},
                                          {"X", x},
                                          {"SORT", sort_statements(shape)},
                                          {"STORES", stores}});
  KernelText k = arguments.kernel(s.count == s.length ? "sort" : "topk", body, threads, true);
  k.tasks = tasks;
  k.shared_bytes = static_cast<int>(shape.room * pair);
  k.plan =
      fmt::format("{} of rows of {}, a row a block, {}{}{}", k.name, sym::to_string(s.length),
                  shape.whole ? fmt::format("{} pairs in shared memory", shape.room) : "", shape.whole && !one_step ? ", longer ones " : "",
                  shape.selects      ? "by selection"
                  : shape.sorts_long ? "by bytes in scratch memory"
                                     : "");
  return k;
}

}  // namespace toroid::codegen

#include "codegen/cpu/templates/sort_template.h"

#include "base/check.h"
#include "codegen/sort_key.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kSpare = 256;  // candidates of a selection that are kept besides twice its count

int pair_bytes(const SortConfig& c) { return c.long_rows || size_of(c.dtype) == 8 ? 16 : 8; }

// A key and a position. Two short ones are one number: the key is its upper half.
constexpr std::string_view kShortPair = R"(typedef u64 @NAME@_pair;
static inline u32 @NAME@_key_of(@NAME@_pair p) { return (u32)(p >> 32); }
static inline u32 @NAME@_at_of(@NAME@_pair p) { return (u32)p; }
static inline @NAME@_pair @NAME@_pair_of(u32 key, i64 at) { return (u64)key << 32 | (u64)at; })";
constexpr std::string_view kLongPair = R"(typedef struct {
  u64 key;
  i64 at;
} @NAME@_pair;
static inline u64 @NAME@_key_of(@NAME@_pair p) { return p.key; }
static inline i64 @NAME@_at_of(@NAME@_pair p) { return p.at; }
static inline @NAME@_pair @NAME@_pair_of(u64 key, i64 at) { return (@NAME@_pair){key, at}; })";

constexpr std::string_view kText = R"(
@PAIR@
static inline @BITS@ @NAME@_key(@BITS@ x) {
  @KEYTEXT@
}
static inline v@BITS@ @NAME@_keys(v@BITS@ x) {
  @KEYSTEXT@
}

// Sorts n pairs by key, equal keys staying in order: a few by insertion, more by their bytes from the lowest on (radix sort: Knuth, The Art
// of Computer Programming 3, 5.2.5). Returns where they are: in a or b.
static __attribute__((noinline)) @NAME@_pair* @NAME@_order(@NAME@_pair* a, @NAME@_pair* b, i64 n) {
  if (n <= 40) {
    for (i64 i = 1; i < n; ++i) {
      const @NAME@_pair p = a[i];
      i64 j = i;
      for (; j > 0 && @NAME@_key_of(a[j - 1]) > @NAME@_key_of(p); --j) a[j] = a[j - 1];
      a[j] = p;
    }
    return a;
  }
  @AT@ counts[@BYTES@][256];
  for (int d = 0; d < @BYTES@; ++d)
    for (int i = 0; i < 256; ++i) counts[d][i] = 0;
  for (i64 i = 0; i < n; ++i) {
    const @KEY@ key = @NAME@_key_of(a[i]);
    @COUNTS@
  }
  for (int d = 0; d < @BYTES@; ++d) {
    @AT@* const at = counts[d];
    if (at[(@NAME@_key_of(a[0]) >> (8 * d)) & 255] == n) continue;  // the same byte in all keys
    @AT@ sum = 0;
    for (int i = 0; i < 256; ++i) {
      const @AT@ count = at[i];
      at[i] = sum;
      sum += count;
    }
    for (i64 i = 0; i < n; ++i) b[at[(@NAME@_key_of(a[i]) >> (8 * d)) & 255]++] = a[i];
    @NAME@_pair* const other = a;
    a = b;
    b = other;
  }
  return a;
}
@SELECT@
void @NAME@(void* const* bufs, const i64* params, i64 begin, i64 end, int thread) {
  const i64 n = @LENGTH@, count = @COUNT@, room = @ROOM@;
  @NAME@_pair* const a = (@NAME@_pair*)((char*)bufs[@SCRATCH@] + (i64)thread * 2 * room * (i64)sizeof(@NAME@_pair));
  for (i64 row = begin; row < end && count > 0; ++row) {
    const @BITS@* const x = (const @BITS@*)bufs[@X@] + (@XOFFSET@);
    const i64 step = @XSTEP@;
    const @NAME@_pair* first;
    @WHOLE@{
      for (i64 i = 0; i < n; ++i) a[i] = @NAME@_pair_of(@NAME@_key(x[i * step]), i);
      first = @NAME@_order(a, a + room, n);
    }
    @STORES@
  }
}
)";

// The first `count` of n elements: those that are smaller than all that cannot be among them any more go to the candidates, which are
// sorted and cut to `count` whenever there are `capacity` of them. capacity < n.
constexpr std::string_view kSelect = R"(
static __attribute__((noinline)) const @NAME@_pair* @NAME@_select(const @BITS@* x, i64 step, i64 n, i64 count, i64 capacity, @NAME@_pair* a,
                                                                  @NAME@_pair* b) {
  i64 m = capacity, i = capacity;
  for (i64 j = 0; j < capacity; ++j) a[j] = @NAME@_pair_of(@NAME@_key(x[j * step]), j);
  for (;;) {
    @NAME@_pair* const sorted = @NAME@_order(a, b, m);
    if (sorted != a) {
      b = a;
      a = sorted;
    }
    if (i == n) return a;
    m = count;
    const @BITS@ limit = @NAME@_key_of(a[count - 1]);
    while (i < n && m < capacity) {
      @SKIP@
      const i64 stop = i + TOROID_W < n ? i + TOROID_W : n;
      for (; i < stop && m < capacity; ++i) {
        const @BITS@ key = @NAME@_key(x[i * step]);
        a[m] = @NAME@_pair_of(key, i);
        m += key < limit;
      }
    }
  }
}
)";

std::string stores_text(const SortConfig& c, const std::string& bits) {
  std::string declarations, stores;
  if (c.value_buffer >= 0) {
    declarations += fmt::format("{0}* const values = ({0}*)bufs[{1}] + ({2});\n", bits, c.value_buffer, c.value_offset);
    stores += fmt::format("\n  values[i * ({})] = x[(i64){}_at_of(first[i]) * step];", c.value_stride, c.name);
  }
  if (c.position_buffer >= 0) {
    declarations += fmt::format("i64* const positions = (i64*)bufs[{}] + ({});\n", c.position_buffer, c.position_offset);
    stores += fmt::format("\n  positions[i * ({})] = {}_at_of(first[i]);", c.position_stride, c.name);
  }
  return declarations + "for (i64 i = 0; i < count; ++i) {" + stores + "\n}";
}

}  // namespace

std::string sort_text(const SortConfig& c) {
  const std::string bits = fmt::format("u{}", 8 * size_of(c.dtype)), signed_bits = fmt::format("i{}", 8 * size_of(c.dtype));
  const std::string whole = c.selects ? fmt::format(
                                            "if (2 * count + {1} < n)\n  first = {0}_select(x, step, n, count, 2 * count + {1}, a, a + "
                                            "room);\nelse ",
                                            c.name, kSpare)
                                      : "";
  const Substitutions names = {{"NAME", c.name}, {"BITS", bits}};
  auto with = [&](Substitutions more) {
    more.insert(more.end(), names.begin(), names.end());
    return more;
  };
  const std::string skip =
      c.contiguous
          ? fmt::format("while (i + TOROID_W <= n && !__builtin_reduce_or({0}_keys(*(const v{1}_u*)(x + i)) < (v{1})limit)) i += TOROID_W;",
                        c.name, bits)
          : "";
  const bool long_pairs = pair_bytes(c) == 16;
  std::string counts;
  for (size_t d = 0; d < size_of(c.dtype); ++d) counts += fmt::format("++counts[{}][(key >> {}) & 255];\n", d, 8 * d);
  counts.pop_back();
  return expand(kText, with({{"PAIR", expand(long_pairs ? kLongPair : kShortPair, names)},
                             {"KEY", long_pairs ? "u64" : "u32"},
                             {"AT", long_pairs ? "i64" : "u32"},
                             {"COUNTS", counts},
                             {"BYTES", std::to_string(size_of(c.dtype))},
                             {"KEYTEXT", sort_key_text(c.dtype, c.descending, bits, signed_bits)},
                             {"KEYSTEXT", sort_key_text(c.dtype, c.descending, "v" + bits, "v" + signed_bits)},
                             {"SELECT", c.selects ? expand(kSelect, with({{"SKIP", skip}})) : ""},
                             {"LENGTH", c.length.text()},
                             {"COUNT", c.count.text()},
                             {"ROOM", c.room.text()},
                             {"SCRATCH", std::to_string(c.scratch_buffer)},
                             {"X", std::to_string(c.key_buffer)},
                             {"XOFFSET", c.key_offset},
                             {"XSTEP", c.key_stride},
                             {"WHOLE", whole},
                             {"STORES", stores_text(c, bits)}}));
}

Expr sort_room(const Expr& length, const Expr& count) {
  const bool selects = length.is_const() && count.is_const() && 2 * count.constant() + kSpare < length.constant();
  return selects ? Expr(2 * count.constant() + kSpare) : length;
}

Expr sort_scratch_bytes(const SortConfig& c, const Expr& length, const Expr& count) {
  return sort_room(length, count) * (2 * pair_bytes(c)) + 64;
}

}  // namespace toroid::codegen

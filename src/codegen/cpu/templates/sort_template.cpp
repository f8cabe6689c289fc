#include "codegen/cpu/templates/sort_template.h"

#include "base/check.h"
#include "codegen/cpu/templates/sort.c.h"
#include "codegen/sort_key.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kSpare = 256;  // candidates of a selection that are kept besides twice its count

int pair_bytes(const SortConfig& c) { return c.long_rows || size_of(c.dtype) == 8 ? 16 : 8; }

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
  return expand(sort_c::kText, with({{"PAIR", expand(long_pairs ? sort_c::kLongPair : sort_c::kShortPair, names)},
                                     {"KEY", long_pairs ? "u64" : "u32"},
                                     {"AT", long_pairs ? "i64" : "u32"},
                                     {"COUNTS", counts},
                                     {"BYTES", std::to_string(size_of(c.dtype))},
                                     {"KEYTEXT", sort_key_text(c.dtype, c.descending, bits, signed_bits)},
                                     {"KEYSTEXT", sort_key_text(c.dtype, c.descending, "v" + bits, "v" + signed_bits)},
                                     {"SELECT", c.selects ? expand(sort_c::kSelect, with({{"SKIP", skip}})) : ""},
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

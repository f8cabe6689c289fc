#include "codegen/cuda/templates/sort.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "codegen/cuda/template.h"
#include "codegen/cuda/templates/parts.h"
#include "codegen/cuda/templates/sort.cu.h"
#include "codegen/sort_key.h"

namespace toroid::codegen {
namespace {

constexpr int64_t kSharedPairs = 128 << 10;  // bytes of shared memory for pairs, at most
constexpr int64_t kOpenRoom = 4096;          // pairs there when the length of rows is not known
constexpr int64_t kMostSelected = 4096;      // more are sorted with their whole row

struct Shape {
  int64_t room = 0;  // pairs in shared memory
  bool whole = false, selects = false, sorts_long = false;
};

int64_t pair_bytes(const program::Sort& s) { return size_of(s.keys.dtype) == 8 ? 16 : 8; }

Shape shape_of(const program::Sort& s) {
  const int64_t most = kSharedPairs / pair_bytes(s);
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
  std::string longer = std::string(s.selects ? sort_cu::kSelect : s.sorts_long ? sort_cu::kLong : "");
  if (!s.whole) return longer;
  return longer.empty() ? std::string(sort_cu::kWhole) : fmt::format("if (n <= {}) {} else {}", s.room, sort_cu::kWhole, longer);
}

KernelText cuda_sort_kernel(const program::Sort& s) {
  const Shape shape = shape_of(s);
  const bool one_step = shape.whole && !shape.selects && !shape.sorts_long;
  const int threads = one_step ? static_cast<int>(std::clamp<int64_t>(shape.room / 2, 32, 1024)) : 1024;
  CudaArguments arguments;
  const SortPieces pieces = sort_pieces(arguments, s, threads);
  if (shape.sorts_long) arguments.use_scratch(pieces.rows * s.length * (2 * pieces.pair_bytes));
  const std::string body = expand(sort_cu::kText, {{"LENGTH", cuda_size(arguments, s.length)},
                                                   {"COUNT", cuda_size(arguments, s.count)},
                                                   {"STEP", cuda_size(arguments, s.keys.strides.back())},
                                                   {"X", pieces.keys},
                                                   {"SORT", sort_statements(shape)},
                                                   {"STORES", pieces.stores}});
  KernelText k = arguments.kernel(s.count == s.length ? "sort" : "topk", body, threads, true);
  k.tasks = pieces.rows;
  k.shared_bytes = static_cast<int>(shape.room * pieces.pair_bytes);
  k.plan =
      fmt::format("{} of rows of {}, a row a block, {}{}{}", k.name, sym::to_string(s.length),
                  shape.whole ? fmt::format("{} pairs in shared memory", shape.room) : "", shape.whole && !one_step ? ", longer ones " : "",
                  shape.selects      ? "by selection"
                  : shape.sorts_long ? "by bytes in scratch memory"
                                     : "");
  return k;
}

}  // namespace

SortPieces sort_pieces(CudaArguments& arguments, const program::Sort& s, int threads) {
  const std::string bits = fmt::format("u{}", 8 * size_of(s.keys.dtype)), signed_bits = fmt::format("i{}", 8 * size_of(s.keys.dtype));
  const std::vector<std::string> rows = cuda_unflatten(arguments, "row", s.rows);
  auto address = [&](const program::Operand& o, const std::string& position) {
    std::vector<std::string> at = rows;
    at.push_back(position);
    return fmt::format("{} + {}", arguments.pointer(o.buffer, o.dtype), cuda_address(arguments, o.offset, o.strides, at));
  };
  SortPieces out{.pair_bytes = pair_bytes(s), .keys = "(" + address(s.keys, "0") + ")", .stores = {}, .rows = 1};
  for (const program::Operand* o : {&s.values, &s.positions}) {
    if (o->buffer < 0) continue;
    arguments.mark_written(o->buffer);
    out.stores += o == &s.values ? fmt::format("*({}*)({}) = x[at * step];\n", bits, address(*o, "i"))
                                 : fmt::format("*({}) = at;\n", address(*o, "i"));
  }
  for (auto& r : s.rows) out.rows = out.rows * r;
  arguments.define(expand(sort_cu::kDefinitions, {{"BITS", bits},
                                                  {"THREADS", std::to_string(threads)},
                                                  {"KEYTEXT", sort_key_text(s.keys.dtype, s.descending, bits, signed_bits)},
                                                  {"PAIR", std::string(out.pair_bytes == 16 ? sort_cu::kLongPair : sort_cu::kShortPair)}}));
  return out;
}

Form cuda_sort_form(const CudaSite& site) {
  const auto& s = site.problem<program::Sort>();
  return make_form("sort", is_complex(s.keys.dtype) ? "complex numbers have no order" : "", [&s] { return cuda_sort_kernel(s); });
}

}  // namespace toroid::codegen

#include "import/tensor_record.h"

#include <fmt/ranges.h>

#include "base/check.h"

namespace toroid::import {

int64_t TensorRecord::numel() const {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return n;
}

bool TensorRecord::is_contiguous() const {
  if (numel() == 0) return true;
  const std::vector<int64_t> wanted = contiguous_strides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] > 1 && strides[d] != wanted[d]) return false;
  return true;
}

std::span<const std::byte> TensorRecord::bytes() const {
  TOROID_USER_CHECK(is_contiguous(), "tensor \"{}\" with sizes [{}] and strides [{}] is not contiguous", name, fmt::join(sizes, ", "),
                    fmt::join(strides, ", "));
  if (numel() == 0) return {};
  return storage.subspan(static_cast<size_t>(offset) * size_of(dtype), static_cast<size_t>(numel()) * size_of(dtype));
}

std::vector<int64_t> contiguous_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> out(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    out[d] = step;
    if (sizes[d] > 1) step *= sizes[d];
  }
  return out;
}

void check_record(const TensorRecord& r, std::string_view source) {
  constexpr size_t kMaxRank = 64;
  constexpr int64_t kMaxExpanded = int64_t{1} << 31;
  const auto where = [&] { return fmt::format("{}: tensor \"{}\"", source, r.name); };
  TOROID_USER_CHECK(r.sizes.size() <= kMaxRank && r.sizes.size() == r.strides.size(),
                    "{}: expected as many strides as sizes, at most {}; found {} sizes and {} strides", where(), kMaxRank, r.sizes.size(),
                    r.strides.size());
  TOROID_USER_CHECK(r.offset >= 0, "{}: expected a storage offset of at least 0, found {}", where(), r.offset);
  int64_t numel = 1, last = r.offset;
  bool empty = false, overflow = false;
  for (size_t d = 0; d < r.sizes.size(); ++d) {
    TOROID_USER_CHECK(r.sizes[d] >= 0 && r.strides[d] >= 0, "{}: negative size or stride in dimension {}: size {}, stride {}", where(), d,
                      r.sizes[d], r.strides[d]);
    if (r.sizes[d] == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(numel, r.sizes[d], &numel);
    overflow |= __builtin_mul_overflow(r.sizes[d] - 1, r.strides[d], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  TOROID_USER_CHECK(!overflow, "{}: sizes [{}] with strides [{}] overflow 64 bits", where(), fmt::join(r.sizes, ", "),
                    fmt::join(r.strides, ", "));
  if (empty) return;
  const auto held = static_cast<int64_t>(r.storage.size() / size_of(r.dtype));
  TOROID_USER_CHECK(!r.storage.empty(),
                    "{}: its weights are missing: sizes [{}] but no bytes stored (was the model exported with fake tensors?)", where(),
                    fmt::join(r.sizes, ", "));
  TOROID_USER_CHECK(last < held, "{}: sizes [{}], strides [{}] and offset {} reach element {}, beyond the {} {} elements stored", where(),
                    fmt::join(r.sizes, ", "), fmt::join(r.strides, ", "), r.offset, last, held, name_of(r.dtype));
  TOROID_USER_CHECK(numel <= held || numel <= kMaxExpanded, "{}: sizes [{}] expand to {} elements from {} stored; at most {} are accepted",
                    where(), fmt::join(r.sizes, ", "), numel, held, kMaxExpanded);
}

}  // namespace toroid::import

#include "tune/check/written.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/scalar.h"
#include "base/thread_pool.h"
#include "tune/check/inputs.h"

namespace toroid::tune {
namespace {

constexpr double kApart = 3;          // of the two patterns, in floats
constexpr double kRounding = 0x1p-6;  // that a sum with what was there may show, relative; the narrowest float has 8 bits

DType part_of(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }

const std::byte* at(const Tensor& t, int64_t i) { return t.raw_data() + static_cast<size_t>(i) * size_of(t.dtype()); }

bool equal_bits(const Tensor& a, const Tensor& b, int64_t i) { return std::memcmp(at(a, i), at(b, i), size_of(a.dtype())) == 0; }

// work(i) on all threads.
template <class F>
void for_elements(int64_t count, const F& work) {
  constexpr int64_t kPart = 1 << 14;
  ThreadPool::global().parallel_for((count + kPart - 1) / kPart, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first * kPart; i < std::min(count, last * kPart); ++i) work(i);
  });
}

// NaN, or zero where there is none.
void blank(Tensor& t, int64_t i) {
  const DType part = part_of(t.dtype());
  for (size_t p = 0; p < size_of(t.dtype()); p += size_of(part))
    store_number(t.raw_data() + static_cast<size_t>(i) * size_of(t.dtype()) + p, part,
                 is_float(part) ? Number::of(std::numeric_limits<double>::quiet_NaN()) : Number::of(int64_t{0}));
}

bool is_near(const Tensor& pattern, const Tensor& result, int64_t i) {
  const DType part = part_of(pattern.dtype());
  if (equal_bits(pattern, result, i)) return true;
  if (!is_float(part)) return false;
  for (size_t p = 0; p < size_of(pattern.dtype()); p += size_of(part)) {
    const double was = load_number(at(pattern, i) + p, part).as_double(), is = load_number(at(result, i) + p, part).as_double();
    if (!(std::fabs(is - was) <= kRounding * (1 + std::fabs(was)))) return false;
  }
  return true;
}

}  // namespace

Tensor pattern(const std::vector<int64_t>& sizes, DType dtype, uint64_t seed, int which) {
  std::vector<Expr> open(sizes.begin(), sizes.end());
  Tensor out = generate_input({dtype, open, {}}, seed, {}, Device::cpu(), {0, 126});
  if (which == 0) return out;
  const DType part = part_of(dtype);
  const int64_t parts = out.numel() * static_cast<int64_t>(size_of(dtype) / size_of(part));
  for_elements(parts, [&](int64_t i) {
    std::byte* const p = out.raw_data() + static_cast<size_t>(i) * size_of(part);
    const Number was = load_number(p, part);
    store_number(p, part,
                 is_float(part)  ? Number::of(was.as_double() + kApart)
                 : is_bool(part) ? Number::of(was.i == 0)
                                 : Number::of(was.i + 1));
  });
  return out;
}

std::vector<uint8_t> unwritten(const Left& left) {
  std::vector<uint8_t> out(static_cast<size_t>(left.results[0].numel()));
  for_elements(left.results[0].numel(), [&](int64_t i) {
    out[static_cast<size_t>(i)] = equal_bits(left.results[0], left.patterns[0], i) && equal_bits(left.results[1], left.patterns[1], i);
  });
  return out;
}

bool combines(const Left& left, const std::vector<uint8_t>& unwritten) {
  for (int64_t i = 0; i < left.results[0].numel(); ++i)
    if (!unwritten[static_cast<size_t>(i)] && !equal_bits(left.results[0], left.results[1], i)) return true;
  return false;
}

std::string compare_unwritten(const Tensor& pattern, const Tensor& result, const std::vector<uint8_t>& unwritten) {
  TOROID_CHECK(static_cast<size_t>(result.numel()) == unwritten.size() && result.numel() == pattern.numel());
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < result.numel(); ++i)
    if (unwritten[static_cast<size_t>(i)] && !is_near(pattern, result, i) && ++wrong == 1) first = i;
  if (wrong == 0) return {};
  return fmt::format("is written at element {}, which the default leaves as it is ({} of {} elements)", first, wrong, result.numel());
}

Tensor without(const Tensor& result, const std::vector<uint8_t>& unwritten) {
  Tensor out = Tensor::empty(result.sizes(), result.dtype());
  std::memcpy(out.raw_data(), result.raw_data(), static_cast<size_t>(result.numel()) * size_of(result.dtype()));
  for (int64_t i = 0; i < out.numel(); ++i)
    if (unwritten[static_cast<size_t>(i)]) blank(out, i);
  return out;
}

}  // namespace toroid::tune

#include "tune/check/equivalence.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "base/scalar.h"
#include "base/thread_pool.h"

namespace toroid::tune {
namespace {

constexpr double kDoubt = 1e-6;
constexpr int64_t kRow = 16;

double smallest_normal(DType t) {
  switch (t) {
    case DType::F64:
      return 0x1p-1022;
    case DType::F16:
      return 0x1p-14;
    default:
      return 0x1p-126;
  }
}

double largest(DType t) {
  switch (t) {
    case DType::F64:
      return 0x1.fffffffffffffp1023;
    case DType::F16:
      return 65504;
    case DType::BF16:
      return 0x1.fep127;
    default:
      return 0x1.fffffep127;
  }
}

// Complex numbers are pairs of these.
DType part_of(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }

std::string type_text(const Tensor& t) { return fmt::format("{}[{}]", name_of(t.dtype()), fmt::join(t.sizes(), ", ")); }

std::string place_text(int64_t flat, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    at[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

// Strides matter only along dimensions that have more than one element.
bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return true;
  for (size_t d = 0; d < a.sizes().size(); ++d)
    if (a.sizes()[d] > 1 && a.strides()[d] != b.strides()[d]) return false;
  return true;
}

std::string type_difference(const Tensor& got, const Tensor& want) {
  if (got.defined() != want.defined())
    return fmt::format("is {}, expected {}", got.defined() ? "there" : "missing", want.defined() ? "one" : "none");
  if (!got.defined()) return {};
  if (got.dtype() != want.dtype() || got.sizes() != want.sizes()) return fmt::format("is {}, expected {}", type_text(got), type_text(want));
  if (!same_layout(got, want))
    return fmt::format("has strides [{}], expected [{}]", fmt::join(got.strides(), ", "), fmt::join(want.strides(), ", "));
  return {};
}

// Row-major elements in the host's memory; of complex numbers, their parts.
struct Elements {
  explicit Elements(const Tensor& t) : memory(t.to(Device::cpu()).contiguous()), dtype(part_of(t.dtype())) {
    count = t.numel() * (is_complex(t.dtype()) ? 2 : 1);
  }
  const std::byte* at(int64_t i) const { return memory.raw_data() + static_cast<size_t>(i) * size_of(dtype); }
  double operator[](int64_t i) const { return load_number(at(i), dtype).as_double(); }
  // Floats from `begin` on.
  void read(int64_t begin, std::span<double> out) const {
    switch (dtype) {
      case DType::F32:
        return read_as<float>(begin, out, [](float v) { return v; });
      case DType::F16:
        return read_as<uint16_t>(begin, out, f16_to_f32);
      case DType::BF16:
        return read_as<uint16_t>(begin, out, bf16_to_f32);
      default:
        for (size_t i = 0; i < out.size(); ++i) out[i] = (*this)[begin + static_cast<int64_t>(i)];
    }
  }
  template <class T, class Convert>
  void read_as(int64_t begin, std::span<double> out, const Convert& convert) const {
    const auto* from = reinterpret_cast<const T*>(at(begin));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(convert(from[i]));
  }

  Tensor memory;
  DType dtype;
  int64_t count = 0;
};

struct Squares {
  double sum = 0;
  int64_t count = 0;
  double root_mean() const { return count > 0 ? std::sqrt(sum / static_cast<double>(count)) : 0; }
};

// Of what is finite.
Squares squares(std::span<const double> values) {
  Squares s;
  for (double v : values)
    if (std::isfinite(v)) s.sum += v * v, ++s.count;
  return s;
}

// The error as a part of what is allowed; infinite for what no rounding explains.
double excess(double got, double want, double bound, double size, DType t) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  if (std::isnan(got) || std::isnan(want)) return INFINITY;
  if (std::isinf(got) || std::isinf(want)) {
    const double other = std::isinf(want) ? got : want;
    const bool near = !std::isinf(other) && std::fabs(other) * (1 + bound) >= largest(t) && std::signbit(got) == std::signbit(want);
    return near ? 1 : INFINITY;
  }
  return std::fabs(got - want) / (bound * std::max(std::fabs(want), size) + smallest_normal(t));
}

// Elements beyond what is allowed, and the one that is furthest.
struct Beyond {
  int64_t count = 0, worst_at = -1;
  double worst = 1, size = 0;  // its excess, and the size of its row

  void add(const Beyond& later) {
    count += later.count;
    if (later.worst > worst) worst = later.worst, worst_at = later.worst_at, size = later.size;
  }
};

// Some elements of a row, the first of which is number `begin` of all; size: of the row.
Beyond compare_some(std::span<const double> got, std::span<const double> want, int64_t begin, double size, double bound, DType t) {
  Beyond out;
  for (size_t i = 0; i < want.size(); ++i) {
    const double allowed = bound * std::max(std::fabs(want[i]), size);
    if (std::fabs(got[i] - want[i]) <= allowed && allowed < INFINITY) continue;  // never where one of them is NaN or infinite
    Beyond one{0, begin + static_cast<int64_t>(i), excess(got[i], want[i], bound, size, t), size};
    one.count = one.worst > 1;
    out.add(one);
  }
  return out;
}

constexpr int64_t kElementsOfATask = 1 << 12;

// work(part, begin, end) of each part of so many elements, on all threads.
void for_parts(int64_t count, int64_t elements, const std::function<void(size_t, int64_t, int64_t)>& work) {
  ThreadPool::global().parallel_for((count + elements - 1) / elements, [&](int64_t first, int64_t last, int) {
    for (int64_t p = first; p < last; ++p) work(static_cast<size_t>(p), p * elements, std::min(count, (p + 1) * elements));
  });
}

Beyond sum_of(const std::vector<Beyond>& parts) {
  Beyond out;
  for (const Beyond& p : parts) out.add(p);
  return out;
}

std::vector<double> numbers(const Elements& e, int64_t begin, int64_t end) {
  std::vector<double> out(static_cast<size_t>(end - begin));
  e.read(begin, out);
  return out;
}

Beyond compare_short_rows(const Elements& got, const Elements& want, int64_t row, double bound) {
  const int64_t elements = std::max<int64_t>(1, kElementsOfATask / row) * row;
  std::vector<Beyond> parts(static_cast<size_t>((want.count + elements - 1) / elements));
  for_parts(want.count, elements, [&](size_t part, int64_t begin, int64_t end) {
    const std::vector<double> a = numbers(got, begin, end), b = numbers(want, begin, end);
    for (int64_t at = 0; at < end - begin; at += row) {
      const auto of_row = [&](const std::vector<double>& v) {
        return std::span(v).subspan(static_cast<size_t>(at), static_cast<size_t>(row));
      };
      parts[part].add(compare_some(of_row(a), of_row(b), begin + at, squares(of_row(b)).root_mean(), bound, want.dtype));
    }
  });
  return sum_of(parts);
}

Beyond compare_long_row(const Elements& got, const Elements& want, int64_t first, int64_t row, double bound) {
  std::vector<Squares> sums(static_cast<size_t>((row + kElementsOfATask - 1) / kElementsOfATask));
  for_parts(row, kElementsOfATask,
            [&](size_t part, int64_t begin, int64_t end) { sums[part] = squares(numbers(want, first + begin, first + end)); });
  Squares all;
  for (const Squares& s : sums) all.sum += s.sum, all.count += s.count;
  std::vector<Beyond> parts(sums.size());
  for_parts(row, kElementsOfATask, [&](size_t part, int64_t begin, int64_t end) {
    parts[part] = compare_some(numbers(got, first + begin, first + end), numbers(want, first + begin, first + end), first + begin,
                               all.root_mean(), bound, want.dtype);
  });
  return sum_of(parts);
}

std::string compare_floats(const Elements& got, const Elements& want, const Contract& c) {
  const std::vector<int64_t>& sizes = want.memory.sizes();
  const double bound = relative_bound(c, want.count);
  int64_t row = want.count;
  if (!sizes.empty() && sizes.back() * (want.count / std::max<int64_t>(want.memory.numel(), 1)) >= kRow)
    row = sizes.back() * (want.count / want.memory.numel());
  Beyond all;
  if (row <= kElementsOfATask) {
    all = compare_short_rows(got, want, row, bound);
  } else {
    for (int64_t first = 0; first < want.count; first += row) all.add(compare_long_row(got, want, first, row, bound));
  }
  const auto [wrong, worst_at, worst, worst_size] = all;
  if (wrong == 0) return {};
  const double a = got[worst_at], b = want[worst_at];
  const std::string place = place_text(worst_at / (want.count / want.memory.numel()), sizes);
  if (!std::isfinite(a) || !std::isfinite(b))
    return fmt::format("is {:.9g} at {}, expected {:.9g} ({} of {} elements differ)", a, place, b, wrong, want.count);
  return fmt::format(
      "has an error of {:.3g} at {}: {:.9g}, expected {:.9g}; {:.3g} is allowed (relative {:.3g} of {:.3g}, sums of {} in {}); {} of {} "
      "elements are beyond that",
      std::fabs(a - b), place, a, b, bound * std::max(std::fabs(b), worst_size), bound, std::max(std::fabs(b), worst_size), c.length,
      name_of(c.accumulate), wrong, want.count);
}

std::string compare_exactly(const Elements& got, const Elements& want) {
  const size_t bytes = size_of(want.dtype);
  int64_t wrong = 0, first = -1;
  for (int64_t i = 0; i < want.count; ++i)
    if (std::memcmp(got.at(i), want.at(i), bytes) != 0 && ++wrong == 1) first = i;
  if (wrong == 0) return {};
  return fmt::format("is {:.17g} at {}, expected exactly {:.17g} ({} of {} elements differ)", got[first],
                     place_text(first / (want.count / want.memory.numel()), want.memory.sizes()), want[first], wrong, want.count);
}

}  // namespace

double unit_roundoff(DType t) {
  switch (t) {
    case DType::F64:
    case DType::C128:
      return 0x1p-53;
    case DType::F32:
    case DType::C64:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

double relative_bound(const Contract& c, int64_t elements) {
  constexpr double kTf32Roundoff = 0x1p-11;
  const double lambda = std::sqrt(2 * std::log(2 * static_cast<double>(std::max<int64_t>(elements, 1)) / kDoubt));
  const double u = std::max(unit_roundoff(c.accumulate), unit_roundoff(DType::F64));
  double operand = 0;
  for (DType t : c.operands) operand = std::max(operand, unit_roundoff(t));
  if (c.tf32) operand = std::max(operand, kTf32Roundoff);
  return 2 * lambda * std::sqrt(static_cast<double>(std::max<int64_t>(c.length, 1))) * u + 2 * unit_roundoff(c.result) +
         2 * lambda * std::sqrt(static_cast<double>(c.intermediates)) * operand + 8 * u;
}

std::string compare(std::span<const Tensor> got, std::span<const Tensor> want, std::span<const Contract> contracts,
                    Equivalence equivalence) {
  TOROID_CHECK(contracts.size() == want.size());
  if (got.size() != want.size()) return fmt::format("it has {} results, expected {}", got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    std::string difference = type_difference(got[i], want[i]);
    if (difference.empty() && want[i].defined() && want[i].numel() > 0) {
      const Elements a(got[i]), b(want[i]);
      const bool exactly = equivalence == Equivalence::Strict || !is_float(b.dtype);
      difference = exactly ? compare_exactly(a, b) : compare_floats(a, b, contracts[i]);
    }
    if (!difference.empty()) return fmt::format("result {} {}", i, difference);
  }
  return {};
}

}  // namespace toroid::tune

#include "tune/check/inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/scalar.h"
#include "base/thread_pool.h"

namespace toroid::tune {
namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) of a counter, so that elements can be made in any order.
uint64_t random_bits(uint64_t seed, uint64_t i) {
  uint64_t x = seed + (i + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Four uniform numbers of 16 bits have a variance of 4/12.
double nearly_normal(uint64_t bits) {
  double sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<double>((bits >> (16 * i)) & 0xffff) + 0.5;
  return (sum / 65536 - 2) * std::sqrt(3.0);
}

// Draws `elements` integers from a range. Distinct ones are, modulo how many integers there are, sums of a multiple for each dimension of a
// step that has no common divisor with that, from a random start on: along a dimension they return when all have been drawn.
class IntegerDraw {
 public:
  IntegerDraw(const Integers& range, uint64_t seed, int64_t elements)
      : range_(range),
        count_(static_cast<uint64_t>(range.high) - static_cast<uint64_t>(range.low) + 1),
        start_(random_bits(seed, ~seed) % count_),
        strides_(range.strides) {
    if (strides_.empty() || static_cast<uint64_t>(elements) <= count_) strides_ = {1};
    double part = 1;
    for (size_t d = 0; d < strides_.size(); ++d) steps_.push_back(coprime_step(part *= kGolden));
  }
  int64_t operator()(uint64_t bits, uint64_t i) const {
    const uint64_t by = range_.distinct ? distinct(i) : (bits >> 1) % count_;
    return static_cast<int64_t>(static_cast<uint64_t>(range_.low) + by);
  }

 private:
  static constexpr double kGolden = 0.6180339887498949;

  uint64_t coprime_step(double part) const {
    uint64_t step = std::max<uint64_t>(1, static_cast<uint64_t>(part * static_cast<double>(count_)));
    while (std::gcd(step, count_) != 1) ++step;
    return step;
  }
  uint64_t distinct(uint64_t i) const {
    using Wide = unsigned __int128;
    uint64_t at = start_;
    for (size_t d = 0; d < strides_.size(); ++d) {
      const auto stride = static_cast<uint64_t>(strides_[d]);
      at = static_cast<uint64_t>((Wide{i / stride} * steps_[d] + at) % count_), i %= stride;
    }
    return at;
  }

  const Integers range_;
  const uint64_t count_, start_;
  std::vector<int64_t> strides_;
  std::vector<uint64_t> steps_;  // parallel to strides_
};

Number random_number(uint64_t bits, uint64_t i, DType t, const IntegerDraw& integers) {
  if (is_float(t)) return Number::of(nearly_normal(bits));
  if (is_bool(t)) return Number::of((bits & 1) != 0);
  return Number::of(integers(bits, i));
}

}  // namespace

Tensor generate_input(const TensorType& type, uint64_t seed, const exec::Symbols& symbols, const Device& device, const Integers& integers) {
  const std::vector<int64_t> sizes = exec::evaluate(type.sizes, symbols), strides = exec::evaluate(type.strides, symbols);
  int64_t extent = 1, dense = 1;  // elements from the first to the last, and of all sizes
  for (size_t d = 0; d < sizes.size(); ++d) {
    dense *= sizes[d];
    if (!strides.empty() && sizes[d] > 0) extent += (sizes[d] - 1) * strides[d];
  }
  const bool strided = !strides.empty() && dense > 0;
  const int64_t parts = is_complex(type.dtype) ? 2 : 1, count = (strided ? extent : dense) * parts;
  const DType part = type.dtype == DType::C64 ? DType::F32 : type.dtype == DType::C128 ? DType::F64 : type.dtype;
  Tensor memory = Tensor::empty({count / parts}, type.dtype);
  std::byte* const to = memory.raw_data();
  const IntegerDraw draw(integers, seed, count);
  ThreadPool::global().parallel_for((count + 4095) / 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * 4096; i < std::min(end * 4096, count); ++i)
      store_number(to + static_cast<size_t>(i) * size_of(part), part,
                   random_number(random_bits(seed, static_cast<uint64_t>(i)), static_cast<uint64_t>(i), part, draw));
  });
  if (device != Device::cpu()) memory = memory.to(device);
  std::vector<int64_t> steps = strides;
  if (steps.empty()) {
    steps.assign(sizes.size(), 1);
    for (size_t d = sizes.size(); d-- > 1;) steps[d - 1] = steps[d] * std::max<int64_t>(sizes[d], 1);
  }
  return memory.as_strided(sizes, steps);
}

std::vector<Tensor> generate_inputs(std::span<const TensorType> types, uint64_t seed, const exec::Symbols& symbols, const Device& device,
                                    const Integers& integers) {
  std::vector<Tensor> out;
  for (const TensorType& t : types) out.push_back(generate_input(t, random_bits(seed, out.size()), symbols, device, integers));
  return out;
}

}  // namespace toroid::tune

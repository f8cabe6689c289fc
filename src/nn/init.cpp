#include "toroid/nn/init.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <thread>

#include "nn/errors.h"
#include "toroid/compile.h"

namespace toroid::nn {
namespace {

// Element i of a stream is a function of the stream's key and i alone, so that it does not matter who computes it.
uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t bits_at(uint64_t key, uint64_t i) { return mix(key + (i + 1) * 0x9e3779b97f4a7c15u); }
// In [0, 1).
float unit(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

uint16_t to_bf16(float v) {
  uint32_t u;
  std::memcpy(&u, &v, 4);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);  // the values here are finite
}

int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) {
    require(s >= 0, "a module has a parameter of the negative size {}", s);
    require(s == 0 || n <= (int64_t{1} << 46) / s, "a module has a parameter of more than 2^46 elements");
    n *= s;
  }
  return n;
}

// Calls f(begin, end) on parts of [0, n); both ends are even, but for the last.
template <class F>
void in_parts(int64_t n, F&& f) {
  constexpr int64_t kWorthAThread = 1 << 20;
  auto threads = std::clamp<int64_t>(std::min<int64_t>(n / kWorthAThread, std::thread::hardware_concurrency()), 1, 64);
  int64_t step = (n / threads + 2) & ~int64_t{1};
  std::vector<std::jthread> others;
  for (int64_t t = 1; t < threads; ++t)
    others.emplace_back([&f, begin = std::min(t * step, n), end = std::min((t + 1) * step, n)] { f(begin, end); });
  f(0, std::min(step, n));
}

// Fills with pairs of numbers that `pair` makes from 64 random bits.
template <class F>
Tensor generate(const std::vector<int64_t>& sizes, DType dtype, uint64_t key, F&& pair) {
  int64_t n = count_of(sizes);
  bool direct = dtype == DType::F32 || dtype == DType::BF16;
  Tensor t = Tensor::empty(sizes, direct ? dtype : DType::F32);
  auto fill = [&](auto* out, auto convert) {
    in_parts(n, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += 2) {
        auto [a, b] = pair(bits_at(key, static_cast<uint64_t>(i / 2)));
        out[i] = convert(a);
        if (i + 1 < end) out[i + 1] = convert(b);
      }
    });
  };
  if (dtype == DType::BF16)
    fill(t.data<uint16_t>(), to_bf16);
  else
    fill(t.data<float>(), [](float v) { return v; });
  return direct ? t : to(t, dtype);
}

// --- the same on a GPU: functions of the positions, for tensors of all sizes ---

constexpr int64_t kLow32 = 0xffffffff;

// The bits of x without their last `by`.
Tensor shifted(const Tensor& x, int by) { return floor_divide(x, int64_t{1} << by) & ((int64_t{1} << (64 - by)) - 1); }

struct Pairs {
  Tensor first, second;  // f32 in [0, 1), for each position those of its pair
  Tensor odd;            // whether the position is the second of its pair
};

Pairs pairs_at(const Tensor& out, const Tensor& key) {
  Tensor i = arange(out.size(0), DType::I64, out.device());
  Tensor x = key + (floor_divide(i, 2) + 1) * static_cast<int64_t>(0x9e3779b97f4a7c15u);
  x = (x ^ shifted(x, 30)) * static_cast<int64_t>(0xbf58476d1ce4e5b9u);
  x = (x ^ shifted(x, 27)) * static_cast<int64_t>(0x94d049bb133111ebu);
  x = x ^ shifted(x, 31);
  auto number = [](const Tensor& bits) { return to(floor_divide(bits, 256), DType::F32) * 0x1p-24; };
  return {number(x & kLow32), number(shifted(x, 32)), (i & 1) == 1};
}

void uniform_into(const Tensor& out, const Tensor& key, const Tensor& from, const Tensor& width) {
  Pairs p = pairs_at(out, key);
  copy_(out, from + width * where(p.odd, p.second, p.first));
}

void normal_into(const Tensor& out, const Tensor& key, const Tensor& mean, const Tensor& deviation) {
  Pairs p = pairs_at(out, key);
  Tensor r = deviation * sqrt(log(1 - p.first) * -2), angle = p.second * (2 * std::numbers::pi);
  const Tensor even = cos(angle);
  copy_(out, mean + r * where(p.odd, sin(angle), even));
}

using Filler = void (*)(const Tensor&, const Tensor&, const Tensor&, const Tensor&);
template <Filler kFill>
Tensor generate_there(const std::vector<int64_t>& sizes, DType dtype, const Device& device, uint64_t key, float a, float b) {
  auto body = [](const Tensor& o, const Tensor& k, const Tensor& x, const Tensor& y) { kFill(o, k, x, y); };
  // Never destroyed: threads may outlive main.
  static const auto& fill = *new auto(compile(body, {.dynamic = true, .name = "the values of new parameters"}));
  Tensor out = Tensor::empty({count_of(sizes)}, dtype, device), k = Tensor::empty({}, DType::I64);
  *k.data<int64_t>() = static_cast<int64_t>(key);
  if (out.numel() > 0) fill(out, k, Tensor::full({}, a), Tensor::full({}, b));
  return view(out, sizes);
}

std::byte the_zero[16] = {};  // of all tensors without memory

Tensor without_memory(const std::vector<int64_t>& sizes, DType dtype) {
  count_of(sizes);
  return Tensor::from_blob(the_zero, sizes, dtype, std::vector<int64_t>(sizes.size(), 0));
}

}  // namespace

Init::Init(uint64_t seed, DType dtype, const Device& device) : Init(std::make_shared<Stream>(), dtype, device) { stream_->seed = seed; }

const std::shared_ptr<Init::Stream>& Init::process_stream() {
  static const auto& stream = *new std::shared_ptr<Stream>(std::make_shared<Stream>());
  return stream;
}

Init Init::standard(DType dtype, const Device& device) { return {process_stream(), dtype, device}; }
Init Init::shapes_only(DType dtype) { return {nullptr, dtype, Device::cpu()}; }
bool Init::is_shape_only(const Tensor& t) { return !t.device().is_cuda() && t.raw_data() == the_zero; }

void manual_seed(uint64_t seed) {
  Init::process_stream()->seed = seed;
  Init::process_stream()->next = 0;
}

// Each tensor has a key of its own.
uint64_t Init::next_key() const { return mix(stream_->seed * 0xd1342543de82ef95u + stream_->next++); }

Tensor Init::uniform(const std::vector<int64_t>& sizes, double low, double high) const {
  if (!stream_) return without_memory(sizes, dtype_);
  auto from = static_cast<float>(low), width = static_cast<float>(high - low);
  if (device_.is_cuda()) return generate_there<uniform_into>(sizes, dtype_, device_, next_key(), from, width);
  return generate(sizes, dtype_, next_key(), [=](uint64_t bits) {
    return std::pair(from + width * unit(static_cast<uint32_t>(bits)), from + width * unit(static_cast<uint32_t>(bits >> 32)));
  });
}

Tensor Init::normal(const std::vector<int64_t>& sizes, double mean, double deviation) const {
  if (!stream_) return without_memory(sizes, dtype_);
  auto m = static_cast<float>(mean), d = static_cast<float>(deviation);
  if (device_.is_cuda()) return generate_there<normal_into>(sizes, dtype_, device_, next_key(), m, d);
  return generate(sizes, dtype_, next_key(), [=](uint64_t bits) {
    float r = d * std::sqrt(-2 * std::log(1 - unit(static_cast<uint32_t>(bits))));
    float angle = 2 * std::numbers::pi_v<float> * unit(static_cast<uint32_t>(bits >> 32));
    return std::pair(m + r * std::cos(angle), m + r * std::sin(angle));
  });
}

Tensor Init::constant(const std::vector<int64_t>& sizes, double value) const {
  if (!stream_) return without_memory(sizes, dtype_);
  count_of(sizes);
  return Tensor::full(sizes, value, dtype_, device_);
}

Tensor Init::kaiming_uniform(const std::vector<int64_t>& sizes, int64_t fan_in) const {
  double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return uniform(sizes, -bound, bound);
}

Tensor Init::xavier_uniform(const std::vector<int64_t>& sizes, int64_t fan_in, int64_t fan_out) const {
  double bound = std::sqrt(6.0 / static_cast<double>(std::max<int64_t>(fan_in + fan_out, 1)));
  return uniform(sizes, -bound, bound);
}

}  // namespace toroid::nn

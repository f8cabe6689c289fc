// Integers wrap in compiled code as in eager code, whatever the compiler of the kernels could make of an overflow: in whole vectors, in the
// elements behind them, and without vectors.
#include <gtest/gtest.h>

#include <limits>

#include "front/harness.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using OfTwo = std::function<Tensor(const Tensor&, const Tensor&)>;

// Each has a form to which a compiler may shorten it only where nothing overflows.
const std::vector<std::pair<const char*, OfTwo>>& wrapping_expressions() {
  static const auto& all = *new std::vector<std::pair<const char*, OfTwo>>{
      {"(x * 6) % 3", [](auto& x, auto&) { return remainder(x * 6, 3); }},
      {"(x * 2) // 2", [](auto& x, auto&) { return floor_divide(x * 2, 2); }},
      {"(x * y) // y", [](auto& x, auto& y) { return floor_divide(x * y, y); }},
      {"fmod(x * 4, 2)", [](auto& x, auto&) { return fmod(x * 4, 2); }},
      {"x + 1 > x", [](auto& x, auto&) { return x + 1 > x; }},
      {"x - 1 < x", [](auto& x, auto&) { return x - 1 < x; }},
      {"abs(x) >= 0", [](auto& x, auto&) { return abs(x) >= 0; }},
      {"-x == x", [](auto& x, auto&) { return neg(x) == x; }},
      {"-(x - y) == y - x", [](auto& x, auto& y) { return neg(x - y) == y - x; }},
      {"x * x >= 0", [](auto& x, auto&) { return x * x >= 0; }},
      {"x + y - y > x", [](auto& x, auto& y) { return x + y - y > x; }},
      {"x, y > 0 and x + y < 0", [](auto& x, auto& y) { return (x > 0) & (y > 0) & (x + y < 0); }},
      {"(x * 3).to(I64)", [](auto& x, auto&) { return to(x * 3, DType::I64) / 3; }},
      {"sum((x * 3).to(I64))", [](auto& x, auto&) { return sum(to(x * 3, DType::I64)); }},
      {"hash", [](auto& x, auto& y) { return remainder(floor_divide(x * 31 * 16 + y, 16), 100); }},
      {"x << 3 >> 3", [](auto& x, auto&) { return x << 3 >> 3; }},
      {"pow(x, 3) // x", [](auto& x, auto&) { return floor_divide(pow(x, 3), x); }},
      {"cumsum", [](auto& x, auto&) { return cumsum(to(x, DType::I64) * 3037000507, 0); }},
  };
  return all;
}

// Values at the ends of the dtype, beside them, and some that are far from both.
Tensor extreme_values(DType dtype, int64_t n, int64_t first) {
  const int64_t bits = static_cast<int64_t>(size_of(dtype)) * 8;
  const uint64_t top = uint64_t{1} << (bits - 1);
  const uint64_t list[] = {top - 1, top, top + 1, 6148914691236517205, 2000000011, 1, 3, ~uint64_t{0}, top / 2, top / 3 * 2 + 7};
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(static_cast<int64_t>(list[static_cast<size_t>(i + first) % std::size(list)]));
  return to(Tensor::from_vector(out), dtype);
}

std::vector<int64_t> bits_of(const Tensor& t) { return to(t.to(Device::cpu()), DType::I64).to_vector<int64_t>(); }

class WrappingIntegers : public ::testing::TestWithParam<const char*> {};

TEST_P(WrappingIntegers, AsByTheReference) {
  const bool on_gpu = GetParam() == std::string("cuda");
  if (on_gpu && cuda_device_count() == 0) GTEST_SKIP() << "there is no GPU";
  const Device device = on_gpu ? Device::cuda() : Device::cpu();
  const auto all = [](const Tensor& x, const Tensor& y) {
    std::vector<Tensor> out;
    for (auto& [name, fn] : wrapping_expressions()) out.push_back(fn(x, y));
    return out;
  };
  for (DType dtype : {DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64}) {
    CompileConfig config{.fullgraph = true, .dynamic = true};
    if (!on_gpu) config.options["isa"] = GetParam();
    auto compiled = compile(all, config), reference = compile(all, test::by_reference({.fullgraph = true, .dynamic = true}));
    for (int64_t n : {5, 16, 37}) {
      const Tensor x = extreme_values(dtype, n, 0), y = extreme_values(dtype, n, 3);
      const auto got = compiled(x.to(device), y.to(device)), want = reference(x, y);
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(bits_of(got[i]), bits_of(want[i])) << wrapping_expressions()[i].first << " of " << n << " " << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(By, WrappingIntegers, ::testing::Values("scalar", "avx2", "auto", "cuda"),
                         [](auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace toroid

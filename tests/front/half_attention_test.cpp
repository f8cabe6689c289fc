// Attention of halves: scores, and their cotangents, are not rounded, however it is computed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "front/harness.h"
#include "ops/table.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

constexpr int64_t kHeads = 4, kRows = 33;

struct Case {
  const char* name;
  int64_t key_heads = kHeads, columns = 64;
  bool causal = false;
  DType mask = DType::I64;  // of a mask: Bool, or a float
  bool mask_gradient = false;
};

constexpr Case kCases[] = {{"plain"},
                           {"causal", kHeads, 64, true},
                           {"wide heads", kHeads, 160},
                           {"few key heads", 2},
                           {"float mask", kHeads, 64, false, DType::F32},
                           {"float mask with a gradient", kHeads, 64, false, DType::F32, true},
                           {"bool mask and few key heads", 2, 64, false, DType::Bool}};

// Numbers that a half has, so that those of f64 are the same ones.
Tensor drawn(std::vector<int64_t> sizes, uint64_t seed, DType dtype, double scale = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> v;
  for (int64_t i = 0; i < product(sizes); ++i) v.push_back(normal(random));
  return Tensor::of(v, sizes, dtype);
}

// query, key, value, the cotangent of the result and a mask. Scores are up to 35, which rounding moves by 0.06 in bf16.
std::vector<Tensor> inputs_of(const Case& c, DType dtype) {
  std::vector<Tensor> in = {drawn({1, kHeads, kRows, c.columns}, 1, dtype, 8), drawn({1, c.key_heads, kRows, c.columns}, 2, dtype),
                            drawn({1, c.key_heads, kRows, c.columns}, 3, dtype), drawn({1, kHeads, kRows, c.columns}, 4, dtype)};
  if (c.mask == DType::Bool) in.push_back(gt(drawn({1, 1, kRows, kRows}, 5, DType::F32), -1));
  if (c.mask == DType::F32) in.push_back(drawn({1, 1, kRows, kRows}, 5, dtype));
  return in;
}

std::vector<Tensor> widened(const std::vector<Tensor>& in) {
  std::vector<Tensor> out;
  for (const Tensor& t : in) out.push_back(t.dtype() == DType::Bool ? t : to(t, DType::F64));
  return out;
}

// The result and the gradients.
std::vector<Tensor> attend(const Case& c, const std::vector<Tensor>& in) {
  std::vector<Tensor> by = {in[0], in[1], in[2]};
  if (c.mask_gradient) by.push_back(in[4]);
  const auto fn = [&] {
    const Tensor mask = in.size() > 4 ? in[4] : Tensor();
    return std::vector<Tensor>{scaled_dot_product_attention(in[0], in[1], in[2], mask, 0, c.causal, std::nullopt, c.key_heads != kHeads)};
  };
  auto [results, gradients] = vjp(fn, by, std::vector<Tensor>{in[3]});
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

// Attention, the logarithms of its sums, and its gradient, as graphs of torch.compile have them.
std::vector<Tensor> flash(const Case& c, const std::vector<Tensor>& in) {
  const Arg<Tensor> mask = in.size() > 4 ? Arg<Tensor>(in[4]) : Arg<Tensor>();
  auto out = ops::call("_scaled_dot_product_flash_attention_for_cpu", {in[0], in[1], in[2], 0.0, c.causal, mask});
  const auto gradients =
      ops::call("_scaled_dot_product_flash_attention_for_cpu_backward", {in[3], in[0], in[1], in[2], out[0], out[1], 0.0, c.causal, mask});
  out.insert(out.end(), gradients.begin(), gradients.end());
  return out;
}

// The largest difference, relative to the largest number.
double distance(const Tensor& found, const Tensor& exact) {
  const auto a = found.to_vector(), b = exact.to_vector();
  double off = 0, largest = 0;
  for (size_t i = 0; i < b.size(); ++i) off = std::max(off, std::abs(a[i] - b[i])), largest = std::max(largest, std::abs(b[i]));
  return off / largest;
}

using Attention = std::vector<Tensor> (*)(const Case&, const std::vector<Tensor>&);

void check(const Case& c, Attention attention, CompileConfig settings) {
  for (DType dtype : {DType::BF16, DType::F16}) {
    SCOPED_TRACE(fmt::format("{}, {}", c.name, name_of(dtype)));
    const std::vector<Tensor> in = inputs_of(c, dtype);
    const auto found = compile([&](const std::vector<Tensor>& x) { return attention(c, x); }, settings)(in);
    const auto exact = attention(c, widened(in));
    ASSERT_EQ(found.size(), exact.size());
    const double rounding = dtype == DType::BF16 ? 0x1p-8 : 0x1p-11;
    for (size_t i = 0; i < exact.size(); ++i) {
      EXPECT_EQ(found[i].sizes(), exact[i].sizes());
      const bool logarithms = found[i].dtype() == DType::F32;
      EXPECT_LT(distance(found[i], exact[i]), logarithms ? 1e-5 : 4 * rounding) << "result " << i;
    }
  }
}

TEST(HalfAttention, AndItsGradients) {
  for (const Case& c : kCases) check(c, attend, {});
}

TEST(HalfAttention, WithoutTemplates) {
  for (const Case& c : kCases) check(c, attend, {.options = {{"templates", "0"}}});
}

TEST(HalfAttention, OfGraphs) {
  for (const Case& c : kCases)
    if (!c.mask_gradient) check(c, flash, {});
}

// Gradients of a product in f32: those of the operands, rounded once.
TEST(HalfAttention, GradientsOfProductsInF32) {
  const Tensor a = drawn({3, 17, 64}, 1, DType::BF16), b = drawn({3, 64, 33}, 2, DType::BF16), g = drawn({3, 17, 33}, 3, DType::F32);
  const auto gradients = [](const std::vector<Tensor>& in) {
    const auto fn = [&] {
      const bool half = in[0].dtype() == DType::BF16;
      return std::vector<Tensor>{half ? ops::call1("bmm.dtype", {in[0], in[1], DType::F32}) : bmm(in[0], in[1])};
    };
    auto [results, all] = vjp(fn, std::vector<Tensor>{in[0], in[1]}, std::vector<Tensor>{in[2]});
    results.insert(results.end(), all.begin(), all.end());
    return results;
  };
  const auto found = compile(gradients, {})(std::vector<Tensor>{a, b, g}), exact = gradients(widened({a, b, g}));
  EXPECT_EQ(found[0].dtype(), DType::F32);
  EXPECT_LT(distance(found[0], exact[0]), 1e-6);
  for (size_t i : {1, 2}) {
    EXPECT_EQ(found[i].dtype(), DType::BF16);
    EXPECT_LT(distance(found[i], exact[i]), 0x1p-7);
  }
}

}  // namespace
}  // namespace toroid

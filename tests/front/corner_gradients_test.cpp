// Gradients where a function has none, or several: at bounds, at ties, at 0, and beside what is infinite. They are PyTorch's.
#include <gtest/gtest.h>

#include <cmath>

#include "front/harness.h"
#include "toroid/autograd.h"
#include "toroid/grad.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using V = const std::vector<Tensor>&;
using Values = std::vector<double>;

struct Corner {
  const char* name;
  std::function<Tensor(V)> fn;  // the gradient is that of its result's sum
  std::vector<Tensor> at;
  std::vector<Values> want;         // by each of them
  std::vector<Values> second = {};  // those of the sum of all these gradients; empty: not looked at
};

Tensor at(const Values& values, const std::vector<int64_t>& sizes) { return Tensor::of(values, sizes, DType::F64); }
Tensor weights() { return at({1, 2, 3, 4}, {2, 2}); }
// That of a symmetric matrix, by its eigenvectors, weighted.
Tensor exponential(const Tensor& x, const char* triangle) {
  const auto [values, vectors] = linalg_eigh(x, triangle);
  return matmul(vectors * exp(values), transpose(vectors, 0, 1)) * weights();
}
Tensor added(const std::pair<Tensor, Tensor>& results) { return results.first + results.second; }

// The numbers are those of PyTorch 2.15.0, in f64 on a CPU.
const std::vector<Corner>& corners() {
  static const auto& all = *new std::vector<Corner>{
#include "front/corner_gradients.inc"
  };
  return all;
}

// Where PyTorch gives NaN, and there is a number by design (docs/limits.md): a cotangent of 0 hides an infinite slope, and nothing follows
// from rows that a mask has emptied.
const std::vector<Corner>& corners_of_our_own() {
  static const auto& all = *new std::vector<Corner>{
      {"where, of what was not chosen", [](V v) { return where(v[0] > 0, log(v[0]), 0.); }, {at({0, 1}, {2})}, {{0, 1}}},
      {"logaddexp of equal infinities",
       [](V v) { return logaddexp(v[0], v[1]); },
       {at({-INFINITY, INFINITY}, {2}), at({-INFINITY, INFINITY}, {2})},
       {{1, 1}, {0, 0}}},
      {"logsumexp of nothing", [](V v) { return logsumexp(v[0], {1}); }, {at({-INFINITY, -INFINITY}, {1, 2})}, {{0, 0}}},
      {"logcumsumexp of nothing", [](V v) { return logcumsumexp(v[0], 0); }, {at({-INFINITY, -INFINITY, 0}, {3})}, {{0, 0, 1}}},
      {"an infinite slope times 0", [](V v) { return sqrt(v[0]) * 0; }, {at({0, 1}, {2})}, {{0, 0}}},
      {"sinc, which is smooth at 0", [](V v) { return sinc(v[0]); }, {at({0}, {1})}, {{0}}, {{-3.28986813}}},
  };
  return all;
}

bool same(double got, double want) {
  if (std::isnan(want) || std::isinf(want)) return std::isnan(want) ? std::isnan(got) : got == want;
  return std::abs(got - want) <= 1e-6 * std::max(1e-3, std::abs(want));
}

void expect_gradients(const Corner& corner, const std::vector<Values>& want, const std::vector<Tensor>& got, const char* way) {
  ASSERT_EQ(got.size(), want.size()) << corner.name;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i].defined()) << corner.name << ", " << way;
    const Values values = got[i].to_vector();
    ASSERT_EQ(values.size(), want[i].size()) << corner.name;
    for (size_t k = 0; k < values.size(); ++k)
      EXPECT_TRUE(same(values[k], want[i][k])) << corner.name << ", by operand " << i << "[" << k << "], " << way << ": " << values[k]
                                               << ", expected " << want[i][k];
  }
}

// The gradients of the sum of what value_and_gradients gives.
std::vector<Tensor> second_gradients(const Corner& corner, const std::vector<Tensor>& at) {
  const auto gradients = [&] {
    Tensor total = full({}, 0, DType::F64);
    for (const Tensor& g : value_and_gradients([&] { return sum(corner.fn(at)); }, at).second) total = total + sum(g);
    return total;
  };
  return value_and_gradients(gradients, at).second;
}

using Table = const std::vector<Corner>& (*)();
class CornerGradients : public ::testing::TestWithParam<Table> {};

TEST_P(CornerGradients, OnTheTape) {
  for (const Corner& corner : GetParam()()) {
    std::vector<Tensor> leaves, got;
    for (const Tensor& t : corner.at) leaves.push_back(t.detach()), leaves.back().requires_grad_();
    sum(corner.fn(leaves)).backward();
    for (const Tensor& t : leaves) got.push_back(t.grad().defined() ? t.grad() : zeros_like(t.detach()));
    expect_gradients(corner, corner.want, got, "backward()");
  }
}

TEST_P(CornerGradients, OfFunctions) {
  for (const Corner& corner : GetParam()())
    expect_gradients(corner, corner.want, value_and_gradients([&] { return sum(corner.fn(corner.at)); }, corner.at).second,
                     "value_and_gradients");
}

TEST_P(CornerGradients, OfGradients) {
  for (const Corner& corner : GetParam()())
    if (!corner.second.empty()) expect_gradients(corner, corner.second, second_gradients(corner, corner.at), "second gradients");
}

TEST_P(CornerGradients, OfGradientsCompiled) {
  for (const Corner& corner : GetParam()()) {
    if (corner.second.empty()) continue;
    const auto compiled = compile([&](const std::vector<Tensor>& at) { return second_gradients(corner, at); }, {.fullgraph = true});
    expect_gradients(corner, corner.second, compiled(corner.at), "second gradients, compiled");
  }
}

// One program for all of them, in which they are fused as they come; with inputs as arguments, and as captures, whose values it may fold.
TEST_P(CornerGradients, Compiled) {
  const std::vector<Corner>& corners = GetParam()();
  const auto all = [&](const std::vector<Tensor>& given) {
    std::vector<Tensor> out;
    size_t next = 0;
    for (const Corner& corner : corners) {
      const std::vector<Tensor> at(given.begin() + static_cast<std::ptrdiff_t>(next),
                                   given.begin() + static_cast<std::ptrdiff_t>(next + corner.at.size()));
      next += at.size();
      for (const Tensor& gradient : value_and_gradients([&] { return sum(corner.fn(at)); }, at).second) out.push_back(gradient);
    }
    return out;
  };
  std::vector<Tensor> given;
  for (const Corner& corner : corners) given.insert(given.end(), corner.at.begin(), corner.at.end());
  const auto check = [&](const std::vector<Tensor>& got, const char* way) {
    size_t next = 0;
    for (const Corner& corner : corners) {
      const auto first = got.begin() + static_cast<std::ptrdiff_t>(next);
      next += corner.at.size();
      expect_gradients(corner, corner.want, {first, got.begin() + static_cast<std::ptrdiff_t>(next)}, way);
    }
  };
  check(compile(all, {.fullgraph = true})(given), "compiled");
  check(compile([&] { return all(given); }, {.fullgraph = true})(), "compiled with captures");
}

INSTANTIATE_TEST_SUITE_P(OfPyTorch, CornerGradients, ::testing::Values(corners));
INSTANTIATE_TEST_SUITE_P(ByDesign, CornerGradients, ::testing::Values(corners_of_our_own));

}  // namespace
}  // namespace toroid

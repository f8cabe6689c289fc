// Open sizes where a number is needed, and in gradients: fixed by a guard, or left open; what refuses them names the line.
#include <gtest/gtest.h>

#include <functional>

#include "errors.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;
using Function = std::function<Tensor(const Tensor&)>;

std::pair<Tensor, std::vector<Tensor>> gradients_of(const Function& fn, const Tensor& x) {
  return value_and_gradients([&] { return sum(fn(x) * fn(x)); }, {x});
}

void expect_equal(const Tensor& found, const Tensor& want, const std::string& what) {
  ASSERT_EQ(found.sizes(), want.sizes()) << what;
  EXPECT_TRUE(allclose(found, want, 1e-3, 1e-4)) << what;
}

// What a row needs as a number is one in the program of that size, forward and in gradients.
TEST(OpenGradients, NumbersBecomeGuards) {
  const Tensor kernel = randn({3, 3, 4});
  const std::vector<std::tuple<std::string, Function, std::vector<SizeList>>> cases = {
      {"attention", [](const Tensor& x) { return scaled_dot_product_attention(x, x, x); }, {{2, 2, 4, 6}, {2, 2, 5, 8}}},
      {"conv1d, same", [&](const Tensor& x) { return conv1d(x, kernel, {}, 1, "same"); }, {{2, 3, 9}, {2, 3, 10}}},
      {"pinv", [](const Tensor& x) { return linalg_pinv(x); }, {{4, 3}, {5, 3}, {2, 3}}},
      {"vander", [](const Tensor& x) { return vander(x); }, {{3}, {4}}},
      {"upsample",
       [](const Tensor& x) {
         return upsample_bilinear2d_vec(x, {}, false, std::vector<double>{1.7, 1.7});
       },
       {{1, 2, 3, 4}, {2, 2, 4, 5}}},
      {"linspace", [](const Tensor& x) { return x * linspace(0, 1, x.size(0)); }, {{3}, {5}, {8}}}};
  for (auto& [name, fn, inputs] : cases) {
    auto f = compile([&fn = fn](const Tensor& x) { return gradients_of(fn, x); }, {.dynamic = true});
    for (auto& sizes : inputs) {
      const Tensor x = rand(sizes) + 0.5;
      const auto want = gradients_of(fn, x), found = f(x);
      expect_equal(found.first, want.first, name);
      expect_equal(found.second[0], want.second[0], name);
    }
  }
}

TEST(OpenGradients, IntegersOfRowsBecomeGuards) {
  const std::vector<std::pair<std::string, Function>> cases = {
      {"linspace", [](const Tensor& v) { return linspace(0, 1, v.size(0)) * v; }},
      {"logspace", [](const Tensor& v) { return logspace(0, 1, v.size(0)) * v; }},
      {"histc", [](const Tensor& v) { return histc(v, v.size(0), 0, 1); }},
      {"unfold",
       [](const Tensor& v) {
         return unfold(cat({v, v}), 0, v.size(0), 1);
       }},
      {"tril_indices", [](const Tensor& v) { return tril_indices(v.size(0), 3); }},
      {"vander", [](const Tensor& v) { return vander(v, v.size(0)); }},
      {"hann_window", [](const Tensor& v) { return hann_window(v.size(0)) * v; }},
      {"tensor_split",
       [](const Tensor& v) {
         return tensor_split(cat({v, v}), v.size(0))[1];
       }},
      {"combinations",
       [](const Tensor& v) {
         return combinations(cat({v, v}), v.size(0) - 1);
       }},
      {"matrix_power", [](const Tensor& v) { return linalg_matrix_power(outer(v, v), v.size(0)); }},
      {"one_hot", [](const Tensor& v) { return one_hot(v.to(DType::I64), v.size(0)); }}};
  for (auto& [name, fn] : cases) {
    auto f = compile(fn);
    for (const int64_t n : {3, 4, 6, 3}) {
      const Tensor v = rand({n});
      expect_equal(f(v).to(DType::F32), fn(v).to(DType::F32), name);
    }
    const Tensor marked = rand({4});
    mark_dynamic(marked, 0);
    const std::string error = user_error([&] { compile(fn)(marked); });
    // A conversion to int64_t has no line.
    const bool told =
        contains(error, "was marked dynamic") && contains(error, name == "one_hot" ? "plain number" : "open_gradients_test.cpp:");
    EXPECT_TRUE(error == "no error" || told) << error;
  }
}

TEST(OpenGradients, PartsOfTwoOpenSizes) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    return cat({narrow(a, 0, 0, a.size(0) / 2), narrow(b, 0, b.size(0) / 3, b.size(0) - b.size(0) / 3)});
  };
  const auto gradients = [&](const Tensor& a, const Tensor& b) {
    return value_and_gradients([&] { return sum(fn(a, b) * fn(a, b)); }, {a, b}).second;
  };
  auto g = compile(gradients);
  for (const auto& [n, m] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {1, 2}, {0, 0}, {7, 7}, {0, 4}}) {
    const Tensor a = rand({n}), b = rand({m});
    mark_dynamic(a, 0, 0), mark_dynamic(b, 0, 0);
    const auto found = g(a, b), want = gradients(a, b);
    for (size_t i = 0; i < 2; ++i) expect_equal(found[i], want[i], "parts");
  }
  EXPECT_EQ(g.report().compiles, 1);
}

// Relations that hold for all sizes are none that narrow a range.
TEST(OpenGradients, RangesFromNothingOn) {
  const auto first_to = [](const Tensor& x, const SymInt& n) { return slice(x, 0, 0, n); };
  const std::vector<std::pair<std::string, Function>> cases = {
      {"diff", [](const Tensor& x) { return diff(x); }},
      {"trapezoid", [](const Tensor& x) { return trapezoid(x); }},
      {"trapezoid.x", [](const Tensor& x) { return trapezoid(x, cumsum(x, 0)); }},
      {"parts",
       [](const Tensor& x) {
         return cat({narrow(x, 0, 0, x.size(0) / 2), slice(x * 2, 0, x.size(0) / 3)});
       }},
      {"neighbours", [](const Tensor& x) { return slice(x, 0, 1) * slice(x, 0, 0, -1); }},
      {"copy_",
       [](const Tensor& x) {
         Tensor y = x * 2;
         copy_(slice(y, 0, 1), slice(x, 0, 0, -1));
         return y;
       }},
      {"einsum, inner",
       [](const Tensor& x) {
         return einsum("i,i->", {x, x});
       }},
      {"einsum, outer",
       [](const Tensor& x) {
         return einsum("i,j->ij", {x, x});
       }},
      {"einsum, batch",
       [](const Tensor& x) {
         return einsum("bi,bj->bij", {unsqueeze(x, 1), unsqueeze(x, 1)});
       }},
      {"two from the end", [](const Tensor& x) { return slice(x, 0, 2) + slice(x, 0, 0, -2); }},
      {"half", [=](const Tensor& x) { return first_to(x, x.size(0) / 2); }},
      {"narrow", [](const Tensor& x) { return narrow(x, 0, 0, x.size(0) / 2); }},
      {"narrow, rest", [](const Tensor& x) { return narrow(x, 0, x.size(0) / 2, x.size(0) - x.size(0) / 2); }}};
  for (auto& [name, fn] : cases)
    for (const bool gradients : {false, true}) {
      auto f = compile(fn);
      auto g = compile([&fn = fn](const Tensor& x) { return gradients_of(fn, x).second[0]; });
      for (const int64_t n : {5, 2, 0, 1, 9}) {
        const Tensor x = rand({n});
        mark_dynamic(x, 0, 0);
        if (gradients)
          expect_equal(g(x), gradients_of(fn, x).second[0], name);
        else
          expect_equal(f(x), fn(x), name);
      }
      EXPECT_EQ((gradients ? g.report() : f.report()).compiles, 1) << name << " " << gradients;
    }
}

TEST(OpenGradients, RefusalsNameTheLine) {
  const std::vector<std::pair<std::string, Function>> cases = {{"chunk", [](const Tensor& x) { return chunk(x, 2)[0]; }},
                                                               {"split", [](const Tensor& x) { return split(x, 2)[0]; }},
                                                               {"unbind", [](const Tensor& x) { return unbind(x)[0]; }}};
  for (auto& [name, fn] : cases) {
    const Tensor x = rand({5});
    mark_dynamic(x, 0, 0, 16);
    auto g = compile([&fn = fn](const Tensor& t) { return gradients_of(fn, t).second[0]; });
    const std::string error = user_error([&] { g(x); });
    EXPECT_TRUE(contains(error, name) && contains(error, "open_gradients_test.cpp:")) << error;
  }
}

}  // namespace
}  // namespace toroid

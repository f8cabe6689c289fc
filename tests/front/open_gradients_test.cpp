// Open sizes where a number is needed, and in gradients: fixed by a guard, or left open; what refuses them names the line.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
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
      {"vander, of its size", [](const Tensor& x) { return vander(x, x.size(0)); }, {{3}, {4}}},
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

// Also within a function that is differentiated by something else than the tensor whose size it is.
TEST(OpenGradients, IntegersOfRowsBesideWhatIsDifferentiated) {
  const Tensor w = rand({3}) + 0.5;
  const std::vector<std::pair<std::string, Function>> cases = {
      {"linspace", [](const Tensor& v) { return linspace(2, 6, v.size(0)); }},
      {"hann_window", [](const Tensor& v) { return hann_window(v.size(0)); }},
      {"fft_fftfreq", [](const Tensor& v) { return fft_fftfreq(v.size(0)); }},
      {"tril_indices", [](const Tensor& v) { return tril_indices(v.size(0), 3); }},
      {"one_hot", [](const Tensor& v) { return one_hot(arange(0, 3), v.size(0)); }}};
  for (auto& [name, fn] : cases)
    for (const bool first : {true, false}) {
      const auto by_w = [&, &fn = fn](const Tensor& v) {
        return value_and_gradients(
            [&] {
              const Tensor made = sum(first ? fn(v) : fn(v) * sum(v)).to(DType::F32);
              return sum(w * w) * made;
            },
            {w});
      };
      auto f = compile(by_w);
      for (const int64_t n : {4, 5, 7, 4}) {
        const Tensor v = rand({n});
        const auto found = f(v), want = by_w(v);
        expect_equal(found.first, want.first, name);
        expect_equal(found.second[0], want.second[0], name);
      }
    }
}

// What a step leaves over of an image is open in the gradient by the image, as the image is: one program takes all sizes.
TEST(OpenGradients, ConvolutionsWithSteps) {
  for (const int64_t spatial : {1, 2, 3})
    for (const auto& [kernel, stride, padding, dilation] :
         std::vector<std::array<int64_t, 4>>{{3, 2, 1, 1}, {4, 2, 1, 1}, {2, 3, 0, 1}, {1, 2, 0, 1}, {3, 3, 2, 2}, {5, 4, 0, 1}}) {
      std::vector<int64_t> taps(static_cast<size_t>(spatial) + 2, kernel);
      taps[0] = 4, taps[1] = 2;
      const Tensor w = randn(taps) * 0.2;
      const SizeList by(std::vector<SymInt>(static_cast<size_t>(spatial), stride)),
          pad(std::vector<SymInt>(static_cast<size_t>(spatial), padding)),
          apart(std::vector<SymInt>(static_cast<size_t>(spatial), dilation)), none(std::vector<SymInt>(static_cast<size_t>(spatial), 0));
      const auto steps = [&](const Tensor& x) {
        return value_and_gradients(
            [&] {
              const Tensor y = convolution(x, w, {}, by, pad, apart, false, none, 1);
              return sum(y * y);
            },
            {x, w});
      };
      auto f = compile(steps);
      for (const int64_t n : {9, 10, 11, 12, 13}) {
        std::vector<int64_t> sizes(static_cast<size_t>(spatial) + 2, n);
        sizes[0] = 1, sizes[1] = 2;
        if (spatial == 2) sizes[3] = n + 3;
        const Tensor x = randn(sizes);
        for (int64_t d = 2; d < x.dim(); ++d) mark_dynamic(x, d);
        const auto found = f(x), want = steps(x);
        const std::string what = fmt::format("{} dimensions, kernel {}, stride {}, size {}", spatial, kernel, stride, n);
        expect_equal(found.first, want.first, what);
        for (size_t i = 0; i < 2; ++i) expect_equal(found.second[i], want.second[i], what);
      }
      EXPECT_EQ(f.report().compiles, 1);
    }
}

// Places outside of an image are moved to its border, or turned back there, wherever that is: one program takes all sizes.
TEST(OpenGradients, GridsOverImages) {
  const Tensor grid = randn({1, 3, 4, 2});
  for (const int64_t mode : {0, 1, 2})
    for (const int64_t padding : {0, 1, 2})
      for (const bool corners : {false, true}) {
        const auto fn = [&](const Tensor& x) {
          return gradients_of([&](const Tensor& t) { return grid_sampler(t, grid, mode, padding, corners); }, x);
        };
        auto f = compile(fn);
        for (const int64_t n : {4, 5, 7}) {
          const Tensor x = randn({1, 2, n, n + 2});
          mark_dynamic(x, 2), mark_dynamic(x, 3);
          const auto found = f(x), want = fn(x);
          const std::string what = fmt::format("mode {}, padding {}, corners {}, size {}", mode, padding, corners, n);
          expect_equal(found.first, want.first, what);
          expect_equal(found.second[0], want.second[0], what);
        }
        EXPECT_EQ(f.report().compiles, 1);
      }
}

// An open size is an operand where a row has no number for it.
TEST(OpenGradients, SizesAsNumbers) {
  const std::vector<std::pair<std::string, Function>> cases = {
      {"pow, exponent", [](const Tensor& x) { return pow(x, x.size(0)); }},
      {"pow, base", [](const Tensor& x) { return pow(x.size(0), x); }},
      {"remainder, first", [](const Tensor& x) { return remainder(x.size(0), x); }},
      {"remainder, second", [](const Tensor& x) { return remainder(x, x.size(0)); }},
      {"lerp", [](const Tensor& x) { return lerp(x, x * 2, x.size(0)); }},
      {"hardtanh, of its negative", [](const Tensor& x) { return clamp(x, -x.size(0), x.size(0) - 1); }}};
  for (auto& [name, fn] : cases)
    for (const DType t : {DType::F32, DType::F16, DType::I32}) {
      if (t == DType::I32 && name == "lerp") continue;
      const auto forward = [&fn = fn](const Tensor& x) { return fn(x); };
      auto f = compile(forward, {.dynamic = true});
      auto g = compile([&fn = fn](const Tensor& x) { return gradients_of(fn, x); }, {.dynamic = true});
      for (const int64_t n : {3, 4, 6}) {
        const Tensor x = (rand({n}) * 3 + 1).to(t);
        const Tensor found = f(x), want = fn(x);
        EXPECT_EQ(found.dtype(), want.dtype()) << name;
        expect_equal(found.to(DType::F32), want.to(DType::F32), name);
        if (t != DType::F32) continue;
        expect_equal(g(x).second[0], gradients_of(fn, x).second[0], name);
      }
      EXPECT_EQ(f.report().compiles, 1);
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

// Sizes that follow from values, each way: eager calls, compiled functions, and their gradients.
#include <gtest/gtest.h>

#include <functional>

#include "errors.h"
#include "toroid/autograd.h"
#include "toroid/checkpoint.h"
#include "toroid/compile.h"
#include "toroid/control_flow.h"
#include "toroid/grad.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid {
namespace {

const std::string kNone = "no error";  // of test::user_error

using Function = std::function<Tensor(const Tensor&)>;
struct Named {
  const char* text;
  Function fn;
};
#define FUNCTION(...) \
  { \
#__VA_ARGS__, [](const Tensor& x) -> Tensor { return __VA_ARGS__; } \
  }

Tensor picked(const Tensor& x, Where where = Where::current()) { return index(x, {x > 0}, where); }
Tensor counts_of(const Tensor& x, Where where = Where::current()) { return bincount(reshape(abs(x), {-1}).to(DType::I64), {}, 0, where); }
Tensor numbers(const Tensor& x) { return reshape(abs(x), {-1}).to(DType::I64); }

std::vector<Named> functions() {
  return {FUNCTION(nonzero(x > 0)),
          FUNCTION(masked_select(x, x > 0)),
          FUNCTION(std::get<0>(unique(x))),
          FUNCTION(repeat_interleave(x, Tensor::of({1, 2}, {2}, DType::I64), 0)),
          FUNCTION(counts_of(x)),
          FUNCTION(one_hot(abs(x).to(DType::I64))),
          FUNCTION(picked(x)),
          FUNCTION(index(x, {any(x > 2, {1})})),
          FUNCTION(where(x > 0)[0]),
          FUNCTION(picked(x) * index(x, {x > 0})),
          FUNCTION(x * double(picked(x).numel())),
          FUNCTION(reshape(picked(x), {-1, 1})),
          FUNCTION(cat({picked(x), index(x, {x <= 0})})),
          FUNCTION(zeros({picked(x).size(0)})),
          {"the sizes of two picks, the first of which is zeros",
           [](const Tensor& x) -> Tensor {
             const Tensor none = zeros({picked(x).size(0)});
             return none + picked(x);
           }},
          {"the sizes of two picks, the second of which is zeros",
           [](const Tensor& x) -> Tensor {
             const Tensor first = picked(x);
             return first + zeros({picked(x).size(0)});
           }},
          FUNCTION(mean(picked(x))),
          FUNCTION(sort(picked(x)).first),
          FUNCTION(cumsum(picked(x), 0)),
          FUNCTION(softmax(picked(x), 0)),
          FUNCTION(picked(x)[0]),
          FUNCTION(slice(picked(x), 0, 0, 2)),
          FUNCTION(flip(picked(x), {0})),
          FUNCTION(expand(unsqueeze(picked(x), 0), {2, -1})),
          FUNCTION(std::get<0>(unique_consecutive(x))),
          FUNCTION(topk(picked(x), 1).first),
          FUNCTION(pad(picked(x), {1, 1})),
          FUNCTION(split(picked(x), 1)[0]),
          FUNCTION(stack({picked(x), index(x, {x > 0})})),
          FUNCTION(diff(picked(x))),
          FUNCTION(nonzero(x > 100)),
          FUNCTION(index(x, {x > 100})),
          FUNCTION(sum(index(x, {x > 100}) * index(x, {x > 100}))),
          FUNCTION(max(picked(x))),
          FUNCTION(index_put(zeros({9}), {counts_of(x)}, 1.)),
          FUNCTION(index_put(x, {x > 0}, 1.)),
          FUNCTION(index_put(x, {x > 0}, sum(x))),
          FUNCTION(index_put(x, {x > 0}, picked(x) * 2)),
          FUNCTION(masked_scatter(x, x > 0, ones({6}))),
          FUNCTION(std::get<0>(unique_dim(x, 0))),
          FUNCTION(quantile(picked(x), 0.5)),
          FUNCTION(median(picked(x))),
          FUNCTION(view(picked(x), {-1})),
          FUNCTION(repeat(picked(x), {2})),
          FUNCTION(linspace(0, 1, picked(x).size(0))),
          FUNCTION(arange(picked(x).size(0))),
          FUNCTION(tril(outer(picked(x), picked(x)))),
          FUNCTION(bincount(numbers(x), {}, 3)),
          FUNCTION(bincount(numbers(x), {}, 7) * ones({7})),
          FUNCTION(combinations(picked(x), 2)),
          FUNCTION(multinomial(picked(x), 1)),
          FUNCTION(std_dev(picked(x))),
          FUNCTION(picked(x) + sum(x)),
          FUNCTION(nonzero_static(x > 0, 3)),
          FUNCTION(conv1d(reshape(picked(x), {1, 1, -1}), ones({1, 1, 2}))),
          FUNCTION(cdist(reshape(picked(x), {-1, 1}), ones({2, 1}))),
          FUNCTION(fft_rfft(picked(x))),
          FUNCTION(index(x, {any(x > 2, {1}), Tensor::of({0, 2}, {2}, DType::I64)})),
          FUNCTION(scatter_add(zeros({3}), 0, zeros({picked(x).size(0)}, DType::I64), picked(x)))};
}

Tensor loss_of(const Function& fn, const Tensor& x) { return sum(fn(x).to(DType::F32)) + sum(x * x); }

struct Differentiated {
  std::string error;
  double loss = 0;
  std::vector<double> gradient;
};
Differentiated of_backward(const std::function<Tensor(const Tensor&)>& fn, const Tensor& given) {
  Differentiated out;
  out.error = test::user_error([&] {
    manual_seed(7);
    Tensor x = given * 1;
    x.requires_grad_();
    const Tensor loss = loss_of(fn, x);
    loss.backward();
    out.loss = loss.item<double>(), out.gradient = x.grad().to_vector();
  });
  return out;
}
Differentiated of_function(const std::function<std::pair<Tensor, std::vector<Tensor>>(const Tensor&)>& gradients, const Tensor& x) {
  Differentiated out;
  out.error = test::user_error([&] {
    manual_seed(7);
    const auto [loss, by] = gradients(x);
    out.loss = loss.item<double>(), out.gradient = by[0].to_vector();
  });
  return out;
}

void expect_near(const Differentiated& found, const Differentiated& want, const std::string& what) {
  ASSERT_EQ(found.gradient.size(), want.gradient.size()) << what;
  EXPECT_NEAR(found.loss, want.loss, 1e-4) << what;
  for (size_t i = 0; i < want.gradient.size(); ++i) EXPECT_NEAR(found.gradient[i], want.gradient[i], 1e-4) << what << " " << i;
}

const std::vector<std::vector<double>> kInputs = {{1, -2, 3, -4, 5, 6}, {1, -2, 3, -4, -5, -6}};
Tensor input(size_t i) { return reshape(Tensor::from_vector(std::vector<float>(kInputs[i].begin(), kInputs[i].end()), {6}), {2, 3}); }

TEST(SizesOfData, EagerGradientsAreThoseOfBackward) {
  for (size_t i = 0; i < kInputs.size(); ++i)
    for (auto& [text, fn] : functions()) {
      const Differentiated want = of_backward(fn, input(i));
      const auto gradients = [&fn = fn](const Tensor& x) { return value_and_gradients([&] { return loss_of(fn, x); }, {x}); };
      const Differentiated found = of_function(gradients, input(i));
      const bool reads = test::contains(found.error, "item<int64_t>() of a tensor inside of");  // the number of classes
      const bool named = test::contains(found.error, "sizes_of_data_test.cpp:");
      EXPECT_TRUE(reads ? named : (found.error == kNone) == (want.error == kNone)) << text << "\n" << found.error << "\n" << want.error;
      if (found.error == kNone && want.error == kNone) expect_near(found, want, text);
    }
}

// What a compiled function cannot do it says with the line that asks for it.
TEST(SizesOfData, CompiledFunctionsComputeOrNameTheLine) {
  for (auto& [text, fn] : functions()) {
    const Differentiated want = of_backward(fn, input(0));
    const auto named = [&text = text](const std::string& way, const std::string& error) {
      EXPECT_TRUE(error == kNone || test::contains(error, "sizes_of_data_test.cpp:")) << text << " " << way << "\n" << error;
    };
    for (const bool open : {false, true}) {
      const CompileConfig config{.dynamic = open};
      auto f = compile(fn, config);
      Tensor y;
      const std::string error = test::user_error([&] { manual_seed(7), y = f(input(0)); });
      named(open ? "open" : "compiled", error);
      manual_seed(7);
      if (error == kNone) {
        EXPECT_TRUE(allclose(y.to(DType::F32), fn(input(0)).to(DType::F32))) << text;
      }
      const Differentiated taped = of_backward([&](const Tensor& x) { return f(x); }, input(0));
      named("backward()", taped.error);
      const bool runs = error == kNone && want.error == kNone;
      EXPECT_TRUE(!runs || taped.error == kNone) << text << ", which runs\n" << taped.error;
      if (taped.error == kNone && want.error == kNone) expect_near(taped, want, text);
      auto g = compile([&fn = fn](const Tensor& x) { return value_and_gradients([&] { return loss_of(fn, x); }, {x}); }, config);
      const Differentiated whole = of_function([&](const Tensor& x) { return g(x); }, input(0));
      named("value_and_gradients", whole.error);
      const bool keeps_sizes = test::contains(text, "index_put(x, {x > 0}, ") && !test::contains(text, "picked");
      EXPECT_TRUE(!keeps_sizes || whole.error == kNone) << text << ", which keeps the sizes\n" << whole.error;
      if (whole.error == kNone && want.error == kNone) expect_near(whole, want, text);
    }
    const auto rows = [&fn = fn](const Tensor& t) { return sum(fn(unsqueeze(t, 0)).to(DType::F32)); };
    named("map", test::user_error([&] { compile([&](const Tensor& x) { return map(rows, x); })(input(0)); }));
  }
}

// What is computed for the sizes draws from the stream what the program draws, once.
TEST(SizesOfData, DrawsOnce) {
  const Tensor x = rand({40}) + 1;
  const auto fn = [&] {
    const Tensor kept = dropout(x, 0.5, true);
    return sum(index(kept, {kept > 0}) * 3);
  };
  manual_seed(3);
  fn();
  const double next = rand({1}).item<double>();
  manual_seed(3);
  const auto [value, gradients] = value_and_gradients(fn, {x});
  EXPECT_EQ(rand({1}).item<double>(), next);
  EXPECT_NEAR(sum(gradients[0] * x).item<double>(), value.item<double>(), 1e-3) << "the function is linear in what is kept";
  EXPECT_GT(value.item<double>(), 0);
}

TEST(SizesOfData, WithinACheckpoint) {
  Tensor x = Tensor::of({1, -2, 3}, {3});
  x.requires_grad_();
  checkpoint([&] { return sum(picked(x) * index(x, {x > 0})); }).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{2, 0, 6}));
}

// Regions are recorded before their values are known.
TEST(SizesOfData, WithinRegions) {
  for (auto& [text, fn] : functions()) {
    const auto rows = [&fn = fn](const Tensor& t) { return sum(fn(unsqueeze(t, 0)).to(DType::F32)) + sum(t * t); };
    const auto mapped = [&](const Tensor& x) { return map(rows, x); };
    const Differentiated want = of_backward(mapped, input(0));
    const auto eager = [&](const Tensor& x) { return value_and_gradients([&] { return loss_of(mapped, x); }, {x}); };
    const auto compiled = [&](const Tensor& x) { return compile(eager)(x); };
    for (auto& way : {std::function<std::pair<Tensor, std::vector<Tensor>>(const Tensor&)>(eager), {compiled}}) {
      const Differentiated found = of_function(way, input(0));
      EXPECT_TRUE(found.error == kNone || test::contains(found.error, "sizes_of_data_test.cpp:")) << text << "\n" << found.error;
      if (found.error == kNone && want.error == kNone) expect_near(found, want, text);
    }
  }
}

TEST(SizesOfData, WritesOnce) {
  const Tensor x = Tensor::of({1, -2, 3}, {3}), calls = zeros({});
  const auto [value, gradients] = value_and_gradients(
      [&] {
        add_(calls, 1);
        return sum(picked(x) * calls * picked(x));
      },
      {x});
  EXPECT_EQ(calls.item<double>(), 1);
  EXPECT_EQ(value.item<double>(), 10);
  EXPECT_EQ(gradients[0].to_vector(), (std::vector<double>{2, 0, 6}));
}

TEST(SizesOfData, GradientsOfGradients) {
  const Tensor x = Tensor::of({1, -2, 3}, {3});
  const auto slope = grad([](const Tensor& t) { return sum(pow(picked(t), 3)); });
  const auto curvature = grad([&](const Tensor& t) { return sum(slope(t) * picked(t).numel()); });
  EXPECT_EQ(curvature(x).to_vector(), (std::vector<double>{12, 0, 36}));
}

// The mask becomes the indices of its true elements (numbers by PyTorch 2.15).
TEST(SizesOfData, AMaskStandsBesideIntegers) {
  const Tensor x = reshape(arange(12).to(DType::F32), {3, 4}), rows = Tensor::of({1, 0, 1}, {3}) > 0;
  const auto i64 = [](std::initializer_list<double> v) { return Tensor::of(v, {v.size()}, DType::I64); };
  const auto both = [&](const Tensor& t) { return index(t, {rows, i64({3, 1})}); };
  const auto one = [&](const Tensor& t) { return index(t, {rows, i64({2})}); };
  const auto crossed = [&](const Tensor& t) { return index(t, {rows, unsqueeze(i64({0, 1, 3}), 1)}); };
  const auto put = [&](const Tensor& t) { return index_put(t, {rows, i64({3, 1})}, Tensor::of({-1, -2}, {2})); };
  const std::vector<std::pair<Function, std::vector<double>>> cases = {
      {both, {3, 9}}, {one, {2, 10}}, {crossed, {0, 8, 1, 9, 3, 11}}, {put, {0, 1, 2, -1, 4, 5, 6, 7, 8, -2, 10, 11}}};
  for (auto& [fn, want] : cases) {
    EXPECT_EQ(fn(x).to_vector(), want);
    EXPECT_EQ(compile(fn)(x).to_vector(), want);
    EXPECT_EQ(compile(fn, {.dynamic = true})(x).to_vector(), want);
  }
  const std::string error = test::user_error([&] { compile([&](const Tensor& t) { return index(t, {rows, i64({1, 2, 3})}); })(x); });
  EXPECT_TRUE(test::contains(error, "do not fit together")) << error;
}

TEST(SizesOfData, SizesOfNothing) {
  const auto counted = [](const Tensor& i) { return bincount(i, {}, i.size(0)) + arange(i.size(0)); };
  const auto ragged = [](const Tensor& lengths, const Tensor& e) {
    const Tensor rows = repeat_interleave(lengths);
    return index_add(zeros({lengths.size(0)}), 0, rows, e);
  };
  const Tensor none = zeros({0}, DType::I64);
  EXPECT_EQ(compile(counted)(none).sizes(), std::vector<int64_t>{0});
  EXPECT_EQ(compile(ragged)(none, zeros({0})).sizes(), std::vector<int64_t>{0});
  EXPECT_EQ(compile(ragged)(Tensor::of({2, 1}, {2}, DType::I64), Tensor::of({1, 2, 3}, {3})).to_vector(), (std::vector<double>{3, 3}));
  EXPECT_NE(test::user_error([&] { compile(counted)(Tensor::of({4, 0}, {2}, DType::I64)); }), kNone);
  const auto sums = [](const Tensor& x) { return sum(index(x, {x > 0}) + zeros({0})); };
  EXPECT_NE(test::user_error([&] { compile(sums)(ones({2})); }), kNone) << "2 elements and none";
  EXPECT_EQ(compile(sums)(ones({1})).item<double>(), 0);
}

}  // namespace
}  // namespace toroid

// ATen's backward operations, against differences of the operations that they belong to, in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "errors.h"
#include "ops/table.h"
#include "toroid/compile.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid::backward_rows {
namespace {

using ops::call;
using Sizes = std::vector<Expr>;

Tensor drawn(const std::vector<int64_t>& sizes, uint64_t seed, double low = -1, double high = 1) {
  std::mt19937_64 random(seed);
  Tensor out = Tensor::empty(sizes, DType::F64);
  for (int64_t i = 0; i < out.numel(); ++i) out.data<double>()[i] = std::uniform_real_distribution<double>(low, high)(random);
  return out;
}

struct Case {
  std::string forward;
  CallArgs args;
  size_t by;  // of args: the tensor whose gradient it is
  std::string backward;
  std::function<CallArgs(const Tensor& gradient, const std::vector<Tensor>& results)> given;
  size_t result = 0;  // of the backward operation's
};

// What a step of the operand along `direction` adds to <gradient, result>, by differences and by the backward operation.
std::pair<double, double> slopes(const Case& c) {
  constexpr double kStep = 1e-6;
  const auto x = std::get<Tensor>(c.args[c.by]);
  const auto run = [&](double step, const Tensor& direction) {
    CallArgs args = c.args;
    args[c.by] = x + direction * step;
    toroid::manual_seed(3);  // the same mask of a dropout each time
    return call(c.forward, args);
  };
  const Tensor direction = drawn(x.sizes(), 1);
  const std::vector<Tensor> results = run(0, direction);
  const Tensor gradient = drawn(results[0].sizes(), 2);
  const auto along = [&](const Tensor& y) { return sum(y * gradient).item<double>(); };
  const double difference = (along(run(kStep, direction)[0]) - along(run(-kStep, direction)[0])) / (2 * kStep);
  const Tensor found = call(c.backward, c.given(gradient, results))[c.result];
  EXPECT_EQ(found.sizes(), x.sizes()) << c.backward;
  return {difference, sum(found * direction).item<double>()};
}

// The arguments behind the gradient are those of the operation itself.
std::function<CallArgs(const Tensor&, const std::vector<Tensor>&)> followed_by(CallArgs rest) {
  return [rest = std::move(rest)](const Tensor& g, const auto&) {
    CallArgs out{g};
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  };
}

std::vector<Case> convolutions() {
  std::vector<Case> out;
  struct Kind {
    std::vector<int64_t> input, weight;
    Sizes stride, padding, dilation;
    bool transposed;
    Sizes output_padding;
    int64_t groups;
  };
  for (const Kind& k : {Kind{{2, 4, 7}, {6, 2, 3}, {2}, {1}, {1}, false, {0}, 2},
                        Kind{{2, 3, 6, 5}, {4, 3, 3, 2}, {1, 2}, {1, 0}, {2, 1}, false, {0, 0}, 1},
                        Kind{{1, 4, 4, 5}, {4, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {1, 1}, 2},
                        Kind{{1, 2, 4, 4, 3}, {2, 2, 2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, false, {0, 0, 0}, 1}}) {
    const int64_t channels = k.transposed ? k.weight[1] * k.groups : k.weight[0];
    const CallArgs args{drawn(k.input, 3), drawn(k.weight, 4), drawn({channels}, 5), k.stride,      k.padding,
                        k.dilation,        k.transposed,       k.output_padding,     Expr(k.groups)};
    for (size_t by = 0; by < 3; ++by) {
      CallArgs rest{args[0], args[1], Sizes{channels}};
      rest.insert(rest.end(), args.begin() + 3, args.end());
      rest.push_back(std::vector<bool>{by == 0, by == 1, by == 2});
      out.push_back({"convolution", args, by, "convolution_backward", followed_by(rest), by});
    }
  }
  return out;
}

std::vector<Case> cases() {
  std::vector<Case> out = convolutions();
  const Tensor image = drawn({2, 3, 7, 6}, 6), volume = drawn({1, 2, 5, 6, 4}, 7), line = drawn({2, 3, 5}, 8);
  const auto same = [&](const std::string& name, const CallArgs& args) {
    out.push_back({name, args, 0, name + "_backward", followed_by(args)});
  };
  for (const bool ceil : {false, true})
    for (const bool counted : {false, true}) {
      same("avg_pool2d", {image, Sizes{3, 2}, Sizes{2, 2}, Sizes{1, 0}, ceil, counted, Arg<Tensor>()});
      same("avg_pool3d", {volume, Sizes{2, 3, 2}, Sizes{2, 2, 1}, Sizes{1, 1, 0}, ceil, counted, Expr(5)});
    }
  out.push_back({"_adaptive_avg_pool2d", {image, Sizes{3, 4}}, 0, "_adaptive_avg_pool2d_backward", followed_by({image})});
  out.push_back({"_adaptive_avg_pool3d", {volume, Sizes{3, 2, 4}}, 0, "_adaptive_avg_pool3d_backward", followed_by({volume})});
  const auto by_indices = [](const Tensor& x) {
    return [x](const Tensor& g, const std::vector<Tensor>& results) { return CallArgs{g, x, results[1]}; };
  };
  out.push_back({"adaptive_max_pool2d", {image, Sizes{3, 4}}, 0, "adaptive_max_pool2d_backward", by_indices(image)});
  out.push_back({"adaptive_max_pool3d", {volume, Sizes{3, 2, 3}}, 0, "adaptive_max_pool3d_backward", by_indices(volume)});
  same("logit", {drawn({3, 4}, 17, 0.05, 0.95), Arg<Tensor>()});
  same("logit", {drawn({3, 4}, 18, -0.2, 1.2), 0.25});
  for (const char* approximate : {"none", "tanh"}) same("gelu", {drawn({3, 4}, 19, -4, 4), std::string(approximate)});
  same("replication_pad1d", {line, Sizes{2, 3}});
  same("replication_pad2d", {image, Sizes{1, 2, 0, 3}});
  same("replication_pad3d", {volume, Sizes{1, 0, 2, 1, 1, 3}});
  same("_pdist_forward", {drawn({5, 4}, 9), 3.0});
  out.back().backward = "_pdist_backward";
  out.back().given = [x = out.back().args[0]](const Tensor& g, const auto& results) { return CallArgs{g, x, 3.0, results[0]}; };
  for (const int64_t mode : {0, 2})
    for (const int64_t padding : {0, 1, 2})
      for (const size_t by : {0, 1}) {
        const CallArgs flat{image, drawn({2, 4, 5, 2}, 10, -1.3, 1.3), Expr(mode), Expr(padding), false};
        CallArgs rest = flat;
        rest.push_back(std::vector<bool>{by == 0, by == 1});
        out.push_back({"grid_sampler_2d", flat, by, "grid_sampler_2d_backward", followed_by(rest), by});
      }
  for (const size_t by : {0, 1}) {
    const CallArgs deep{volume, drawn({1, 3, 2, 4, 3}, 11, -1.3, 1.3), Expr(0), Expr(0), true};
    CallArgs rest = deep;
    rest.push_back(std::vector<bool>{by == 0, by == 1});
    out.push_back({"grid_sampler_3d", deep, by, "grid_sampler_3d_backward", followed_by(rest), by});
  }
  for (const char* name : {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"})
    for (const bool corners : {false, true}) {
      const Sizes size{4, 9};
      out.push_back({name, {image, size, corners}, 0, std::string(name) + "_backward", followed_by({size, Sizes{2, 3, 7, 6}, corners})});
    }
  const Tensor mask = drawn({3, 4}, 12) > 0.0;
  out.push_back(
      {"masked_scatter", {drawn({3, 4}, 13), mask, drawn({2, 6}, 14)}, 2, "masked_scatter_backward", followed_by({mask, Sizes{2, 6}})});
  for (const double p : {1.0, 2.0, 3.5}) {
    const Tensor a = drawn({2, 3, 4}, 15), b = drawn({2, 5, 4}, 16);
    out.push_back({"_cdist_forward", {a, b, p, Arg<Tensor>()}, 0, "_cdist_backward", [=](const Tensor& g, const auto& results) {
                     return CallArgs{g, a, b, p, results[0]};
                   }});
  }
  for (const bool ceil : {false, true}) {
    const CallArgs flat{image, Sizes{3, 2}, Sizes{2, 1}, Sizes{1, 0}, Sizes{1, 2}, ceil};
    const CallArgs deep{volume, Sizes{2, 3, 2}, Sizes{2, 2, 1}, Sizes{1, 1, 0}, Sizes{2, 1, 1}, ceil};
    for (const auto& [name, args] : {std::pair("max_pool2d_with_indices", flat), std::pair("max_pool3d_with_indices", deep)})
      out.push_back({name, args, 0, std::string(name) + "_backward", [args](const Tensor& g, const auto& results) {
                       CallArgs given = followed_by(args)(g, results);
                       given.push_back(results[1]);
                       return given;
                     }});
  }
  out.push_back({"native_dropout", {drawn({5, 7}, 20), 0.25, true}, 0, "native_dropout_backward", [](const Tensor& g, const auto& results) {
                   return CallArgs{g, results[1], 1 / 0.75};
                 }});
  for (const bool causal : {false, true})
    for (size_t by = 0; by < 3; ++by) {
      const CallArgs qkv{drawn({2, 2, 3, 4}, 21), drawn({2, 2, 5, 4}, 22), drawn({2, 2, 5, 4}, 23)};
      const Arg<Tensor> mask = causal ? Arg<Tensor>() : drawn({3, 5}, 24);
      out.push_back({"_scaled_dot_product_flash_attention_for_cpu",
                     {qkv[0], qkv[1], qkv[2], 0.0, causal, mask, 0.7},
                     by,
                     "_scaled_dot_product_flash_attention_for_cpu_backward",
                     [=](const Tensor& g, const auto& results) {
                       return CallArgs{g, qkv[0], qkv[1], qkv[2], results[0], results[1], 0.0, causal, mask, 0.7};
                     },
                     by});
    }
  const Tensor rows = drawn({6, 2}, 17), lengths = Tensor::of({1, 3, 2}, {3}, DType::I64);
  for (const char* reduce : {"sum", "mean", "max", "min", "prod"}) {
    const auto given = [=](const Tensor& g, const auto& results) {
      return CallArgs{g, results[0], rows, std::string(reduce), lengths, Arg<Tensor>(), Expr(0), Arg<Tensor>()};
    };
    out.push_back({"segment_reduce", {rows, std::string(reduce), lengths}, 0, "_segment_reduce_backward", given});
  }
  return out;
}

TEST(BackwardRows, AreTheGradientsOfWhatTheyBelongTo) {
  for (const Case& c : cases()) {
    const auto [difference, found] = slopes(c);
    EXPECT_NEAR(found, difference, 1e-6 * std::max(1.0, std::abs(difference))) << c.backward << " by argument " << c.by;
  }
}

TEST(BackwardRows, EachIsComparedWithWhatItBelongsTo) {
  std::set<std::string> compared;
  for (const Case& c : cases()) compared.insert(c.backward);
  for (const ops::Op& row : ops::table().rows())
    EXPECT_EQ(row.name.find("_backward") != std::string::npos, compared.count(row.name) > 0)
        << row.name << " has no case, and nothing else demands its values";
}

// One tensor in two places is two operands.
TEST(BackwardRows, OfOneTensorInTwoPlaces) {
  const Tensor x = drawn({2, 3, 4}, 1), g = drawn({2, 3, 3}, 2);
  const Tensor y = call("_cdist_forward", {x, x, 2.0, Arg<Tensor>()})[0];
  const Tensor apart = call("_cdist_backward", {g, x, clone(x), 2.0, y})[0], same = call("_cdist_backward", {g, x, x, 2.0, y})[0];
  EXPECT_EQ(same.to_vector(), apart.to_vector());
}

// ATen says of a bias that there is none by no sizes, or by one that is 0.
TEST(BackwardRows, ConvolutionsWithoutBias) {
  for (const bool transposed : {false, true}) {
    const Tensor x = drawn({2, 4, 5, 5}, 1), w = drawn(transposed ? std::vector<int64_t>{4, 3, 3, 3} : std::vector<int64_t>{6, 2, 3, 3}, 2);
    const CallArgs rest{Sizes{1, 1}, Sizes{1, 1}, Sizes{1, 1}, transposed, Sizes{0, 0}, Expr(2)};
    CallArgs forward{x, w, Arg<Tensor>()};
    forward.insert(forward.end(), rest.begin(), rest.end());
    const Tensor g = drawn(call("convolution", forward)[0].sizes(), 3);
    std::vector<std::vector<double>> found;
    for (const Arg<Tensor>& bias : {Arg<Tensor>(), Arg<Tensor>(Sizes{0})})
      for (const bool wants_bias : {false, true}) {
        CallArgs args{g, x, w, bias};
        args.insert(args.end(), rest.begin(), rest.end());
        args.push_back(std::vector<bool>{true, true, wants_bias});
        const auto out = call("convolution_backward", args);
        EXPECT_EQ(out[2].numel(), wants_bias ? 6 : 0);
        found.push_back(out[0].to_vector());
      }
    for (auto& other : found) EXPECT_EQ(other, found[0]);
  }
}

TEST(BackwardRows, RefuseGradientsOfOtherSizes) {
  const Tensor image = drawn({2, 3, 6, 6}, 1);
  const auto told = [&](const std::string& name, CallArgs args) { return test::user_error([&] { call(name, args); }); };
  EXPECT_TRUE(test::contains(told("_adaptive_avg_pool2d_backward", {drawn({4}, 2), image}), "grad_output has 1 dimensions, self 4"));
  const CallArgs pool{drawn({2, 3, 1, 3}, 2), image, Sizes{2, 2}, Sizes{2, 2}, Sizes{0, 0}, false, true, Arg<Tensor>()};
  EXPECT_TRUE(test::contains(told("avg_pool2d_backward", pool), "dimension 2 of cotangent 0 is 1, its result has 3"));
}

TEST(BackwardRows, GiveNothingThatIsNotWanted) {
  for (const Case& c : convolutions()) {
    const Tensor y = call(c.forward, c.args)[0];
    const std::vector<Tensor> out = call(c.backward, c.given(y, {y}));
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(out[i].numel() > 0, i == c.by);
  }
}

// In a compiled function they are a part of its program.
TEST(BackwardRows, Compile) {
  const auto fn = [](const Tensor& g, const Tensor& x, const Tensor& w) {
    const std::vector<Tensor> out = call("convolution_backward", {g, x, w, Arg<Tensor>(), Sizes{1, 1}, Sizes{1, 1}, Sizes{1, 1}, false,
                                                                  Sizes{0, 0}, Expr(1), std::vector<bool>{true, true, false}});
    return std::vector<Tensor>{relu(out[0]), out[1]};
  };
  const auto f32 = [](const std::vector<int64_t>& sizes, uint64_t seed) { return to(drawn(sizes, seed), DType::F32); };
  const Tensor g = f32({2, 5, 6, 6}, 1), x = f32({2, 3, 6, 6}, 2), w = f32({5, 3, 3, 3}, 3);
  const auto want = fn(g, x, w), got = compile(fn)(g, x, w);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(amax(abs(got[i] - want[i])).item<float>(), 1e-4) << i;
}

}  // namespace
}  // namespace toroid::backward_rows

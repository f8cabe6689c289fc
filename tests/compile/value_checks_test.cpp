// Values that an operation has no meaning for: a UserError that says which, eager, compiled, replayed and interpreted.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/options.h"
#include "compile/harness.h"
#include "front/compile_model.h"
#include "toroid/compile.h"
#include "toroid/random.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

struct Case {
  std::string what;
  std::function<Tensor(const Tensor&)> f;
  Tensor good;
  std::vector<std::pair<Tensor, std::string>> bad;  // with what the error says
};

Tensor row(const std::vector<double>& v, DType t = DType::F32, Device device = Device::cpu()) {
  return Tensor::of(v, std::vector<int64_t>{static_cast<int64_t>(v.size())}, t, device);
}

std::function<Tensor(const Tensor&)> op(const char* name, std::function<CallArgs(const Tensor&)> args) {
  return [name, args](const Tensor& x) { return ops::call(ops::get(name), args(x)).at(0); };
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (DType t : {DType::F32, DType::F64, DType::BF16}) {
    const auto draws = [&](int64_t count, bool again) {
      return op("multinomial", [=](const Tensor& p) { return CallArgs{p, Expr(count), again}; });
    };
    for (bool again : {false, true})
      out.push_back(
          {fmt::format("multinomial of {}{}", name_of(t), again ? ", again" : ""),
           draws(1, again),
           row({1, 0, 3, 2, 1}, t),
           {{row({1, 1, kNan, 1, 1}, t), "multinomial: a probability is NaN; it must be finite and not negative"},
            {row({1, 1, 1, 1, -1}, t), "multinomial: a probability is negative"},
            {row({1, kInf, 1, 1, 1}, t), "multinomial: a probability is infinite"},
            {row({0, 0, 0, 0, 0}, t), again ? "multinomial: the sum of probabilities is 0; it must be finite and above 0"
                                            : "multinomial: probabilities above 0, of which each is drawn once: 0; at least 1"}}});
    out.push_back({"multinomial of two",
                   draws(2, false),
                   row({1, 0, 3, 2, 1}, t),
                   {{row({0, 0, 1, 0, 0}, t), "probabilities above 0, of which each is drawn once: 1; at least 2 expected"}}});
    const std::vector<std::pair<Tensor, std::string>> no_chance = {{row({0.5, 2}, t), "bernoulli: a probability is above 1; it must be in"},
                                                                   {row({kNan, 1}, t), "bernoulli: a probability is NaN"},
                                                                   {row({0, -0.5}, t), "bernoulli: a probability is negative"}};
    out.push_back({"bernoulli", op("bernoulli", [](const Tensor& p) { return CallArgs{p}; }), row({0, 1}, t), no_chance});
    out.push_back({"bernoulli.Tensor",
                   op("bernoulli.Tensor",
                      [=](const Tensor& p) {
                        return CallArgs{row({1, 1}, t, p.device()), p};
                      }),
                   row({0, 1}, t), no_chance});
    const std::vector<std::pair<Tensor, std::string>> no_width = {{row({1, -1}, t), "normal: std is negative; it must not be negative"},
                                                                  {row({kNan, 1}, t), "normal: std is NaN"}};
    out.push_back({"normal",
                   op("normal.Tensor_Tensor",
                      [=](const Tensor& s) {
                        return CallArgs{row({1, 1}, t, s.device()), s};
                      }),
                   row({0, 1}, t), no_width});
    out.push_back({"normal around a number",
                   op("normal.float_Tensor",
                      [](const Tensor& s) {
                        return CallArgs{1.0, s};
                      }),
                   row({0, 1}, t), no_width});
    const auto loss = [&](bool of_target) {
      return op("binary_cross_entropy", [=](const Tensor& x) {
        const Tensor half = row({0.5, 0.5}, t, x.device());
        return of_target ? CallArgs{half, x, Tensor(), Expr(0)} : CallArgs{x, half, Tensor(), Expr(0)};
      });
    };
    for (bool target : {false, true}) {
      const std::string who =
          target ? "binary_cross_entropy: an element of the target is " : "binary_cross_entropy: an element of the input is ";
      out.push_back(
          {"binary_cross_entropy", loss(target), row({0, 1}, t), {{row({0, 1.5}, t), who + "above 1"}, {row({kNan, 1}, t), who + "NaN"}}});
    }
  }
  for (const char* name : {"quantile", "nanquantile"})
    out.push_back({name,
                   op(name,
                      [](const Tensor& q) {
                        return CallArgs{row({1, 2, 3}, DType::F32, q.device()), q};
                      }),
                   row({0, 1}),
                   {{row({0, 1.5}), fmt::format("{}: q is above 1", name)}, {row({kNan, 1}), fmt::format("{}: q is NaN", name)}}});
  for (int64_t n : {0, 2})
    out.push_back(
        {"masked_scatter",
         op("masked_scatter",
            [n](const Tensor& m) {
              return CallArgs{row({1, 2, 3, 4}, DType::F32, m.device()), m, Tensor::full({n}, 7, DType::F32, m.device())};
            }),
         row({0, n ? 1.0 : 0.0, 0, 0}, DType::Bool),
         {{row({1, 1, 0, 1}, DType::Bool), fmt::format("masked_scatter: elements of the source that the mask takes: {}; 0 up to {} "
                                                       "expected",
                                                       n + 1, n)}}});
  out.push_back({"fake_quantize_per_channel_affine",
                 op("fake_quantize_per_channel_affine",
                    [](const Tensor& zero) {
                      return CallArgs{Tensor::full({2, 3}, 1, DType::F32, zero.device()),
                                      row({1, 1}, DType::F32, zero.device()),
                                      zero,
                                      Expr(0),
                                      Expr(-8),
                                      Expr(7)};
                    }),
                 row({-8, 7}, DType::I32),
                 {{row({0, 8}, DType::I32), "fake_quantize_per_channel_affine: zero_point less quant_min: 16; 0 up to 15 expected"},
                  {row({-9, 0}, DType::I32), "zero_point less quant_min: -1"}}});
  return out;
}

using Function = std::function<Tensor(const Tensor&)>;

void expect_refusals(const std::string& how, const std::function<Function(const Function&)>& make, Device device = Device::cpu()) {
  const DeviceScope here(device);  // what the calls make besides is there, too
  for (auto& c : cases()) {
    SCOPED_TRACE(c.what + ", " + how);
    const Function f = make(c.f);
    const auto error_of = [&](const Tensor& x) { return user_error([&] { f(x.to(device)).to_vector(); }); };
    EXPECT_EQ(error_of(c.good), user_error([] {}));
    for (auto& [x, says] : c.bad) {
      const std::string error = error_of(x);
      EXPECT_TRUE(contains(error, says)) << error << "\nexpected: " << says;
      EXPECT_EQ(error_of(c.good), user_error([] {})) << "after " << says;
    }
  }
}

Function at_once(const Function& f) { return f; }
Function compiled(const Function& f) { return compile(f); }
Function replayed(const Function& f) { return compile(f, {.mode = Mode::ReduceOverhead}); }
Function interpreted(const Function& f) { return compile(f, {.options = {{"backend", "reference"}}}); }

TEST(ValueChecks, AtOnce) { expect_refusals("eager", at_once); }
TEST(ValueChecks, Compiled) { expect_refusals("compiled", compiled); }
TEST(ValueChecks, Replayed) { expect_refusals("replayed", replayed); }
TEST(ValueChecks, Interpreted) { expect_refusals("interpreted", interpreted); }

TEST(ValueChecks, OnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  expect_refusals("eager", at_once, Device::cuda());
  expect_refusals("compiled", compiled, Device::cuda());
  expect_refusals("replayed", replayed, Device::cuda());
}

// Long rows, of which one in the middle of a vector and one in what remains behind it is wrong.
TEST(ValueChecks, EachElementIsLookedAt) {
  auto draw = compile([](const Tensor& p) { return ops::call1("multinomial", {p, Expr(1), false}); });
  const Tensor good = Tensor::full({9, 67}, 1, DType::F32);
  draw(good);
  for (int64_t at : {0, 5, 64, 66, 67, 301, 9 * 67 - 1}) {
    Tensor bad = Tensor::of(good.to_vector(), good.sizes());
    bad.data<float>()[at] = -1;
    EXPECT_TRUE(contains(user_error([&] { draw(bad); }), "multinomial: a probability is negative")) << at;
  }
  Tensor none = Tensor::of(good.to_vector(), good.sizes());
  for (int64_t i = 0; i < 67; ++i) none.data<float>()[5 * 67 + i] = 0;
  EXPECT_TRUE(contains(user_error([&] { draw(none); }), "drawn once: 0")) << "one row of zeros";
}

TEST(ValueChecks, RowsThatAreNoneAreNotLookedAt) {
  EXPECT_EQ(ops::call1("multinomial", {Tensor::full({0, 4}, 0, DType::F32), Expr(1), false}).numel(), 0);
}

TEST(ValueChecks, OptionSwitchesThemOff) {
  auto f = compile([](const Tensor& p) { return ops::call1("bernoulli", {p}); }, {.options = {{"check_indices", "0"}}});
  EXPECT_EQ(f(row({2, -1})).to_vector(), (std::vector<double>{1, 0}));
}

// Numbers are looked at when an operation is called.
TEST(ValueChecks, Numbers) {
  const Tensor x = row({1, 2}), bytes = row({1, 2}, DType::U8);
  const auto expect = [](const std::function<void()>& call, const char* says) {
    EXPECT_TRUE(contains(user_error(call), says)) << user_error(call) << "\nexpected: " << says;
  };
  expect([&] { ops::call1("bernoulli.p", {x, 2.0}); }, "must be in 0..1");
  expect([&] { ops::call1("bernoulli.p", {x, kNan}); }, "must be in 0..1");
  for (double bad : {-1.0, kNan}) {
    expect([&] { ops::call1("normal", {x, 0.0, bad}); }, "normal: std must not be negative");
    expect([&] { ops::call1("normal.Tensor_float", {x, bad}); }, "normal: std must not be negative");
    expect([&] { ops::call1("normal.float_float", {0.0, bad, std::vector<Expr>{2}}); }, "normal: std must not be negative");
    expect([&] { ops::call1("log_normal", {x, 0.0, bad}); }, "log_normal: std must be positive");
    expect([&] { ops::call1("cauchy", {x, 0.0, bad}); }, "cauchy: sigma must be positive");
    expect([&] { ops::call1("exponential", {x, bad}); }, "exponential: lambd must be positive");
    expect([&] { ops::call1("cdist", {Tensor::full({2, 2}, 1), Tensor::full({2, 2}, 1), bad}); }, "cdist: p must not be negative");
  }
  expect([&] { ops::call1("geometric", {x, 0.0}); }, "p must lie between 0 and 1");
  expect([&] { ops::call1("uniform", {x, 2.0, 1.0}); }, "uniform: expected finite bounds, the lower one first");
  expect([&] { ops::call1("uniform", {x, 0.0, kInf}); }, "uniform: expected finite bounds");
  expect([&] { ops::call1("random.to", {bytes, Expr(1000)}); }, "u8 holds no numbers from 0 up to 999");
  expect([&] { ops::call1("randint", {Expr(0), std::vector<Expr>{2}}); }, "is not below the upper bound");
  expect([&] { ops::call1("multinomial", {x, Expr(0), false}); }, "multinomial: 0 samples; expected one at least");
  expect([&] { ops::call1("multinomial", {x, Expr(3), false}); }, "3 samples without replacement from 2 choices");
}

// Reference kernels, which compiled programs call, too.
TEST(ValueChecks, HostCalls) {
  const auto expect = [](const std::function<Tensor(const Tensor&)>& f, const Tensor& bad, const char* says) {
    EXPECT_TRUE(contains(user_error([&] { f(bad); }), says)) << user_error([&] { f(bad); }) << "\nexpected: " << says;
    auto compiled = compile(f);
    EXPECT_TRUE(contains(user_error([&] { compiled(bad); }), says)) << user_error([&] { compiled(bad); }) << "\nexpected: " << says;
  };
  const auto histogram = [](const Tensor& x) { return ops::call1("histc", {x, Expr(4)}); };
  for (double bad : {kNan, kInf}) expect(histogram, row({1, 2, bad, 3}), "is not finite or empty");
  expect([](const Tensor& x) { return ops::call("histogram.bin_ct", {x, Expr(4)})[0]; }, row({1, 2, kNan, 3}), "is not finite or empty");
  expect([](const Tensor& x) { return ops::call1("bincount", {x}); }, row({1, -1}, DType::I64), "bincount: element 1 is -1");
  expect([](const Tensor& x) { return ops::call1("bincount", {x, Tensor(), Expr(-1)}); }, row({1, 1}, DType::I64), "minlength is -1");
  expect([](const Tensor& n) { return ops::call1("repeat_interleave.Tensor", {n}); }, row({1, -1}, DType::I64), "-1 repeats");
  expect(
      [](const Tensor& i) {
        return ops::call1("one_hot", {i, Expr(3)});
      },
      row({1, -1}, DType::I64), "one_hot: index -1 is out of range");
  const auto sums = [](const Tensor& n) { return ops::call1("segment_reduce", {row({1, 2, 3}), "sum", n}); };
  expect(sums, row({1, 1}, DType::I64), "add up to 2; expected 3");
  expect(sums, row({-1, 4}, DType::I64), "run 0 reaches from 0 to -1");
}

}  // namespace
}  // namespace toroid

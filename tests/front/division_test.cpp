// Integers divided by 0: on CPUs a UserError that says where, in eager calls, compiled code and the interpreter alike.
#include <gtest/gtest.h>

#include <limits>

#include "front/compile_model.h"
#include "front/harness.h"
#include "graph/interpreter.h"
#include "toroid/compile.h"

namespace toroid {
namespace {

using test::contains;
using test::user_error;
using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;

struct Division {
  std::string name;  // in errors
  std::function<Tensor(const Tensor&, const Tensor&)> by_tensor;
  std::function<Tensor(const Tensor&, int64_t)> by_number;
  std::function<int64_t(int64_t, int64_t)> value;
};

int64_t floored(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

Division division(const std::string& name, const std::string& scalar_overload, std::function<int64_t(int64_t, int64_t)> value) {
  return {name,
          [=](const Tensor& a, const Tensor& b) {
            return ops::call1(name == "floor_divide" ? name : name + ".Tensor", {a, b});
          },
          [=](const Tensor& a, int64_t b) {
            return ops::call1(name + scalar_overload, {a, Expr(b)});
          },
          std::move(value)};
}

std::vector<Division> divisions() {
  const std::string trunc = "trunc";
  return {
      division("remainder", ".Scalar", [](int64_t a, int64_t b) { return a - floored(a, b) * b; }),
      division("fmod", ".Scalar", [](int64_t a, int64_t b) { return a % b; }),
      division("floor_divide", ".Scalar", floored),
      {"trunc_divide",
       [=](const Tensor& a, const Tensor& b) {
         return ops::call1("div.Tensor_mode", {a, b, trunc});
       },
       [=](const Tensor& a, int64_t b) {
         return ops::call1("div.Scalar_mode", {a, Expr(b), trunc});
       },
       [](int64_t a, int64_t b) { return a / b; }},
  };
}

constexpr DType kIntegers[] = {DType::I8, DType::U8, DType::I16, DType::I32, DType::I64};

// Runs f in each of the three ways: the same error, or the same result.
void expect_alike(const test::Forward& f, const Tensors& in, const std::string& error) {
  const auto g = test::graph_of(f, in);
  auto model = front::compile_model(graph::clone(*g));
  const std::pair<const char*, std::function<Tensor()>> ways[] = {{"eager", [&] { return f(in); }},
                                                                  {"compiled", [&] { return model.run(in).at(0); }},
                                                                  {"interpreter", [&] { return graph::interpret(*g, in).at(0); }}};
  for (auto& [way, run] : ways) {
    const std::string said = user_error(run);
    EXPECT_TRUE(error.empty() ? said == "no error" : contains(said, error)) << way << ": " << said;
  }
}

TEST(Divisions, ByZeroAreRefused) {
  for (auto& d : divisions())
    for (DType t : kIntegers) {
      SCOPED_TRACE(fmt::format("{} {}", d.name, name_of(t)));
      const std::string error = fmt::format("{}: division of integers by zero", d.name);
      const Tensor a = Tensor::of({7, 5, 100, 3, 2, 9, 8, 6, 4}, {9}, t), row = Tensor::of({3, 2, 0}, {3}, t);
      for (const int64_t at : {0, 4, 8}) {
        std::vector<double> by(9, 3);
        by[static_cast<size_t>(at)] = 0;
        expect_alike([&](const Tensors& in) { return d.by_tensor(in[0], in[1]); }, {a, Tensor::of(by, std::vector<int64_t>{9}, t)}, error);
      }
      expect_alike([&](const Tensors& in) { return d.by_tensor(reshape(in[0], {3, 3}), in[1]); }, {a, row}, error);  // broadcast
      expect_alike([&](const Tensors& in) { return d.by_number(in[0], 0); }, {a}, error);
      expect_alike([&](const Tensors& in) { return d.by_number(in[0], 3); }, {a}, "");
      // Nothing is divided.
      expect_alike([&](const Tensors& in) { return d.by_tensor(slice(in[0], 0, 0, 0), slice(in[1], 0, 2, 2)); }, {a, row}, "");
    }
}

TEST(Divisions, NameTheirLine) {
  const Tensor a = Tensor::of({1, 2}, {2}, DType::I64), b = Tensor::of({1, 0}, {2}, DType::I64);
  expect_alike([](const Tensors& in) { return remainder(in[0], in[1]); }, {a, b}, "(called at division_test.cpp:");
}

// The memory of the operands has zeros, but not where something is divided.
TEST(Divisions, OnlyDivisorsThatAreReadCount) {
  const Tensor a = Tensor::of({1, 2, 3, 4}, {4}, DType::I64), b = Tensor::of({1, 0, 3, 0}, {4}, DType::I64);
  expect_alike([](const Tensors& in) { return remainder(slice(in[0], 0, 0, 3, 2), slice(in[1], 0, 0, 3, 2)); }, {a, b}, "");
  expect_alike([](const Tensors& in) { return cat({remainder(in[0], in[1] + 1), in[1]}, 0); }, {a, b}, "");
}

TEST(Divisions, OfTheSmallestNumberByMinusOne) {
  for (auto& d : divisions()) {
    const int64_t least = std::numeric_limits<int64_t>::min();
    Tensor a = Tensor::empty({9}, DType::I64), b = Tensor::empty({9}, DType::I64);
    for (int64_t i = 0; i < 9; ++i) a.data<int64_t>()[i] = i % 2 ? least : 7 - i, b.data<int64_t>()[i] = i % 2 ? -1 : i - 3;
    const auto f = [&](const Tensors& in) { return d.by_tensor(in[0], in[1]); };
    const auto g = test::graph_of(f, {a, b});
    const Tensors in = {a, b};
    for (const Tensor& found : {f(in), front::compile_model(graph::clone(*g)).run(in).at(0), graph::interpret(*g, in).at(0)})
      for (int64_t i = 0; i < 9; i += 2) EXPECT_EQ(found.data<int64_t>()[i], d.value(7 - i, i - 3)) << d.name << " " << i;
  }
}

TEST(Divisions, FloatsAreNotChecked) {
  const Tensor a = Tensor::of({1, 2}, {2}), b = Tensor::of({1, 0}, {2});
  for (auto& d : divisions()) expect_alike([&](const Tensors& in) { return d.by_tensor(in[0], in[1]); }, {a, b}, "");
}

// The option leaves the checks out: any number comes of it, and no harm.
TEST(Divisions, WithoutChecks) {
  const Tensor a = Tensor::of({1, 2}, {2}, DType::I64), b = Tensor::of({1, 0}, {2}, DType::I64);
  for (auto& d : divisions()) {
    CompileConfig config;
    config.options["check_indices"] = "0";
    auto f = compile([&](const Tensor& x, const Tensor& y) { return d.by_tensor(x, y); }, config);
    EXPECT_EQ(f(a, b).data<int64_t>()[0], d.value(1, 1)) << d.name;
  }
}

}  // namespace
}  // namespace toroid

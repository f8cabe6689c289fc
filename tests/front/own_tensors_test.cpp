// Tensors that a compiled function makes itself, without an operation, and writes to: each call begins with them as they were made, as an
// eager call does. What outlives the call keeps what was written to it.
#include <gtest/gtest.h>

#include <filesystem>

#include "front/harness.h"
#include "temp_folder.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

using OwnFn = std::function<Tensor(const Tensor&)>;

// x is [3].
const std::vector<std::pair<const char*, OwnFn>>& functions_with_own_tensors() {
  static const auto& all = *new std::vector<std::pair<const char*, OwnFn>>{
      {"full",
       [](auto& x) {
         Tensor z = Tensor::full({3}, 1);
         z += x;
         return z;
       }},
      {"of",
       [](auto& x) {
         Tensor z = Tensor::of({1, 2, 3}, {3});
         z *= x;
         return z + 1;
       }},
      {"from_vector, written through a view",
       [](auto& x) {
         Tensor z = Tensor::from_vector(std::vector<float>{1, 2, 3});
         copy_(slice(z, 0, 1), slice(z, 0, 1) + slice(x, 0, 1));
         return z;
       }},
      {"one-hot rows by index_put_",
       [](auto& x) {
         Tensor rows = Tensor::full({3, 10}, 0);
         index_put_(rows, {arange(3), to(x, DType::I64)}, ones({3}));
         return rows;
       }},
      {"written twice, read between",
       [](auto& x) {
         Tensor z = Tensor::full({3}, 1);
         z += x;
         const Tensor between = z * 2;
         z += x;
         return between + z;
       }},
      {"two of them",
       [](auto& x) {
         Tensor a = Tensor::full({3}, 1), b = Tensor::full({3}, 2);
         a += x, b += a;
         return a * b;
       }},
      {"in a loop",
       [](auto& x) {
         Tensor sum = Tensor::full({}, 0);
         for (int i = 0; i < 3; ++i) sum += x[i];
         return sum;
       }},
      {"a norm with running statistics",
       [](auto& x) {
         nn::BatchNorm1d norm(3, 1e-5, 0.5);
         norm.train();
         norm.forward(stack({x, x * 2}));
         return norm.running_mean + norm.running_var;
       }},
      {"gradients",
       [](auto& x) {
         const auto [value, slopes] = value_and_gradients(
             [&] {
               Tensor z = Tensor::full({3}, 1);
               z += x * x;
               return sum(z * z);
             },
             {x});
         return slopes[0] + value;
       }},
  };
  return all;
}

void expect_calls(const char* name, const OwnFn& fn, const OwnFn& compiled) {
  for (int i = 1; i <= 3; ++i) {
    const Tensor x = Tensor::full({3}, i);
    EXPECT_EQ(compiled(x).to_vector(), fn(x).to_vector()) << name << ", call " << i;
  }
}

TEST(OwnTensors, BeginEachCallAsTheyWereMade) {
  for (auto& [name, fn] : functions_with_own_tensors())
    for (bool dynamic : {false, true}) {
      auto compiled = compile(fn, {.fullgraph = true, .dynamic = dynamic});
      expect_calls(name, fn, [&](const Tensor& x) { return compiled(x); });
    }
}

TEST(OwnTensors, AlsoInPackages) {
  const test::TempFolder folder;
  for (auto& [name, fn] : functions_with_own_tensors()) {
    const auto path = folder.path / "own.tpk";
    save_package([&fn = fn](const std::vector<Tensor>& given) { return std::vector{fn(given[0])}; }, {Tensor::full({3}, 1)}, path.string());
    auto session = PackageFile::open(path).session();
    expect_calls(name, fn, [&](const Tensor& x) { return session.run({x})[0]; });
  }
}

TEST(OwnTensors, AcrossGraphBreaks) {
  for (auto& [name, fn] : functions_with_own_tensors()) {
    auto compiled = compile([&fn = fn](const Tensor& x) { return fn(x * x.to_vector()[0]); });
    expect_calls(
        name, [&fn = fn](const Tensor& x) { return fn(x * x.to_vector()[0]); }, [&](const Tensor& x) { return compiled(x); });
  }
}

// What the function leaves to somebody is written to.
TEST(OwnTensors, ThoseThatOutliveTheCallAreKept) {
  auto counts = compile([](const Tensor& x) {
    static Tensor total = Tensor::full({3}, 0);
    total += x;
    return total + 0;
  });
  std::vector<double> got;
  for (int i = 1; i <= 3; ++i) got.push_back(counts(Tensor::full({3}, i)).to_vector()[0]);
  EXPECT_EQ(got, (std::vector<double>{1, 3, 6}));

  Tensor cache;
  auto fills = compile([&](const Tensor& x) {
    if (!cache.defined()) cache = Tensor::full({3}, 0);
    cache += x;
    return cache + 0;
  });
  for (int i = 1; i <= 3; ++i) fills(Tensor::full({3}, i));
  EXPECT_EQ(cache.to_vector(), (std::vector<double>{6, 6, 6}));
}

}  // namespace
}  // namespace toroid

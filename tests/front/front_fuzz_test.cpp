// Random small functions, called with changing sizes, layouts, dtypes and aliases: guards must never let a variant serve a call that it
// was not made for. Each call is compared with the same function run eagerly on other memory that is laid out alike.
#include <algorithm>
#include <cmath>
#include <random>

#include "base/check.h"
#include "front/eager.h"
#include "front/harness.h"

namespace toroid {
namespace {

using namespace test;

struct Arguments {
  Tensor x, y, captured;
};

// How the tensors of one call lie in memory.
struct CallPlan {
  int64_t rows, columns;
  DType dtype;
  int x_layout, y_kind;

  explicit CallPlan(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<int64_t> from) { return from.begin()[random() % from.size()]; };
    rows = pick({3, 3, 4, 5, 6, 1, 2});
    columns = pick({3, 3, 4, 7, 1});
    dtype = random() % 5 ? DType::F32 : DType::F64;
    x_layout = static_cast<int>(random() % 4);
    y_kind = static_cast<int>(random() % 7);
  }

  // Two thirds of a row of 90 numbers are for x, the rest is for y. captured: of 1 x 3 numbers.
  Arguments make(const Tensor& captured) const {
    Tensor memory = Tensor::empty({200}, dtype);
    for (int64_t i = 0; i < 200; ++i) copy_elements(Tensor::full({}, static_cast<double>(i * 7 % 5 - 2) / 4, dtype), at(memory, {}, {}, i));
    const int64_t step = x_layout == 3 ? 2 : 1;
    Tensor x = x_layout == 1 ? at(memory, {rows, columns}, {1, rows}, 0) : at(memory, {rows, columns}, {columns * step, step}, 0);
    if (y_kind == 0) return {x, x, captured};                                             // the same tensor
    if (y_kind == 1) return {x, at(memory, {rows, columns}, {columns, 1}, 1), captured};  // overlaps
    if (y_kind == 2) return {captured, x, captured};                                      // what the function holds
    if (y_kind == 3) return {x, at(memory, {columns, rows}, {rows, 1}, 100), captured};
    if (y_kind == 4) return {x, at(memory, {rows, columns}, {1, rows}, 100), captured};
    return {x, at(memory, {rows, columns}, {columns, 1}, 100), captured};
  }

 private:
  static Tensor at(const Tensor& t, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t offset) {
    return t.as_strided(sizes, strides, offset);
  }
};

// A function of two matrices in 2 to 6 steps, which any sizes suit.
struct RandomFunction {
  std::vector<int> steps;
  explicit RandomFunction(std::mt19937& random) : steps(2 + random() % 5) {
    for (auto& s : steps) s = static_cast<int>(random() % 14);
  }

  std::pair<Tensor, Tensor> operator()(Tensor x, Tensor y, const Tensor& captured) const {
    for (int s : steps) {
      if (s == 0) x = x * 0.5 + 1;
      if (s == 1) x = x.size(0) == y.size(0) && x.size(1) == y.size(1) ? x * y : x + sum(y);
      if (s == 2) x = transpose(x, 0, 1);
      if (s == 3 && x.size(0) > 1) x = narrow(x, 0, 0, x.size(0) - 1);
      if (s == 4) add_(x, 1);
      if (s == 5) mul_(select(y, 0, 0), 2);
      if (s == 6) x = x - sum(x, 0, true) / 4;
      if (s == 7) x = matmul(x, transpose(x, 0, 1)) / 8;
      if (s == 8) x = cat({x, x}, 1);
      if (s == 9) x = x.size(0) > x.size(1) ? x + 0.25 : x * 0.75;
      if (s == 10) x = sum(x).item() > 1 ? x - 1 : x + 3;
      if (s == 11) x = x + sum(captured);
      if (s == 12) add_(captured, 0.5);
      if (s == 13) std::swap(x, y);
    }
    return {x, y};
  }
};

void expect_near(const Tensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(got.dtype(), want.dtype()) << what;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const auto g = got.to_vector(), w = want.to_vector();
  for (size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(g[i], w[i], 1e-4 * (1 + std::fabs(w[i]))) << what << ", element " << i;
}

void run(unsigned seed, int calls, const std::string& backend) {
  std::mt19937 random(seed);
  const RandomFunction function(random);
  const Tensor captured = Tensor::of({1, -2, 0.5}, {1, 3}), copy = Tensor::of({1, -2, 0.5}, {1, 3});
  auto f = compile([function, captured](const Tensor& x, const Tensor& y) { return function(x, y, captured); },
                   {.options = {{"backend", backend}, {"recompile_limit", "100"}}});
  for (int call = 0; call < calls; ++call) {
    const CallPlan plan(random);
    for (int again = 0; again < 2; ++again) {
      const auto before = f.report();
      const Arguments mine = plan.make(captured), other = plan.make(copy);
      const std::string what = fmt::format("seed {}, call {}: {} and {}", seed, call, to_string(mine.x), to_string(mine.y));
      auto [got_x, got_y] = f(mine.x, mine.y);
      auto [want_x, want_y] = function(other.x, other.y, other.captured);
      expect_near(got_x, want_x, what);
      expect_near(got_y, want_y, what);
      expect_near(mine.x, other.x, what + ", argument 0");
      expect_near(mine.y, other.y, what + ", argument 1");
      expect_near(captured, copy, what + ", the captured tensor");
      if (testing::Test::HasFatalFailure()) return;
      const bool reads = std::count(function.steps.begin(), function.steps.end(), 10) > 0;
      const auto compiles = f.report().compiles;
      EXPECT_TRUE(!again || reads || compiles == before.compiles) << what << ": a call like the one before compiled again";
    }
  }
}

TEST(FrontFuzz, NoCallIsServedByAWrongVariant) {
  auto& eager = front::EagerDispatcher::instance();
  eager.set_backend(front::find_backend("reference"));
  for (unsigned seed = 1; seed <= 60 && !HasFatalFailure(); ++seed) run(seed, 8, "reference");
  eager.set_backend(front::find_backend("compiled"));
}

}  // namespace
}  // namespace toroid

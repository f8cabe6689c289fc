// What a compiled call costs beside its kernels: microseconds of calls on tensors of a few elements.
//   bench_host_cost
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "toroid/compile.h"
#include "toroid/ops.h"

using namespace toroid;

namespace {

// Median and least microseconds of a call, over rounds of many calls.
template <class F>
void measure(const char* what, F&& call) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 51, kCalls = 2000;
  for (int i = 0; i < kCalls; ++i) call();
  std::vector<double> us;
  for (int r = 0; r < kRounds; ++r) {
    const auto start = Clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count() / kCalls);
  }
  std::sort(us.begin(), us.end());
  fmt::print("{:<58} {:>7.2f} us (least {:.2f})\n", what, us[kRounds / 2], us.front());
}

}  // namespace

int main() {
  const Tensor a = ones({16}), b = ones({16}), c = ones({16}), d = ones({16});
  auto sum = compile([](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& w) { return x + y + z + w; });
  measure("a call with 4 inputs of 16 elements, kernel included", [&] { sum(a, b, c, d); });
  auto first = compile([](const std::vector<Tensor>& parameters) { return parameters[0] * 2; });
  for (size_t count : {size_t{1}, size_t{101}}) {
    std::vector<Tensor> parameters;
    for (size_t i = 0; i < count; ++i) parameters.push_back(ones({16}));
    measure(count == 1 ? "a call with 1 tensor" : "the same with the guards of 100 tensors more", [&] { first(parameters); });
  }
}

// What a compiled call costs beside its kernels: microseconds of calls on tensors of a few elements.
//   bench_host_cost
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "compile/guards.h"
#include "toroid/compile.h"
#include "toroid/ops.h"
#include "trace/tracer.h"

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

// The guards of a call, apart from the rest of it.
void measure_guards(size_t count) {
  std::vector<Tensor> tensors;
  std::vector<const Tensor*> arguments;
  std::vector<int> positions;
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    tensors.push_back(ones({16, 16}));
    positions.push_back(static_cast<int>(i));
    names.push_back(fmt::format("parameter {}", i));
  }
  for (auto& t : tensors) arguments.push_back(&t);
  trace::Tracer tracer("guarded", nullptr);
  std::vector<Tensor> results;
  {
    trace::Tracer::Scope scope(&tracer);
    Tensor sum = tracer.argument(tensors[0], names[0], {});
    for (size_t i = 1; i < count; ++i) sum = sum + tracer.argument(tensors[i], names[i], {});
    results = {sum};
  }
  const trace::Segment segment = tracer.finish(std::move(results));
  const front::Guards guards(*segment.graph, arguments, positions, names, segment.writes_inputs);
  size_t held = 0;
  measure("the guards of 100 parameters alone", [&] { held += guards.hold(arguments); });
  if (held == 0) fmt::print("they do not hold\n");
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
    measure(count == 1 ? "a call with 1 tensor" : "the same with 100 tensors more", [&] { first(parameters); });
  }
  measure_guards(100);
}

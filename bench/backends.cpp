// Compares the backends of products and convolutions: each problem compiled once with the template and once with oneDNN, run in turns.
//   bench_backends
// One line a problem: fastest run of each in microseconds, and the ratio oneDNN / template of the medians of neighbouring turns (median,
// and in brackets its quartiles). OMP_WAIT_POLICY=passive in the environment keeps OpenMP's idle threads from spinning.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/options.h"
#include "extern/onednn/onednn.h"
#include "front/compile_model.h"
#include "toroid/error.h"
#include "toroid/nn.h"
#include "trace/tracer.h"

namespace {

using namespace toroid;
using Clock = std::chrono::steady_clock;
using Forward = std::function<Tensor(const Tensor&)>;

compiler::CompiledModel compile(const Forward& forward, const Tensor& input, const char* backend) {
  ScopedOption gemm("gemm_backends", backend), conv("conv_backends", backend);
  trace::Tracer tracer("backends", nullptr);
  std::vector<Tensor> results;
  {
    Tensor stand_in = tracer.argument(input, "input", {});
    trace::Tracer::Scope scope(&tracer);
    results = {forward(stand_in)};
  }
  return front::compile_model(std::move(tracer.finish(std::move(results)).graph));
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))];
}

// Microseconds of each run of a turn, but for the first, which finds cold caches.
std::vector<double> turn(compiler::CompiledModel& model, const Tensor& input) {
  constexpr auto kIdle = std::chrono::milliseconds(30);  // until the threads of the other backend sleep
  std::this_thread::sleep_for(kIdle);
  std::vector<double> us;
  const auto end = Clock::now() + std::chrono::milliseconds(40);
  do {
    auto start = Clock::now();
    model.run(std::vector<Tensor>{input});
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  } while (us.size() < 4 || Clock::now() < end);
  us.erase(us.begin());
  return us;
}

void measure(const std::string& name, const Forward& forward, const Tensor& input) {
  constexpr int kRounds = 30;
  auto own = compile(forward, input, "template"), library = compile(forward, input, "onednn");
  std::vector<double> ratios;
  double own_least = 1e30, library_least = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> a, b;
    if (round % 2 == 0) a = turn(own, input);
    b = turn(library, input);
    if (round % 2 == 1) a = turn(own, input);
    ratios.push_back(quantile(b, 0.5) / quantile(a, 0.5));
    own_least = std::min(own_least, quantile(a, 0));
    library_least = std::min(library_least, quantile(b, 0));
  }
  fmt::print("{:<44} template {:>8.1f} us, onednn {:>8.1f} us, ratio {:.2f} ({:.2f}-{:.2f})\n", name, own_least, library_least,
             quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75));
}

void measure_all() {
  fmt::print("oneDNN {}\n", external::onednn_version());
  struct Product {
    int64_t m, n, k;
  };
  for (auto [m, n, k] : {Product{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {1, 4096, 4096}, {1024, 1024, 1024}}) {
    nn::Linear layer(k, n, true, nn::Init(1));
    measure(
        fmt::format("linear {} x {} -> {}, gelu", m, k, n), [&](auto& x) { return gelu(layer(x)); }, nn::Init(2).normal({m, k}, 0, 1));
  }
  struct Window {
    int64_t channels, out, size, kernel, stride, groups;
  };
  for (auto [channels, out, size, kernel, stride, groups] : {Window{64, 64, 56, 3, 1, 1},
                                                             {64, 256, 56, 1, 1, 1},
                                                             {128, 128, 28, 3, 1, 1},
                                                             {256, 512, 56, 1, 2, 1},
                                                             {512, 512, 7, 3, 1, 1},
                                                             {96, 96, 28, 3, 1, 96}}) {
    nn::Conv2dOptions options{{stride, stride}, {kernel / 2, kernel / 2}, {1, 1}, groups};
    nn::Conv2d layer(channels, out, kernel, options, nn::Init(1));
    measure(
        fmt::format("convolution {}x{} -> {} {}x{}/{} groups {}, relu", channels, size, out, kernel, kernel, stride, groups),
        [&](auto& x) {
          return permute(relu(layer(permute(x, {0, 3, 1, 2}))), {0, 2, 3, 1});
        },  // channels last, as between layers
        nn::Init(2).normal({1, size, size, channels}, 0, 1));
  }
}

}  // namespace

int main() {
  try {
    measure_all();
  } catch (const EnvironmentError& e) {
    fmt::print("nothing to compare with: {}\n", e.what());
  } catch (const Error& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return 1;
  }
  return 0;
}

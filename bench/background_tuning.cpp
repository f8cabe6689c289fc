// Calls of a function while it is tuned beside them (option tune_in_background), and what is picked by that and by tuning at once:
//   bench_background_tuning
// One kernel thread. Lines of JSON: milliseconds of calls before, while and after, and the times of the tuned programs.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "toroid/compile.h"
#include "toroid/error.h"
#include "toroid/ops.h"
#include "toroid/options.h"

namespace {

using namespace toroid;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

struct Times {
  std::vector<double> ms;
  double at(double part) {
    std::sort(ms.begin(), ms.end());
    return ms.empty() ? 0 : ms[static_cast<size_t>(static_cast<double>(ms.size() - 1) * part)];
  }
};

// An MLP: products with what follows them.
struct Layers {
  std::vector<Tensor> w;
  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (auto& each : w) y = relu(linear(y, each));
    return y;
  }
};

template <class F>
Times calls(F& f, const Tensor& x, const std::function<bool(size_t)>& more) {
  Times out;
  while (more(out.ms.size())) {
    const auto start = Clock::now();
    f(x);
    out.ms.push_back(ms_since(start));
  }
  return out;
}

void print(const char* what, Times t) {
  fmt::print("{{\"calls\": \"{}\", \"number\": {}, \"median_ms\": {:.4f}, \"p99_ms\": {:.4f}, \"most_ms\": {:.3f}}}\n", what, t.ms.size(),
             t.at(0.5), t.at(0.99), t.at(1));
  std::fflush(stdout);
}

}  // namespace

int main() {
  try {
    set_option("threads", "1"), set_option("tune_database", "none"), set_option("cache_programs", "0");
    Layers layers;
    for (int64_t k = 0; k < 4; ++k) layers.w.push_back(randn({256 + 64 * (k + 1), 256 + 64 * k}));
    const Tensor x = randn({96, 256});
    const std::map<std::string, std::string> beside = {{"tune_in_background", "1"}};
    auto f = compile(layers, {.mode = Mode::MaxAutotune, .options = beside});
    const auto begin = Clock::now();
    f(x);
    fmt::print("{{\"first_result_ms\": {:.1f}}}\n", ms_since(begin));
    const auto tuning = [&] { return f.report().tuning.at(0).find("tuning beside") == 0; };
    size_t asked = 0;
    bool on = true;
    print("while it is tuned", calls(f, x, [&](size_t) {
            if (++asked % 64 == 0) on = tuning();  // asking takes time, too
            return on;
          }));
    print("after it", calls(f, x, [](size_t n) { return n < 3000; }));
    fmt::print("{}\n", to_string(f.report()));
    auto at_once = compile(layers, {.mode = Mode::MaxAutotune});
    const auto start = Clock::now();
    at_once(x);
    fmt::print("{{\"first_result_at_once_ms\": {:.1f}}}\n", ms_since(start));
    auto untuned = compile(layers);
    untuned(x);
    for (int round = 0; round < 5; ++round) {
      print("tuned at once", calls(at_once, x, [](size_t n) { return n < 1000; }));
      print("tuned beside", calls(f, x, [](size_t n) { return n < 1000; }));
      print("untuned", calls(untuned, x, [](size_t n) { return n < 1000; }));
    }
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "bench_background_tuning: {}\n", e.what());
    return 1;
  }
}

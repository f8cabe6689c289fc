// From a model file to its first result: bench_model_start MODEL INPUTS.safetensors
//
// One line a process: what this one met in the cache of programs decides what it measures. With a fresh TOROID_CACHE_DIR the first call is
// cold, and the second finds the program; TOROID_CACHE_PROGRAMS=0 leaves the kernels alone in the cache.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "base/stopwatch.h"
#include "toroid/cache.h"
#include "toroid/error.h"
#include "toroid/model.h"

namespace {

// Of all threads of the process: what others do on the machine is not in it.
double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace toroid;
  if (argc != 3) {
    fmt::print(stderr, "usage: bench_model_start MODEL INPUTS.safetensors\n");
    return 2;
  }
  try {
    std::vector<Tensor> inputs;
    for (auto& [name, t] : load_tensors(argv[2])) inputs.push_back(t);
    const double begin = processor_ms();
    Stopwatch watch;
    Model model = Model::load(argv[1]);
    const double ready = watch.lap(), ready_cpu = processor_ms() - begin;
    const auto results = model.run(inputs);
    const double first = watch.lap();
    std::vector<double> later;
    for (int i = 0; i < 20; ++i) model.run(inputs), later.push_back(watch.lap());
    std::sort(later.begin(), later.end());
    double sum = 0;
    for (auto& t : results)
      for (double v : t.to_vector()) sum += v;
    const auto c = program_cache_counters();
    fmt::print(
        "{}: ready in {:.2f} ms ({:.2f} ms of processors), first result after {:.2f} ms; a call takes {:.3f} ms (median of 20, least {:.3f}); sum {:.9g}\n",
        c.hits ? "found" : "compiled", ready, ready_cpu, ready + first, later[later.size() / 2], later[0], sum);
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

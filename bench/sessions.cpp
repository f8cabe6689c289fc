// Throughput of sessions of one package, side by side and while its weights are swapped:
//   bench_sessions MODEL IN.safetensors [SECONDS]
// One kernel thread, so that a call takes one processor. A line of JSON each: sessions, swaps a second, calls a second, milliseconds.
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/files.h"
#include "import/load_model.h"
#include "toroid/error.h"
#include "toroid/model.h"
#include "toroid/options.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace {

using namespace toroid;
using Clock = std::chrono::steady_clock;
using Tensors = std::map<std::string, Tensor>;

double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

// Parameters and buffers of the model that the package can swap.
Tensors weights_of(const std::string& model, const PackageFile& file) {
  const auto names = file.weights();
  Tensors out;
  const auto graph = import::load_model(model);
  for (auto& in : graph->inputs)
    if (in.data.defined() && std::find(names.begin(), names.end(), in.name) != names.end()) out[in.name] = in.data;
  return out;
}

void measure(const PackageFile& file, const std::vector<Tensor>& inputs, int sessions, double seconds, const Tensors& swapped) {
  std::vector<std::vector<double>> times(static_cast<size_t>(sessions));
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (auto& mine : times)
    threads.emplace_back([&, session = file.session()]() mutable {
      session.run(inputs);
      while (ms_since(start) < seconds * 1e3) {
        const auto call = Clock::now();
        session.run(inputs);
        mine.push_back(ms_since(call));
      }
    });
  int swaps = 0;
  while (!swapped.empty() && ms_since(start) < seconds * 1e3) file.swap_weights(swapped), ++swaps;
  for (auto& t : threads) t.join();
  std::vector<double> all;
  for (auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  if (all.empty()) throw UserError("no call ended within the time; give more seconds");
  fmt::print("{{\"sessions\": {}, \"swaps_per_s\": {:.2f}, \"calls_per_s\": {:.1f}, \"median_ms\": {:.3f}, \"p99_ms\": {:.3f}}}\n",
             sessions, swaps / seconds, static_cast<double>(all.size()) / seconds, all[all.size() / 2], all[all.size() * 99 / 100]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_sessions MODEL IN.safetensors [SECONDS]\n");
    return 2;
  }
  const auto folder = make_temp_dir("toroid-sessions");
  int code = 0;
  try {
    set_option("threads", "1");
    const double seconds = argc > 3 ? std::atof(argv[3]) : 5;
    const std::string path = folder / "m.tpk";
    PackageOptions swappable;
    swappable.swappable = true;
    save_package(argv[1], path, swappable);
    std::vector<Tensor> inputs;
    for (auto& [name, t] : load_tensors(argv[2])) inputs.push_back(t);
    const PackageFile file = PackageFile::open(path);
    for (int round = 0; round < 3; ++round) {
      for (int sessions : {1, 2}) measure(file, inputs, sessions, seconds, {});
      measure(file, inputs, 1, seconds, weights_of(argv[1], file));
    }
  } catch (const Error& e) {
    fmt::print(stderr, "bench_sessions: {}\n", e.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}

// How far equal things differ by the clock that tuning uses: replays of one recorded graph, graphs recorded anew, programs compiled anew
// (other memory, other addresses of code), one program on inputs that lie elsewhere, and what is left of the latter when each sample goes
// through several places; of small products with relu.
//   bench_timing_noise [cuda] [programs]
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "front/compile_model.h"
#include "toroid/nn.h"
#include "tune/measure/sampler.h"
#include "tune/measure/statistics.h"

namespace {

using namespace toroid;
using compiler::CompiledModel;

constexpr int kRecordings = 4, kReplays = 12;

double deviation(const std::vector<double>& v) {
  double mean = 0, square = 0;
  for (double x : v) mean += x / static_cast<double>(v.size());
  for (double x : v) square += (x - mean) * (x - mean);
  return std::sqrt(square / static_cast<double>(std::max<size_t>(1, v.size() - 1)));
}

std::vector<double> samples_of(CompiledModel& model, const Device& device, const std::vector<Tensor>& inputs,
                               const tune::SamplerOptions& how) {
  const tune::Sample sample =
      tune::time_executables([&](size_t) -> exec::Executable& { return model.executable(); }, 1, device, inputs, how);
  sample(0);
  std::vector<double> ns;
  for (int i = 0; i < kReplays; ++i) ns.push_back(sample(0));
  return ns;
}

// Copies, the i-th with gaps between them that no other has.
std::vector<Tensor> elsewhere(const std::vector<Tensor>& inputs, int i, const Device& device) {
  std::vector<Tensor> out, gaps;
  for (auto& t : inputs) {
    gaps.push_back(Tensor::empty({4096 * (1 + i * 7)}, DType::U8, device));
    out.push_back(Tensor::empty(t.sizes(), t.dtype(), device));
    copy_elements(t, out.back());
  }
  return out;
}

void measure(int64_t m, int64_t n, int64_t k, const Device& device, int programs, bool flush) {
  const DType dtype = device.is_cuda() ? DType::BF16 : DType::F32;
  const std::string text = fmt::format(
      "graph \"product\"(%a: {0}[{1}, {3}], %b: {0}[{3}, {2}]) {{\n  %c: {0}[{1}, {2}] = mm(%a, %b)\n  %d: {0}[{1}, {2}] = relu(%c)\n"
      "  return %d\n}}",
      name_of(dtype), m, n, k);
  const std::vector<Tensor> inputs = {nn::Init(1, dtype, device).normal({m, k}, 0, 1), nn::Init(2, dtype, device).normal({k, n}, 0, 1)};
  std::vector<CompiledModel> models;
  for (int i = 0; i < programs; ++i) models.push_back(front::compile_model(graph::parse(text), {.device = device}));
  tune::SamplerOptions one_place, many;
  one_place.most_places = 1;
  if (flush) one_place.flush_bytes = many.flush_bytes = tune::cache_bytes(device);
  std::vector<double> of_programs, of_recordings, of_replays, of_places, left;
  for (auto& model : models) {
    std::vector<double> centres;
    for (int r = 0; r < kRecordings; ++r) {
      const auto ns = samples_of(model, device, inputs, one_place);
      of_replays.push_back(deviation(ns));
      centres.push_back(tune::median(ns));
    }
    of_recordings.push_back(deviation(centres));
    of_programs.push_back(tune::median(centres));
  }
  for (int i = 0; i < programs; ++i) {
    of_places.push_back(tune::median(samples_of(models[0], device, elsewhere(inputs, i, device), one_place)));
    left.push_back(tune::median(samples_of(models[0], device, elsewhere(inputs, i, device), many)));
  }
  fmt::print("{:>20}{} {:9.0f} {:9.0f} {:9.0f} {:9.0f} {:9.0f} {:9.0f}\n", fmt::format("{} x {} x {}", m, n, k),
             flush ? " flushed" : "        ", tune::median(of_programs), tune::median(of_replays), tune::median(of_recordings),
             deviation(of_programs), deviation(of_places), deviation(left));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool cuda = argc > 1 && std::strcmp(argv[1], "cuda") == 0;
    const int programs = argc > 2 ? std::stoi(argv[2]) : 20;
    const Device device = cuda ? Device::cuda() : Device::cpu();
    fmt::print("deviations in ns of equal things:\n{:>20}         {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "m x n x k", "time, ns",
               "replays", "recorded", "compiled", "places", "left");
    using Shape = std::tuple<int64_t, int64_t, int64_t>;
    for (bool flush : {false, true})
      for (auto [m, n, k] : {Shape{16, 768, 768}, {16, 768, 3072}, {128, 768, 768}, {128, 4096, 256}, {1024, 3072, 768}})
        measure(m, n, k, device, programs, flush);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "bench_timing_noise: {}\n", e.what());
    return 1;
  }
}

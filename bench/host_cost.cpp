// What a compiled call costs beside its kernels: microseconds of calls on tensors of a few elements.
//   bench_host_cost        calls of compiled functions, and replayed calls on the CPU
//   bench_host_cost cuda   replayed calls on a GPU: until the host goes on
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "front/compile_model.h"
#include "front/guards.h"
#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/device_memory.h"
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

// A chain of products of 64 x 64, each a launch, that is replayed.
compiler::CompiledModel product_chain(const Device& device, int launches) {
  std::string text = "graph \"chain\"(%x0: f32[64, 64], %w: f32[64, 64]) {\n";
  for (int i = 0; i < launches; ++i) text += fmt::format("  %x{}: f32[64, 64] = mm(%x{}, %w)\n", i + 1, i);
  text += fmt::format("  return %x{}\n}}", launches);
  return front::compile_model(graph::parse(text), {.device = device, .mode = Mode::ReduceOverhead});
}

// What recordings take of a GPU's memory, beside their forecast.
void measure_memory(const Device& device) {
  constexpr int kPrograms = 16, kLaunches = 400;
  device::cuda::Gpu& gpu = device::cuda::gpu(device.index);
  std::vector<compiler::CompiledModel> models;
  const Tensor x = Tensor::full(std::vector<int64_t>{64, 64}, 0.01).to(device);
  for (int i = 0; i < kPrograms; ++i) {
    models.push_back(product_chain(device, kLaunches));
    models.back().run(std::vector<Tensor>{x, x});
  }
  release_captures(device);
  const CaptureReport before = capture_report(device);
  const auto free = static_cast<int64_t>(gpu.free_bytes());
  const auto reserved = static_cast<int64_t>(memory_stats(device).reserved);
  for (auto& m : models)
    for (int i = 0; i < 2; ++i) m.run(std::vector<Tensor>{x, x});
  synchronize(device);
  const CaptureReport after = capture_report(device);
  const int64_t pool = static_cast<int64_t>(memory_stats(device).reserved) - reserved;
  fmt::print("{} recordings of {} launches: {:.2f} MB forecast for graphs and {:.2f} MB for the pool; the device has {:.2f} MB less\n",
             after.recordings.size(), kLaunches, static_cast<double>(after.graphs_forecast - before.graphs_forecast) / 1e6,
             static_cast<double>(pool) / 1e6, static_cast<double>(free - static_cast<int64_t>(gpu.free_bytes())) / 1e6);
}

// Replayed calls, each of which waits until the one before has ended, untimed. fresh: the input and the result are elsewhere at each call.
void measure_replay(const Device& device, int launches, bool fresh) {
  using Clock = std::chrono::steady_clock;
  auto model = product_chain(device, launches);
  const Tensor w = Tensor::full(std::vector<int64_t>{64, 64}, 0.01).to(device);
  std::vector<Tensor> xs;
  for (int i = 0; i < 2; ++i) xs.push_back(Tensor::full(std::vector<int64_t>{64, 64}, 0.01).to(device));
  std::vector<std::vector<Tensor>> kept(2);
  std::vector<double> us;
  constexpr int kCalls = 400, kUntimed = 20;
  for (int i = 0; i < kCalls; ++i) {
    const std::vector<Tensor> inputs{fresh ? xs[static_cast<size_t>(i % 2)] : xs[0], w};
    if (!fresh) kept[0].clear();
    const auto start = Clock::now();
    auto results = model.run(inputs);
    if (i >= kUntimed) us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    kept[static_cast<size_t>(fresh ? i % 2 : 0)] = std::move(results);
    synchronize(device);
  }
  std::sort(us.begin(), us.end());
  const CaptureReport r = model.executable().captures();
  fmt::print("{:<58} {:>7.2f} us (least {:.2f}); {} addresses changed in {} calls\n",
             fmt::format("a replay of {} launches on {}{}", launches, to_string(device), fresh ? ", memory elsewhere" : ""),
             us[us.size() / 2], us.front(), r.counters.patches, r.counters.graph_launches);
}

// Replayed calls of a program that holds as many tensors as a decoder of 32 layers, right behind each other, and after other memory has
// taken the processor's caches, as milliseconds of other work do. On the CPU the kernel, which reads all tensors, is included.
void measure_cold_replay(const Device& device, size_t count) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kCalls = 101, kOther = size_t{64} << 20;
  const Tensor x = ones({16}).to(device);
  std::vector<Tensor> held;
  for (size_t i = 0; i < count; ++i) held.push_back(ones({16}).to(device));
  trace::Tracer tracer("holds", nullptr);
  std::vector<Tensor> results;
  {
    trace::Tracer::Scope scope(&tracer);
    Tensor sum = tracer.argument(x, "x", {});
    for (auto& t : held) sum = sum + t;
    results = {sum};
  }
  auto model = front::compile_model(std::move(tracer.finish(std::move(results)).graph), {.device = device, .mode = Mode::ReduceOverhead});
  std::vector<char> other(kOther);
  for (const bool cold : {false, true}) {
    std::vector<double> us;
    for (size_t i = 0; i < kCalls; ++i) {
      if (cold)
        for (size_t at = 0; at < kOther; at += 64) ++other[at];
      const auto start = Clock::now();
      model.run(std::vector<Tensor>{x});
      us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      synchronize(device);
    }
    std::sort(us.begin(), us.end());
    fmt::print("{:<58} {:>7.2f} us (least {:.2f})\n",
               fmt::format("a replay that holds {} tensors, caches {}", count, cold ? "cold" : "warm"), us[kCalls / 2], us.front());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Device device = argc > 1 ? device_from_name(argv[1]) : Device::cpu();
  for (int launches : {1, 10, 100})
    for (bool fresh : {false, true}) measure_replay(device, launches, fresh);
  for (size_t count : {2, 260}) measure_cold_replay(device, count);
  if (device.is_cuda()) {
    measure_memory(device);
    return 0;
  }
  const Tensor a = ones({16}), b = ones({16}), c = ones({16}), d = ones({16});
  auto add = [](const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& w) { return x + y + z + w; };
  auto sum = compile(add), replayed = compile(add, {.mode = Mode::ReduceOverhead});
  measure("a call with 4 inputs of 16 elements, kernel included", [&] { sum(a, b, c, d); });
  measure("the same, replayed", [&] { replayed(a, b, c, d); });
  auto first = compile([](const std::vector<Tensor>& parameters) { return parameters[0] * 2; });
  for (size_t count : {size_t{1}, size_t{101}}) {
    std::vector<Tensor> parameters;
    for (size_t i = 0; i < count; ++i) parameters.push_back(ones({16}));
    measure(count == 1 ? "a call with 1 tensor" : "the same with 100 tensors more", [&] { first(parameters); });
  }
  measure_guards(100);
}

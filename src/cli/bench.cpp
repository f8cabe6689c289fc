// toroid bench: what a model costs here, in whole and kernel by kernel.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/options.h"
#include "base/stopwatch.h"
#include "cli/bench_subject.h"
#include "cli/kernel_times.h"
#include "cli/machine_limits.h"
#include "cli/progress.h"
#include "device/memory.h"
#include "front/compile_model.h"
#include "jit/jit.h"
#include "package/package.h"

namespace toroid::cli {
namespace {

using compiler::CompiledModel;

constexpr double kMeasureMs = 3000;  // of timed runs, where the number of iterations is not given
constexpr int kLeastRuns = 3, kMostRuns = 100;

struct Times {
  double median = 0, least = 0, most = 0;
  size_t runs = 0;
  double host_us = 0;  // median until a call returns, which on a GPU is before its end
};

Times measure(CompiledModel& model, const std::vector<Tensor>& inputs, int iterations) {
  const Device device = model.executable().plan().device;
  std::vector<double> ms, host;
  auto run = [&] {
    const Stopwatch watch;
    model.run(inputs);
    host.push_back(watch.ms());
    synchronize(device);
    ms.push_back(watch.ms());
  };
  run();
  if (ms[0] < kMeasureMs) run(), run();
  ms.clear(), host.clear();
  const Stopwatch watch;
  auto enough = [&] {
    auto n = static_cast<int>(ms.size());
    if (iterations > 0) return n >= iterations;
    return n >= kMostRuns || (n >= kLeastRuns && watch.ms() > kMeasureMs);
  };
  while (!enough()) run();
  std::sort(ms.begin(), ms.end());
  std::sort(host.begin(), host.end());
  return {ms[ms.size() / 2], ms.front(), ms.back(), ms.size(), 1e3 * host[host.size() / 2]};
}

// Of the time of all steps, what those take that mode reduce-overhead records: 0 to 1.
double recorded_share(CompiledModel& model, const std::vector<KernelRow>& steps) {
  double all = 0, recorded = 0;
  for (auto& part : exec::cover(model.executable().plan(), 1).segments)
    for (size_t i = part.first; i < std::min(part.last, steps.size()); ++i) {
      all += steps[i].us;
      if (part.recorded) recorded += steps[i].us;
    }
  return all > 0 ? recorded / all : 0;
}

// A folder for kernels that goes away.
struct ScratchCache {
  std::filesystem::path path = make_temp_dir("toroid-bench");
  ~ScratchCache() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

// What it costs to begin: from a model with its weights where it keeps them to the end of the first call.
struct Start {
  double trace_ms = 0, compile_ms = 0, first_call_ms = 0;  // the first call waits for weights that are on their way to a GPU, or packed
  std::string times;                                       // of the compile
  double all() const { return trace_ms + compile_ms + first_call_ms; }
};

CompiledModel begin(const BenchSubject& subject, const ModelOptions& options, Start& start) {
  Stopwatch watch;
  auto g = subject.graph();
  start.trace_ms = watch.lap();
  CompiledModel model = front::compile_model(std::move(g), options);
  start.compile_ms = watch.lap();
  model.run(subject.inputs);
  synchronize(options.device);
  start.first_call_ms = watch.lap();
  start.times = compiler::time_text(model.report());
  return model;
}

struct Result {
  std::string description;
  std::vector<std::string> inputs;  // "f32[16, 3, 224, 224]"
  MachineLimits limits;
  bool frozen = false, replayed = false;
  Start cold, warm;  // with an empty cache of kernels, and with that which the first left
  compiler::CompileReport report;
  MemoryStats memory;  // while the compiled program runs, weights and inputs included
  Times compiled, eager;
  size_t eager_kernels = 0;
  std::vector<KernelRow> kernels;
  TracedCalls traced;
  bool records = false;  // in mode reduce-overhead
  double recorded_share = 0;
  CaptureReport captures;
};

std::string times_text(const Times& t) {
  return fmt::format("{:.3f} ms  (from {:.3f} to {:.3f}, {} runs)", t.median, t.least, t.most, t.runs);
}

// What the time of a call beside its kernels means for the mode. kernels_ms: of all kernels of a call.
std::string advice(const Result& r, double kernels_ms) {
  constexpr double kWorthwhile = 0.05;
  const double share = std::max(0.0, 1 - kernels_ms / r.compiled.median);
  std::string text = fmt::format("{:.0f}% of a call are launches and waiting, not kernels", 100 * share);
  if (r.replayed) return text;
  if (r.report.host_calls) return text + "; calls with library calls are not replayed as one";
  return text + (share > kWorthwhile ? "; --mode reduce-overhead replays them as one" : ": the default mode is good");
}

// name, calls, microseconds; the time within a call where that is known.
void print_row(const Result& r, const KernelRow& k, double all) {
  fmt::print("{:<56} {:>6} {:>10.1f} {:>5.1f}%", k.name.size() > 56 ? k.name.substr(0, 53) + "..." : k.name, k.calls, k.us,
             100 * k.us * static_cast<double>(k.calls) / all);
  if (!r.traced.call.empty()) fmt::print(" {:>9}", k.in_call_us < 0 ? std::string("-") : fmt::format("{:.1f}", k.in_call_us));
}

// "  encoder.fc1 (Linear) and 11 more".
std::string places_text(const KernelRow& k) {
  if (k.places.empty()) return "";
  return fmt::format("  {}{}", k.places[0], k.places.size() > 1 ? fmt::format(" and {} more", k.places.size() - 1) : "");
}

void print_kernels(const Result& r) {
  const bool traced = !r.traced.call.empty();
  double all = 0;
  for (auto& k : r.kernels) all += k.us * static_cast<double>(k.calls);
  if (!r.traced.method.empty()) fmt::print("\nin a call  {}", r.traced.method);
  if (traced)
    fmt::print(": {:.1f} us from the first kernel's begin to the last one's end, {:.1f} of them with a kernel", r.traced.span_us,
               r.traced.busy_us);
  fmt::print("\n{:<56} {:>6} {:>10} {:>6}{} {:>10} {:>10} {:>7} {:>8}  place\n", "kernel", "calls", traced ? "us alone" : "us a call",
             "share", traced ? "   in call" : "", "MB", "MFLOP", "GB/s", "GFLOP/s");
  for (auto& k : r.kernels) {
    print_row(r, k, all);
    if (k.host)
      fmt::print("  {:<37}", "bytes and operations are not known");
    else
      fmt::print(" {:>10.3f} {:>10.2f} {:>7.1f} {:>8.1f}", static_cast<double>(k.bytes) / 1e6, static_cast<double>(k.flops) / 1e6,
                 gb_per_s(k), gflop_per_s(k));
    fmt::print("{}\n", places_text(k));
  }
  fmt::print("{:<56} {:>6} {:>10.1f}\n", "all", r.report.kernels + r.report.host_calls, all);
  for (auto& k : r.traced.others)
    fmt::print("{:<56} {:>6} {:>10} {:>6} {:>9.1f}  (of libraries and copies)\n",
               k.name.size() > 56 ? k.name.substr(0, 53) + "..." : k.name, k.calls, "", "", k.in_call_us);
  fmt::print("\n{}\n", advice(r, all / 1e3));
}

void print_text(const Result& r) {
  fmt::print("{}\n", r.description);
  fmt::print("inputs     {}\n", fmt::join(r.inputs, ", "));
  if (!r.limits.gpu.empty())
    fmt::print("machine    {}, copies {:.0f} GB/s\n", r.limits.gpu, r.limits.copy_gb_per_s);
  else
    fmt::print("machine    {} threads, copies {:.1f} GB/s, f32 {:.0f} GFLOP/s\n", r.limits.threads, r.limits.copy_gb_per_s,
               r.limits.f32_gflop_per_s);
  for (auto& [name, start] : {std::pair("cold", &r.cold), std::pair("cached", &r.warm)})
    fmt::print("{:<10} {:.0f} ms to the end of the first call: trace {:.0f}, compile {:.0f} ({}), call {:.0f}\n", name, start->all(),
               start->trace_ms, start->compile_ms, start->times, start->first_call_ms);
  fmt::print("weights    {}\n", !r.frozen ? "as they are" : r.limits.gpu.empty() ? "packed" : "constant");
  fmt::print("kernels    {} a run ({} before fusion), {} library calls\n", r.report.kernels, r.report.kernels_unfused, r.report.host_calls);
  fmt::print("memory     at most {} in use, {} reserved, weights and inputs included\n", device::bytes_text(r.memory.peak),
             device::bytes_text(r.memory.peak_reserved));
  fmt::print("compiled   {}\n", times_text(r.compiled));
  if (!r.limits.gpu.empty()) fmt::print("host       {:.1f} us a call, before the GPU is done\n", r.compiled.host_us);
  if (r.eager.runs)
    fmt::print("eager      {}, {} kernels: {:.2f} times the compiled time\n", times_text(r.eager), r.eager_kernels,
               r.eager.median / r.compiled.median);
  if (r.records) fmt::print("recorded   {:.1f} % of the time of all kernels\n{}", 100 * r.recorded_share, to_string(r.captures));
  print_kernels(r);
}

std::string times_json(const Times& t) {
  return fmt::format("{{\"median_ms\":{:.4f},\"min_ms\":{:.4f},\"max_ms\":{:.4f},\"runs\":{},\"host_us\":{:.2f}}}", t.median, t.least,
                     t.most, t.runs, t.host_us);
}

std::string captures_json(const Result& r) {
  const CaptureReport& c = r.captures;
  return fmt::format(
      "{{\"steps\":{},\"steps_recorded\":{},\"parts\":{},\"time_share\":{:.4f},\"graph_launches\":{},\"host_launches\":{},\"host_calls\":{}"
      ","
      "\"input_copies\":{},\"patches\":{},\"exec_bytes\":{},\"pool_bytes\":{},\"skips\":{}}}",
      c.steps, c.steps_recorded, c.parts, r.recorded_share, c.counters.graph_launches, c.counters.host_launches, c.counters.host_calls,
      c.counters.input_copies, c.counters.patches, c.exec_bytes, c.pool_bytes, c.skips.size());
}

std::string in_call_json(const KernelRow& k) { return k.in_call_us < 0 ? "null" : fmt::format("{:.3f}", k.in_call_us); }

// How calls were traced, what was seen of them as wholes, and what is no step of theirs.
std::string traced_json(const TracedCalls& t) {
  if (t.method.empty()) return "null";
  std::string others;
  for (auto& k : t.others)
    others += fmt::format("{}{{\"name\":{},\"calls\":{},\"us_in_call\":{},\"bytes\":{}}}", others.empty() ? "" : ",", json_string(k.name),
                          k.calls, in_call_json(k), k.bytes);
  return fmt::format("{{\"method\":{},\"span_us\":{:.3f},\"busy_us\":{:.3f},\"others\":[{}]}}", json_string(t.method), t.span_us, t.busy_us,
                     others);
}

void print_json(const Result& r) {
  std::string kernels, inputs;
  for (auto& text : r.inputs) inputs += (inputs.empty() ? "" : ",") + json_string(text);
  for (auto& k : r.kernels) {
    std::string places;
    for (auto& place : k.places) places += (places.empty() ? "" : ",") + json_string(place);
    kernels += fmt::format(
        "{}{{\"name\":{},\"calls\":{},\"us\":{:.3f},\"us_in_call\":{},\"bytes\":{},\"flops\":{},\"gb_per_s\":{:.2f},"
        "\"gflop_per_s\":{:.2f},\"places\":[{}]}}",
        kernels.empty() ? "" : ",", json_string(k.name), k.calls, k.us, in_call_json(k), k.bytes, k.flops, gb_per_s(k), gflop_per_s(k),
        places);
  }
  fmt::print(
      "{{\"model\":{},\"inputs\":[{}],\"machine\":{{\"gpu\":{},\"threads\":{},\"copy_gb_per_s\":{:.2f},\"f32_gflop_per_s\":{:.1f}}},\"compile_ms\":{{"
      "\"cold\":{:.2f},"
      "\"cached\":{:.2f}}},\"first_call_done_ms\":{{\"cold\":{:.2f},\"cached\":{:.2f}}},\"frozen\":{},\"kernels_compiled\":{},\"launches\":"
      "{},\"launches_unfused\":{},\"host_calls\":{},\"memory_peak\":"
      "{},\"memory_reserved\":{},\"compiled\":{},"
      "\"eager\":{},\"eager_launches\":{},\"captures\":{},\"in_call\":{},\"kernels\":[{}]}}\n",
      json_string(r.description), inputs, json_string(r.limits.gpu), r.limits.threads, r.limits.copy_gb_per_s, r.limits.f32_gflop_per_s,
      r.cold.compile_ms, r.warm.compile_ms, r.cold.all(), r.warm.all(), r.frozen, r.report.kernels_compiled, r.report.kernels,
      r.report.kernels_unfused, r.report.host_calls, r.memory.peak, r.memory.peak_reserved, times_json(r.compiled),
      r.eager.runs ? times_json(r.eager) : "null", r.eager_kernels, r.records ? captures_json(r) : "null", traced_json(r.traced), kernels);
}

// Packing copies the weights: only where both fit.
bool room_for_packing(int64_t weight_bytes) {
  auto memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return 2.5 * static_cast<double>(weight_bytes) < memory;
}

}  // namespace

int bench(const BenchArgs& args) {
  if (std::filesystem::is_regular_file(args.model) && package::Package::is_package(args.model)) return bench_package(args);
  TOROID_USER_CHECK(args.entry.empty() && args.weights_folder.empty(), "--{} is of packages, {} is none",
                    args.entry.empty() ? "weights-folder" : "entry", args.model);
  if (args.threads > 0) set_option("threads", std::to_string(args.threads));
  Progress progress(!args.json);
  Result r;
  const Device device = device_from_name(args.device);
  progress.say("building the model");
  BenchSubject subject = make_subject(args);  // first: what is wrong with the call is said at once
  progress.say("measuring the machine");
  r.limits = device.is_cuda() ? measure_gpu(device.index) : measure_machine();
  r.description = subject.description;
  const Mode mode = mode_from_name(args.mode);
  r.replayed = records_calls(mode);
  r.frozen = !args.no_freeze && (device.is_cuda() || room_for_packing(subject.weight_bytes));
  for (Tensor& t : subject.inputs) {
    r.inputs.push_back(to_string(TensorType{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}}));
    t = t.to(device);
  }
  const ModelOptions options{.device = device, .mode = mode, .freeze = r.frozen};
  if (!args.no_eager) {
    progress.say("running one operation at a time");
    CompiledModel eager = front::compile_model(subject.graph(), {.device = device, .freeze = false, .fusion = Fusion::None});
    r.eager = measure(eager, subject.inputs, args.iterations);
    r.eager_kernels = eager.report().kernels + eager.report().host_calls;
  }
  // An empty cache, then the same one as another process would find it.
  ScratchCache cold, other;
  {
    progress.say("compiling");
    ScopedOption folder("cache_dir", cold.path.string());
    r.report = begin(subject, options, r.cold).report();
  }
  {
    ScopedOption folder("cache_dir", other.path.string());
    jit::shared_compiler();
  }
  ScopedOption folder("cache_dir", cold.path.string());
  CompiledModel model = begin(subject, options, r.warm);
  progress.say("running the compiled program");
  reset_peak_memory_stats(device);
  r.compiled = measure(model, subject.inputs, args.iterations);
  r.memory = memory_stats(device);
  const CaptureReport captures = model.executable().captures();
  progress.say("measuring each kernel");
  std::vector<KernelRow> steps = profile(model, subject.inputs);
  r.traced = trace_calls(model, subject.inputs, steps);
  r.kernels = sum_up(steps);
  if (!args.timeline.empty()) write_file_atomic(args.timeline, timeline_json(steps, r.traced));
  r.records = records_calls(mode);
  r.captures = captures;
  r.recorded_share = recorded_share(model, steps);
  progress.say("");
  if (args.json)
    print_json(r);
  else
    print_text(r);
  return kOk;
}

}  // namespace toroid::cli

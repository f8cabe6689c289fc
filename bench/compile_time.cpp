// What compiling a program of equal layers takes, stage by stage, and how it grows with their number: a llama of small width, a training
// step of it (forward, backward and AdamW) or its forward pass alone, from the trace to the kernels' texts, or to code that can run.
//   bench_compile_time [WORD...] [LAYERS...]
//   cpu: for this CPU, in place of a GPU of sm_90a, which need not be there    forward: without gradients and optimizer
//   code: up to a plan (for the CPU: a loaded one), each kernel compiled anew   rounds=N: in turns, N times; the table has the fastest
//   passes: each pass, too    nvrtc: compiles each distinct text, too, one after the other    layers: 4 16 64 unless told
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "base/stopwatch.h"
#include "compile/pipeline.h"
#include "exec/run/executable.h"
#include "front/backend.h"
#include "jit/nvrtc.h"
#include "toroid/compile.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/options.h"
#include "toroid/train/optimizers.h"

using namespace toroid;

namespace {

constexpr int64_t kTokens = 8192;

struct Task {
  bool cpu = false, forward = false, code = false;
};

struct Made {
  size_t nodes = 0, kernels = 0;
  compiler::CompileReport report;
  std::map<std::string, std::string> sources;  // names by text
  double all() const {
    double sum = 0;
    for (auto& stage : report.stages) sum += stage.ms;
    return sum;
  }
};

void compile_graph(std::unique_ptr<graph::Graph> graph, const CompileOptions& options, const Task& task, Made& out) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  const Device device = task.cpu ? Device::cpu() : Device::cuda();
  compiler::Job job = compiler::job_of("step", {.device = device, .options = options}, {}, task.cpu ? nullptr : &gpu);
  job.makes_code = task.code;
  auto kernels = compiler::advance<compiler::Kernels>(compiler::Imported{std::move(graph)}, job, out.report);
  out.nodes = out.report.graph_nodes, out.kernels = kernels.texts.size();
  for (auto& [node, text] : kernels.texts) out.sources.emplace(text.source, text.name);
  if (!task.code) return;
  exec::Loadable made = compiler::advance<exec::Loadable>(std::move(kernels), job, out.report);
  if (!task.cpu) return;
  const Stopwatch loading;
  exec::load(std::move(made.plan), made.store, device);
  out.report.stages.push_back({"loading", loading.ms()});
}

// A folder of its own for kernels, so that none is found there nor in memory.
class EmptyCache {
 public:
  EmptyCache() {
    std::string name = std::filesystem::temp_directory_path() / "compile_time_XXXXXX";
    TOROID_CHECK(mkdtemp(name.data()), "no folder for kernels");
    folder_ = name;
    set_option("cache_dir", name);
  }
  ~EmptyCache() {
    set_option("cache_dir", "");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

// A model, and what becomes of a step of it.
Made compiled_step(int64_t layers, const Task& task) {
  nn::LlamaConfig c;
  c.vocab_size = 4096, c.hidden_size = 512, c.intermediate_size = 2048, c.num_hidden_layers = layers, c.num_attention_heads = 8;
  c.num_key_value_heads = 2, c.max_position_embeddings = kTokens;
  nn::LlamaForCausalLM model(c, nn::Init(1, task.cpu ? DType::F32 : DType::BF16));
  model.train(!task.forward);
  train::AdamW optimizer(model.parameters(), {.lr = 1e-4});
  const std::vector<int64_t> sizes{1, kTokens};
  const Tensor tokens = Tensor::full(sizes, 1, DType::I64);

  Made out;
  double forward = 0, gradients = 0, update = 0;
  const Stopwatch all;
  front::register_backend("stages", [&](std::unique_ptr<graph::Graph> graph, const front::BackendOptions& options) {
    const double rest = all.ms() - forward - gradients - update;
    out.report.stages = {{"forward", forward}, {"gradients", gradients}, {"update", update}, {"entering", rest}};
    const size_t outputs = graph->outputs.size();
    compile_graph(std::move(graph), options.options, task, out);
    return [outputs](std::span<const Tensor>) { return std::vector<Tensor>(outputs, Tensor()); };
  });
  const auto logits = [&] {
    Stopwatch watch;
    Tensor result = model.forward(tokens, {});
    forward = watch.ms();
    return result;
  };
  const auto step = [&] {
    if (task.forward) return logits();
    Stopwatch watch;
    auto [loss, slopes] = value_and_gradients([&] { return cross_entropy(to(flatten(logits(), 0, 1), DType::F32), flatten(tokens)); },
                                              optimizer.parameters());
    gradients = watch.lap() - forward;
    optimizer.step(slopes);
    update = watch.lap();
    return loss;
  };
  compile(step, {.fullgraph = true, .options = {{"backend", "stages"}}})();
  return out;
}

// The texts that take NVRTC longest.
void print_nvrtc(const Made& made) {
  std::vector<std::pair<double, std::string>> times;
  double sum = 0;
  for (auto& [source, name] : made.sources) {
    const Stopwatch watch;
    jit::nvrtc_compile(source, "sm_90a", name);
    times.emplace_back(watch.ms(), name);
    sum += times.back().first;
  }
  std::sort(times.rbegin(), times.rend());
  fmt::print("  NVRTC: {} texts, {:.0f} ms\n", times.size(), sum);
  for (size_t i = 0; i < std::min<size_t>(times.size(), 8); ++i) fmt::print("  {:>6.0f} ms {}\n", times[i].first, times[i].second);
}

void print(int64_t layers, const Made& made, bool passes) {
  std::string stages;
  for (auto& [name, ms] : made.report.stages) stages += fmt::format(", \"{}\": {:.1f}", name, ms);
  fmt::print("{{\"layers\": {}, \"nodes\": {}, \"kernels\": {}, \"texts\": {}, \"ms\": {:.1f}{}}}\n", layers, made.nodes, made.kernels,
             made.sources.size(), made.all(), stages);
  if (!made.report.layers.empty()) fmt::print("  {}\n", made.report.layers);
  std::fflush(stdout);
  if (!passes) return;
  for (auto* list : {&made.report.passes.passes, &made.report.schedule.passes.passes})
    for (auto& p : *list)
      if (p.milliseconds > 0.01 * made.all()) fmt::print("  {} {:.1f} ms\n", p.name, p.milliseconds);
}

// The fastest of each stage, for the smallest and the largest number of layers.
void print_ratios(std::map<int64_t, std::vector<Made>>& made) {
  const auto fastest = [&](std::vector<Made>& list, auto time) {
    double least = time(list[0]);
    for (auto& m : list) least = std::min(least, time(m));
    return least;
  };
  auto &few = made.begin()->second, &many = made.rbegin()->second;
  const auto row = [&](const char* name, auto time) {
    const double a = fastest(few, time), b = fastest(many, time);
    fmt::print("{:<10} {:>8.1f} {:>8.1f} {:>7.2f}\n", name, a, b, b / a);
  };
  fmt::print("{:<10} {:>8} {:>8} {:>7}\n", "stage, ms", made.begin()->first, made.rbegin()->first, "ratio");
  for (size_t i = 0; i < few[0].report.stages.size(); ++i)
    row(few[0].report.stages[i].stage, [&](auto& m) { return m.report.stages[i].ms; });
  row("all", [](auto& m) { return m.all(); });
}

}  // namespace

int main(int argc, char** argv) {
  Task task;
  bool nvrtc = false, passes = false;
  int rounds = 1;
  std::vector<int64_t> layers;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "cpu")
      task.cpu = true;
    else if (word == "forward")
      task.forward = true;
    else if (word == "code")
      task.code = true;
    else if (word == "passes")
      passes = true;
    else if (word == "nvrtc")
      nvrtc = true;
    else if (word.rfind("rounds=", 0) == 0)
      rounds = std::stoi(word.substr(7));
    else
      layers.push_back(std::stoll(word));
  }
  if (layers.empty()) layers = {4, 16, 64};
  std::map<int64_t, std::vector<Made>> made;
  set_option("cache_programs", "0");
  for (int round = 0; round < rounds; ++round)
    for (const int64_t n : layers) {
      const EmptyCache cache;
      const Made& last = made[n].emplace_back(compiled_step(n, task));
      print(n, last, passes);
      if (nvrtc) print_nvrtc(last);
    }
  if (made.size() > 1) print_ratios(made);
  return 0;
}

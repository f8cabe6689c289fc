// Decoding with Llama, tensor-parallel over the GPUs of one host: milliseconds of a step of one token, from the call until its logits are
// there, beside what one GPU takes. Ranks are threads, or processes under `toroid launch`.
//   bench_gpu_decode_ranks [RANKS] [--layers N] [--check|--kernels]
// --check: instead, f32, few layers: the largest difference of logits from one GPU's, relative to the largest logit, and whether 100 greedy
// tokens are the same. --kernels: also, of one step of rank 0 (all ranks', where they are threads), the kernels and what they take.
// bf16, random weights, batch 1, position 1024 of a cache of 2048.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda/cupti.h"
#include "toroid/capture.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/nn.h"
#include "toroid/nn/models/llama.h"
#include "toroid/nn/parallel.h"

using namespace toroid;

namespace {

constexpr int64_t kCache = 2048, kPosition = 1024, kTokens = 100;
constexpr int kSteps = 60, kRounds = 3;
constexpr uint64_t kSeed = 11;

struct Arguments {
  int ranks = 2;
  int64_t layers = 32;
  bool check = false, kernels = false;
};

nn::LlamaConfig config_of(const Arguments& a) {
  nn::LlamaConfig c = nn::LlamaConfig::preset("llama-7b");
  c.num_hidden_layers = a.layers;
  return c;
}

// What decodes on one rank, whole or divided.
class Decoder {
 public:
  Decoder(const Arguments& a, DType dtype, const Device& device, const distributed::Mesh* mesh)
      : device_(device), model_(config_of(a), nn::Init(kSeed, dtype, device)) {
    if (mesh) nn::parallelize(model_, *mesh, {.tensor = "tp"});
    model_.allocate_cache(1, kCache);
    CompileConfig config;
    config.mode = Mode::ReduceOverhead;
    config.options = {{"freezing", "1"}};
    step_.emplace([this](const Tensor& ids, const Tensor& at) { return model_.forward_cached(ids, at); }, config);
  }
  // Logits of the token behind `id`, which stands at `position`.
  Tensor operator()(int64_t id, int64_t position) {
    const Tensor ids = Tensor::full(std::vector<int64_t>{1, 1}, static_cast<double>(id), DType::I64);
    const Tensor at = Tensor::full(std::vector<int64_t>{1}, static_cast<double>(position), DType::I64);
    return run(ids.to(device_), at.to(device_));
  }
  Tensor run(const Tensor& ids, const Tensor& at) { return (*step_)(ids, at); }
  const Device& device() const { return device_; }

 private:
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  const Device device_;
  nn::LlamaForCausalLM model_;
  std::optional<Compiled<Function>> step_;
};

double ms_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - t).count();
}

// Median milliseconds of a step; all ranks begin together where they share one.
double measure(Decoder& d, bool together) {
  const Tensor ids = Tensor::full(std::vector<int64_t>{1, 1}, 7, DType::I64).to(d.device());
  const Tensor at = Tensor::full(std::vector<int64_t>{1}, static_cast<double>(kPosition), DType::I64).to(d.device());
  for (int i = 0; i < 8; ++i) d.run(ids, at);
  std::vector<double> ms;
  for (int i = 0; i < kSteps; ++i) {
    synchronize(d.device());
    if (together) distributed::barrier();
    const auto start = std::chrono::steady_clock::now();
    const Tensor logits = d.run(ids, at);
    synchronize(d.device());
    ms.push_back(ms_since(start));
  }
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

// What a step launches, by kernel: how long after the end of the launch before each ends, as launches overlap.
void print_kernels(Decoder& d, bool together) {
  const Tensor ids = Tensor::full(std::vector<int64_t>{1, 1}, 7, DType::I64).to(d.device());
  const Tensor at = Tensor::full(std::vector<int64_t>{1}, static_cast<double>(kPosition), DType::I64).to(d.device());
  std::optional<device::cuda::ActivityTrace> trace;
  if (distributed::rank() == 0) trace.emplace();
  d.run(ids, at);
  synchronize(d.device());
  if (trace) trace->take();
  if (together) distributed::barrier();
  d.run(ids, at);
  synchronize(d.device());
  if (!trace) return;
  auto launches = trace->take();
  if (launches.empty()) return;
  std::sort(launches.begin(), launches.end(), [](auto& x, auto& y) { return x.end_ns < y.end_ns; });
  std::map<std::string, std::pair<int, double>> sums;  // with what ran before
  int64_t before = launches[0].start_ns;
  std::string last = "the start";
  for (auto& l : launches) {
    auto& [count, us] = sums[fmt::format("{} after {}", l.name, last)];
    ++count, us += static_cast<double>(l.end_ns - before) / 1e3;
    before = l.end_ns, last = l.name;
  }
  for (auto& [name, sum] : sums) fmt::print("  {:8.1f} us  {:4} x  {}\n", sum.second, sum.first, name);
  fmt::print("  {:8.1f} us from the first to the last\n", static_cast<double>(before - launches[0].start_ns) / 1e3);
}

int64_t best_of(const Tensor& logits) {
  const auto v = logits.to(Device::cpu()).to_vector();
  return std::max_element(v.begin(), v.end()) - v.begin();
}

void check(const Arguments& a, const distributed::Mesh& mesh, const Device& own) {
  Decoder divided(a, DType::F32, own, &mesh);
  Decoder whole(a, DType::F32, own, nullptr);
  int64_t mine = 1, its = 1, equal = 0;
  double worst = 0;
  for (int64_t i = 0; i < kTokens; ++i) {
    const Tensor x = divided(mine, i), y = whole(its, i);
    const auto v = x.to(Device::cpu()).to_vector(), w = y.to(Device::cpu()).to_vector();
    double most = 0, difference = 0;
    for (size_t k = 0; k < v.size(); ++k) most = std::max(most, std::fabs(w[k])), difference = std::max(difference, std::fabs(v[k] - w[k]));
    worst = std::max(worst, difference / most);
    mine = best_of(x), its = best_of(y);
    equal += mine == its;
  }
  fmt::print("rank {}: {} layers, f32: {} of {} greedy tokens are those of one GPU, logits differ by {:.2e} at most\n", distributed::rank(),
             a.layers, equal, kTokens, worst);
}

void body(const Arguments& a) {
  const Device own = Device::cuda(distributed::rank());
  const distributed::Mesh mesh({distributed::size()}, {"tp"});
  if (a.check) return check(a, mesh, own);
  std::optional<Decoder> whole;
  if (distributed::rank() == 0) whole.emplace(a, DType::BF16, own, nullptr);
  const auto start = std::chrono::steady_clock::now();
  Decoder divided(a, DType::BF16, own, &mesh);
  divided(7, kPosition);
  synchronize(own);
  const double first = ms_since(start);
  for (int r = 0; r < kRounds; ++r) {
    const double alone = whole ? measure(*whole, false) : 0;
    const double ms = measure(divided, true);
    if (distributed::rank() == 0)
      fmt::print("llama-7b decode, bf16, {} layers: {:.3f} ms on {} GPUs, {:.3f} ms on one ({:.2f}x)\n", a.layers, ms, distributed::size(),
                 alone, alone / ms);
  }
  if (a.kernels && whole) print_kernels(*whole, false);
  if (a.kernels) print_kernels(divided, true);
  const CaptureReport report = capture_report(own);
  for (auto& r : report.recordings)
    fmt::print("rank {}: a recording of {} kernels in {} part(s), {} replays\n", distributed::rank(), r.kernels, report.parts, r.replays);
  if (distributed::rank() == 0) fmt::print("weights, compile and first step: {:.1f} s\n", first / 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--check")
      a.check = true;
    else if (arg == "--kernels")
      a.kernels = true;
    else if (arg == "--layers" && i + 1 < argc)
      a.layers = std::stoll(argv[++i]);
    else
      a.ranks = std::stoi(arg);
  }
  try {
    if (!std::getenv("OMPI_COMM_WORLD_RANK")) {
      distributed::run_local(a.ranks, [&] { body(a); });
      return 0;
    }
    distributed::init();
    body(a);
    distributed::finalize();
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

// Matrix products on a GPU: Toroid's templates, as the compiler chooses and prints them, beside the best of cuBLASLt's heuristics.
//   bench_gpu_gemm [--epilogues | --gated] [--tiles [--match TEXT]] [--hot] [--zeros] [--source] [--as ARCHITECTURE] [--rounds N]
//   [--sustain MS] [--tf32] [--rows] [MxNxK | MxNxKf16 | MxNxKf32 ...]
// A line a product: median microseconds of both, TFLOP/s (GB/s of what must be moved where k or m is small), cuBLASLt's time over Toroid's.
// The two take turns. Each turn replays a graph of many launches, which go through sets of matrices that together exceed the caches (--hot:
// one set). Toroid's launches overlap their predecessor where the template does that; cuBLASLt's do not. Some rows of each result are
// compared with sums in float64.
//   --epilogues  also with relu, bias and gelu, bias and a residual, which cuBLASLt computes in its own epilogues
//   --gated      silu(a b) * (a b2) for two right operands of n columns; cuBLASLt computes the products only
//   --tiles      also every tile of the template for tensor cores whose description has the text, the fastest first
//   --sustain    so many milliseconds of each before it is timed
//   --source     the text of the kernels instead, for an H200 where there is no GPU
//   --as sm_80   with the templates of that architecture
//   --rows       the right operand is [k, n], not [n, k]; not with --gated
//   --tf32       products of f32 may round their operands to tf32, on both sides
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/scalar.h"
#include "codegen/cuda/generate.h"
#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "device/cuda/arguments.h"
#include "extern/cublaslt/cublaslt.h"
#include "gpu_gemm_shapes.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"

using namespace toroid;
using bench::GemmShape;

namespace {

enum class Epilogue { None, Relu, BiasGelu, BiasResidual, Gated };
constexpr Epilogue kEpilogues[] = {Epilogue::None, Epilogue::Relu, Epilogue::BiasGelu, Epilogue::BiasResidual, Epilogue::Gated};
constexpr const char* kEpilogueNames[] = {"", "relu", "bias gelu", "bias residual", "gated"};
// Columns of the right operands together.
int64_t columns_of(const GemmShape& s, Epilogue e) { return e == Epilogue::Gated ? 2 * s.n : s.n; }

struct Options {
  bool epilogues = false, gated = false, tiles = false, hot = false, zeros = false, source = false, tf32 = false, rows = false;
  std::string architecture, match;
  int rounds = 7, sustain_ms = 0;
  std::vector<GemmShape> shapes;
  bool wants(Epilogue e) const { return gated ? e == Epilogue::Gated : e == Epilogue::None || (epilogues && e != Epilogue::Gated); }
};

// Buffers: 0 a, 1 b, 2 out, 3 residual, 4 bias.
std::string epilogue_text(const GemmShape& s, Epilogue e) {
  std::string steps = "v0: f32 = accumulate\n";
  const std::string type(name_of(s.dtype));
  int last = 0;
  auto step = [&](const std::string& formula) { steps += fmt::format("v{}: f32 = {}\n", ++last, formula); };
  auto add = [&](const std::string& load) {
    const int sums = last;
    steps += fmt::format("v{}: {} = load {}\n", ++last, type, load);
    if (s.dtype != DType::F32) step(fmt::format("Cast v{}", last));
    step(fmt::format("Add v{} v{}", sums, last));
  };
  if (e == Epilogue::BiasResidual) add(fmt::format("%3 [i0*{} + i1]", s.n));
  if (e == Epilogue::BiasGelu || e == Epilogue::BiasResidual) add("%4 [i1]");
  if (e == Epilogue::Relu) {
    step("const 0");
    step("Max v0 v1");
  }
  if (e == Epilogue::Gated) {
    step("accumulate second");
    step("Sigmoid v0");
    step("Mul v0 v2");
    step("Mul v1 v3");
  }
  if (e == Epilogue::BiasGelu) {  // the approximation by tanh, cuBLASLt's
    const int x = last;
    step(fmt::format("Mul v{0} v{0}", x));
    step("const 0.044715");
    step(fmt::format("Mul v{} v{}", x + 1, x + 2));
    step("const 1");
    step(fmt::format("Add v{} v{}", x + 3, x + 4));
    step(fmt::format("Mul v{} v{}", x, x + 5));
    step("const 0.79788456080286536");
    step(fmt::format("Mul v{} v{}", x + 6, x + 7));
    step(fmt::format("Tanh v{}", x + 8));
    step(fmt::format("Add v{} v{}", x + 9, x + 4));
    step("const 0.5");
    step(fmt::format("Mul v{} v{}", x, x + 11));
    step(fmt::format("Mul v{} v{}", x + 10, x + 12));
  }
  if (s.dtype != DType::F32) {
    steps += fmt::format("v{}: {} = Cast v{}\n", last + 1, type, last);
    ++last;
  }
  steps += fmt::format("store %2 [i0*{} + i1] v{}\n", s.n, last);
  return fmt::format("loop (i0: {}, i1: {}) {{\n{}}}", s.m, s.n, steps);
}

program::Program program_of(const GemmShape& s, Epilogue e, const Options& options) {
  program::Program p;
  using Kind = loop::BufferKind;
  p.new_buffer("a", s.dtype, s.m * s.k, Kind::Input);
  p.new_buffer("b", s.dtype, columns_of(s, e) * s.k, Kind::Constant);
  p.new_buffer("out", s.dtype, s.m * s.n, Kind::Output);
  p.new_buffer("residual", s.dtype, s.m * s.n, Kind::Input);
  p.new_buffer("bias", s.dtype, s.n, Kind::Constant);
  program::Gemm g;
  g.m = s.m, g.n = s.n, g.k = s.k;
  g.a = {0, s.dtype, 0, {s.k, 1}};
  g.b = {1, s.dtype, 0, {1, s.k}};
  if (e == Epilogue::Gated) g.b2 = {1, s.dtype, s.n * s.k, {1, s.k}};
  if (options.rows) g.b.strides = {s.n, 1};
  g.tf32 = options.tf32 && s.dtype == DType::F32;
  loop::Nest nest = loop::parse(epilogue_text(s, e));
  program::Node node;
  node.problem = g;
  node.domain = nest.domain, node.body = nest.body;
  p.nodes.push_back(std::move(node));
  return p;
}

// A kernel of Toroid for one product.
struct Own {
  std::string name;  // of the tile or template
  codegen::KernelText text;
  std::string error;
  device::cuda::Kernel code;
};

struct Case {
  GemmShape shape;
  Epilogue epilogue = Epilogue::None;
  std::vector<Own> own;  // the chosen one, then with --tiles all others
};

std::string template_of(const codegen::KernelText& k) { return k.plan.substr(0, k.plan.find('\n')); }

Case case_of(const GemmShape& s, Epilogue e, const Options& options, const device::cuda::GpuInfo& gpu) {
  program::Program p = program_of(s, e, options);
  codegen::ConstantMemory constants;
  Case c{s, e, {}};
  auto add = [&](codegen::KernelText text) {
    std::string name = template_of(text);
    if (c.own.empty() || name.find(options.match) != std::string::npos) c.own.push_back({std::move(name), std::move(text), "", {}});
  };
  add(codegen::generate_cuda(p.nodes[0], p, gpu, constants));
  if (options.tiles && !gpu.is_hopper()) {
    const auto& g = std::get<program::Gemm>(p.nodes[0].problem);
    for (auto& t : codegen::mma_tiles(g)) add(codegen::generate_gemm_mma(p.nodes[0], g, t));
  }
  if (options.tiles && gpu.is_hopper() && s.m > 1) {
    const auto& g = std::get<program::Gemm>(p.nodes[0].problem);
    for (auto& t : codegen::wgmma_tiles(g)) {
      const double tiles = std::ceil(double(s.m) / t.block_m) * std::ceil(double(columns_of(s, e)) / t.block_n),
                   waves = tiles * t.split * t.slices / gpu.multiprocessors;
      if ((t.split * t.slices > 1 && (waves > 1 || waves < 0.3 || t.split * t.slices * 64 > s.k)) || (t.share > 1 && s.m <= t.block_m) ||
          (t.beside > 1 && s.n <= t.block_n) || (t.block_m > 128 && s.m <= 128) || waves > 40)
        continue;
      add(codegen::generate_gemm_wgmma(p.nodes[0], g, t, gpu.multiprocessors, true));
    }
  }
  return c;
}

void compile(std::vector<Case>& cases, device::cuda::Gpu& gpu) {
  std::vector<Own*> all;
  for (auto& c : cases)
    for (auto& o : c.own) all.push_back(&o);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      for (size_t i = next++; i < all.size(); i = next++) try {
          Own& o = *all[i];
          o.code = gpu.load(jit::nvrtc_compile(o.text.source, gpu.info().architecture, o.text.name), o.text.name, o.text.shared_bytes);
        } catch (const Error& e) {
          all[i]->error = e.what();
        }
    });
  for (auto& t : threads) t.join();
}

// Memory full of numbers in [-1, 1), of a period that the host knows.
class Pool {
 public:
  static constexpr size_t kPeriod = (size_t{16} << 20) + 4096;  // elements; rows of matrices differ
  Pool(device::cuda::Gpu& gpu, size_t bytes, bool zeros) : bytes_(bytes), zeros_(zeros), memory_(gpu.allocate(bytes)), gpu_(gpu) {}
  void fill(DType t) {
    if (filled_ == t) return;
    filled_ = t;
    const size_t period = kPeriod * size_of(t);
    values_.resize(period);
    uint32_t state = 1;
    for (size_t i = 0; i < kPeriod; ++i) {
      const float x = zeros_ ? 0.0f : static_cast<float>(static_cast<int32_t>(state = state * 1664525u + 1013904223u)) * 0x1p-31f;
      store_number(values_.data() + i * size_of(t), t, Number::of(static_cast<double>(x)));
    }
    gpu_.copy_in(memory_.get(), values_.data(), std::min(period, bytes_));
    for (size_t at = period; at < bytes_; at += period) gpu_.copy_within(place(at), memory_.get(), std::min(period, bytes_ - at));
  }
  char* place(size_t at) const { return static_cast<char*>(memory_.get()) + at; }
  double value(size_t element) const { return load_number(values_.data() + element % kPeriod * size_of(*filled_), *filled_).as_double(); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  bool zeros_;
  std::shared_ptr<void> memory_;
  device::cuda::Gpu& gpu_;
  std::optional<DType> filled_;
  std::vector<std::byte> values_;  // a period
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), gpu_(device::cuda::gpu(0)), in_(gpu_, size_t{3} << 29, options.zeros), out_(gpu_.allocate(kOutBytes)) {}

  int run() {
    std::vector<Case> cases;
    device::cuda::GpuInfo target = gpu_.info();
    if (!options_.architecture.empty()) target.architecture = options_.architecture;
    for (auto& s : options_.shapes)
      for (Epilogue e : kEpilogues)
        if (options_.wants(e)) cases.push_back(case_of(s, e, options_, target));
    compile(cases, gpu_);
    fmt::print("{}, cuBLASLt {}, inputs {}{}\n{:<20} {:<13} {:>9} {:>9} {:>6} {:>6} {:>6}  {}\n", gpu_.info().name,
               external::cublaslt_version(), options_.hot ? "in the cache" : "rotating", options_.zeros ? ", all zeros" : "", "m x n x k",
               "epilogue", "us", "cublaslt", "TF/s", "GB/s", "ratio", "template");
    std::vector<double> ratios[std::size(kEpilogues)];
    bool right = true;
    for (auto& c : cases) right &= measure(c, ratios[static_cast<size_t>(c.epilogue)]);
    for (Epilogue e : kEpilogues) {
      auto& r = ratios[static_cast<size_t>(e)];
      if (r.empty()) continue;
      double logs = 0;
      for (double x : r) logs += std::log(x);
      fmt::print("{:<13} geometric mean {:.3f} of {}, least {:.3f}, below 0.90: {}, at least 1: {}\n",
                 kEpilogueNames[static_cast<size_t>(e)], std::exp(logs / static_cast<double>(r.size())), r.size(),
                 *std::min_element(r.begin(), r.end()), std::count_if(r.begin(), r.end(), [](double x) { return x < 0.9; }),
                 std::count_if(r.begin(), r.end(), [](double x) { return x >= 1; }));
    }
    return right ? 0 : 1;
  }

 private:
  static constexpr size_t kOutBytes = size_t{1} << 30, kColdBytes = size_t{200} << 20, kAligned = 4096;
  static size_t aligned(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

  struct Set {
    size_t a = 0, b = 0, residual = 0, bias = 0;  // bytes into in_
    void* out = nullptr;
    std::vector<void*> buffers(const Pool& in) const { return {in.place(a), in.place(b), out, in.place(residual), in.place(bias)}; }
  };

  std::vector<Set> sets_of(const GemmShape& shape, Epilogue e) const {
    const GemmShape s{shape.m, columns_of(shape, e), shape.k, shape.dtype};
    const auto bytes = [&](int64_t rows, int64_t columns) { return aligned(static_cast<size_t>(rows * columns) * size_of(s.dtype)); };
    const size_t a = bytes(s.m, s.k), b = bytes(s.n, s.k), out = bytes(s.m, s.n), in = a + b + out + bytes(1, s.n);
    TOROID_CHECK(in <= in_.bytes() && out <= kOutBytes, "{}x{}x{} needs more memory than is there", s.m, s.n, s.k);
    size_t count = options_.hot ? 1 : std::min(in_.bytes() / in, kColdBytes / (a + b) + 1);
    std::vector<Set> sets(std::min<size_t>(count, 64));
    for (size_t i = 0; i < sets.size(); ++i) {
      const size_t at = i * in;
      sets[i] = {at, at + a, at + a + b, at + a + b + out, static_cast<char*>(out_.get()) + i % (kOutBytes / out) * out};
    }
    return sets;
  }

  // A graph of `count` launches, and the microseconds of one launch.
  using Launch = std::function<void(const Set&)>;
  std::unique_ptr<device::cuda::Graph> graph(const Launch& launch, const std::vector<Set>& sets, int count) {
    return gpu_.record([&] {
      for (int i = 0; i < count; ++i) launch(sets[static_cast<size_t>(i) % sets.size()]);
    });
  }
  double time_us(const device::cuda::Graph& g, int count) {
    return gpu_.time_ms([&] { gpu_.launch(g); }) * 1000 / count;
  }

  Launch launch_of(const Own& o) {
    return [this, &o](const Set& set) {
      std::vector<int64_t> params;
      for (auto& p : o.text.params) params.push_back(p.constant());
      const std::vector<void*> all = set.buffers(in_);
      std::vector<void*> pointers;
      for (int b : o.text.buffers) pointers.push_back(all[static_cast<size_t>(b)]);
      if (!(o.text.scratch_bytes == Expr(0))) pointers.push_back(scratch_.get());
      if (!(o.text.counters == Expr(0))) pointers.push_back(counters_.get());
      device::cuda::Arguments arguments(o.text.tensor_maps, params, pointers.size(), [](const Expr& e) { return e.constant(); });
      arguments.set_pointers(pointers);
      gpu_.launch(o.code, {o.text.tasks.constant(), o.text.block, o.text.shared_bytes, o.text.overlaps}, arguments.list());
    };
  }

  external::CublasLtProblem problem_of(const Case& c) const {
    const GemmShape& s = c.shape;
    external::CublasLtProblem p;
    p.dtype = p.out_dtype = s.dtype;
    p.tf32 = options_.tf32;
    p.m = s.m, p.n = columns_of(s, c.epilogue), p.k = s.k;
    p.a = {0, s.k, 1, 0}, p.b = {0, options_.rows ? p.n : 1, options_.rows ? 1 : s.k, 0}, p.out = p.addend = {0, p.n, 1, 0};
    p.has_addend = c.epilogue == Epilogue::BiasResidual;
    p.has_bias = p.has_addend || c.epilogue == Epilogue::BiasGelu;
    p.activation = c.epilogue == Epilogue::Relu       ? external::CublasLtActivation::Relu
                   : c.epilogue == Epilogue::BiasGelu ? external::CublasLtActivation::GeluTanh
                                                      : external::CublasLtActivation::None;
    return p;
  }

  Launch launch_of(const external::LibraryCall& call, Epilogue e) {
    return [this, &call, e](const Set& set) {
      std::vector<void*> buffers = set.buffers(in_);
      if (e != Epilogue::BiasResidual) std::swap(buffers[3], buffers[4]);
      call.run(buffers.data(), scratch_.get());
    };
  }

  // The largest error of some elements, relative to the length of the sum's terms.
  double error_of(const Case& c, const Set& set) {
    const GemmShape& s = c.shape;
    double worst = 0;
    const size_t size = size_of(s.dtype);
    std::vector<std::byte> row(static_cast<size_t>(s.n) * size);
    constexpr int64_t kRows = 6, kColumns = 24;
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t m = i == 0 ? 0 : i == 1 ? s.m - 1 : (i * 7919) % s.m;
      gpu_.copy_out(row.data(), static_cast<char*>(set.out) + static_cast<size_t>(m * s.n) * size, row.size());
      for (int64_t j = 0; j < kColumns; ++j) {
        const int64_t n = j == 0 ? 0 : j == 1 ? s.n - 1 : (j * 104729 + i * 31) % s.n;
        auto sum = [&](int64_t column) {
          double x = 0;
          for (int64_t k = 0; k < s.k; ++k)
            x += in_.value(set.a / size + static_cast<size_t>(m * s.k + k)) *
                 in_.value(set.b / size + static_cast<size_t>(options_.rows ? k * s.n + column : column * s.k + k));
          return x;
        };
        double want = sum(n);
        if (c.epilogue == Epilogue::Gated) want *= sum(s.n + n) / (1 + std::exp(-want));
        if (c.epilogue == Epilogue::BiasResidual) want += in_.value(set.residual / size + static_cast<size_t>(m * s.n + n));
        if (c.epilogue == Epilogue::BiasGelu || c.epilogue == Epilogue::BiasResidual)
          want += in_.value(set.bias / size + static_cast<size_t>(n));
        if (c.epilogue == Epilogue::Relu) want = std::max(want, 0.0);
        if (c.epilogue == Epilogue::BiasGelu) want *= 0.5 * (1 + std::tanh(0.79788456080286536 * (want + 0.044715 * want * want * want)));
        const double got = load_number(&row[static_cast<size_t>(n) * size], s.dtype).as_double();
        const double error = std::fabs(got - want) / (std::sqrt(static_cast<double>(s.k)) / 3 + std::fabs(want));
        if (!(error <= worst)) worst = error;
      }
    }
    return worst;
  }

  // Runs it once on memory full of NaN.
  double check(const Case& c, const Launch& launch, const Set& set) {
    const size_t bytes = static_cast<size_t>(c.shape.m * c.shape.n) * size_of(c.shape.dtype);
    gpu_.copy_in(set.out, std::vector<uint8_t>(bytes, 0xff).data(), bytes);
    launch(set);
    return error_of(c, set);
  }

  bool measure(Case& c, std::vector<double>& ratios) {
    const GemmShape& s = c.shape;
    in_.fill(s.dtype);
    const std::vector<Set> sets = sets_of(s, c.epilogue);
    const auto columns = double(columns_of(s, c.epilogue));
    const double flops = 2.0 * double(s.m) * columns * double(s.k),
                 bytes = double(size_of(s.dtype)) * (double(s.m) * double(s.k) + columns * double(s.k) + double(s.m) * double(s.n));
    const double guess = std::max(flops / 650e6, bytes / 3.5e6) + 3;
    const int count = std::clamp(static_cast<int>((flops > 2e11 ? 6000 : 1200) / guess), 4, 300);
    const std::string size = fmt::format("{}x{}x{}{}", s.m, s.n, s.k, s.dtype == DType::BF16 ? "" : fmt::format(" {}", name_of(s.dtype)));
    bool right = true;
    struct Timed {
      std::string name;
      double us;
      std::unique_ptr<device::cuda::Graph> graph;
    };
    auto timed = [&](const std::string& name, const Launch& launch) {
      Timed t{name, 0, graph(launch, sets, count)};
      // A GPU at its limit of power is slower than in its first milliseconds.
      for (double spent = 0; spent <= options_.sustain_ms * 1000;) spent += 1 + time_us(*t.graph, count) * count;
      t.us = std::min(time_us(*t.graph, count), time_us(*t.graph, count));
      return t;
    };
    std::vector<Timed> own, other;
    for (auto& o : c.own) {
      if (!o.error.empty()) {
        fmt::print("{} {}: {}\n", size, o.name, o.error.substr(0, 600));
        right = false;
        continue;
      }
      const Launch launch = launch_of(o);
      const double error = check(c, launch, sets[0]);
      const double allowed = s.dtype == DType::BF16 ? 1e-2 : s.dtype == DType::F16 || options_.tf32 ? 3e-3 : 1e-5;
      if (!(error < allowed)) {
        fmt::print("{} {} {}: WRONG, error {:.2e}\n", size, kEpilogueNames[static_cast<size_t>(c.epilogue)], o.name, error);
        right = false;
        continue;
      }
      own.push_back(timed(o.name, launch));
    }
    constexpr int kHeuristics = 8;
    const auto calls = external::prepare_cublaslt(problem_of(c), gpu_, kHeuristics);
    for (auto& call : calls) {
      const Launch launch = launch_of(*call, c.epilogue);
      if (c.epilogue == Epilogue::Gated)
        launch(sets[0]);  // another result
      else if (const double error = check(c, launch, sets[0]); !(error < 1.5e-2))
        fmt::print("{}: cuBLASLt's error is {:.2e}\n", size, error);
      other.push_back(timed("", launch));
    }
    if (own.empty() || other.empty()) return right;
    auto least = [](const Timed& x, const Timed& y) { return x.us < y.us; };
    const Timed& best = *std::min_element(other.begin(), other.end(), least);
    std::vector<double> mine, theirs;
    for (int i = 0; i < options_.rounds; ++i) {
      mine.push_back(time_us(*own[0].graph, count));
      theirs.push_back(time_us(*best.graph, count));
    }
    const double us = median(mine), peer = median(theirs);
    ratios.push_back(peer / us);
    fmt::print("{:<20} {:<13} {:>9.2f} {:>9.2f} {:>6.0f} {:>6.0f} {:>6.3f}  {}\n", size, kEpilogueNames[static_cast<size_t>(c.epilogue)],
               us, peer, flops / us * 1e-6, bytes / us * 1e-3, peer / us, own[0].name);
    std::stable_sort(own.begin() + 1, own.end(), least);
    for (size_t i = 1; i < std::min<size_t>(own.size(), 7); ++i) fmt::print("    {:.2f} {}\n", own[i].us, own[i].name);
    std::fflush(stdout);
    return right;
  }

  const Options& options_;
  device::cuda::Gpu& gpu_;
  Pool in_;
  std::shared_ptr<void> out_, scratch_ = gpu_.allocate(size_t{64} << 20), counters_ = [this] {
    auto zeros = gpu_.allocate(1 << 20);
    gpu_.fill_zero(zeros.get(), 1 << 20);
    return zeros;
  }();
};

GemmShape parse_shape(const std::string& text) {
  long long m = 0, n = 0, k = 0;
  char type[8] = "";
  if (std::sscanf(text.c_str(), "%lldx%lldx%lld%7s", &m, &n, &k, type) < 3 || m < 1 || n < 1 || k < 1)
    fail<UserError>("\"{}\" is no product: expected MxNxK, MxNxKf16 or MxNxKf32", text);
  return {m, n, k, std::strcmp(type, "f16") == 0 ? DType::F16 : std::strcmp(type, "f32") == 0 ? DType::F32 : DType::BF16};
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--epilogues")
      o.epilogues = true;
    else if (word == "--gated")
      o.gated = true;
    else if (word == "--tiles")
      o.tiles = true;
    else if (word == "--hot")
      o.hot = true;
    else if (word == "--zeros")
      o.zeros = true;
    else if (word == "--rows")
      o.rows = true;
    else if (word == "--tf32")
      o.tf32 = true;
    else if (word == "--source")
      o.source = true;
    else if (word == "--as" && i + 1 < argc)
      o.architecture = argv[++i];
    else if (word == "--sustain" && i + 1 < argc)
      o.sustain_ms = std::max(0, std::atoi(argv[++i]));
    else if (word == "--match" && i + 1 < argc)
      o.match = argv[++i];
    else if (word == "--rounds" && i + 1 < argc)
      o.rounds = std::max(1, std::atoi(argv[++i]));
    else
      o.shapes.push_back(parse_shape(word));
  }
  if (o.shapes.empty()) o.shapes.assign(std::begin(bench::kGemmShapes), std::end(bench::kGemmShapes));
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    if (options.source) {
      device::cuda::GpuInfo target;
      if (!options.architecture.empty()) target.architecture = options.architecture;
      for (auto& s : options.shapes)
        for (Epilogue e : kEpilogues)
          if (options.wants(e))
            for (auto& o : case_of(s, e, options, target).own) fmt::print("// {}\n{}\n", o.name, o.text.source);
      return 0;
    }
    if (cuda_device_count() == 0) {
      fmt::print("no GPU here: nothing measured\n");
      return 0;
    }
    return Bench(options).run();
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

// Convolutions of ResNet-50 on a GPU, with bias and relu: each distinct layer with every tile of the template, and by cuDNN where it is.
//   bench_gpu_convolutions [batch [f16 | f32 | tf32 [chosen]]]     one line a layer: microseconds of one of many launches in a graph, by
//   tile
// tf32: of f32 that may be rounded to it. chosen: what the rule chooses, and cuDNN, alone.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "codegen/cuda/generate.h"
#include "codegen/cuda/templates/conv_gemm.h"
#include "codegen/cuda/templates/conv_wgmma.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "device/cuda/arguments.h"
#include "device/cuda/gpu.h"
#include "extern/cudnn/cudnn.h"
#include "jit/jit.h"
#include "resnet50_layers.h"
#include "toroid/device.h"

using namespace toroid;

namespace {

struct Options {
  DType dtype = DType::F16;
  bool tf32 = false, all = true;
};

enum Buffer { kInput, kWeight, kBias, kResult };

// relu(convolution + bias) over channels-last memory; the first layer reads channels first.
program::Node node_of(const ResNetLayer& l, int64_t batch, const Options& o) {
  program::Convolution c;
  c.n = batch, c.in_channels = l.in, c.out_channels = l.out, c.in_h = c.in_w = l.size;
  c.kernel_h = c.kernel_w = l.kernel, c.stride_h = c.stride_w = l.stride, c.pad_h = c.pad_w = l.kernel / 2;
  c.out_h = c.out_w = (l.size - 1) / l.stride + 1;
  c.tf32 = o.tf32;
  c.input = {kInput, o.dtype, 0, {l.size * l.size * l.in, 1, l.size * l.in, l.in}};
  if (l.in < 8) c.input.strides = {l.size * l.size * l.in, l.size * l.size, l.size, 1};
  c.weight = {kWeight, o.dtype, 0, {l.in * l.kernel * l.kernel, l.kernel * l.kernel, l.kernel, 1}};
  program::Node node;
  std::vector<Expr> at;
  for (const Expr& size : {c.n, Expr(c.out_channels), c.out_h, c.out_w}) {
    const Expr var = sym::loop_symbol("i" + std::to_string(at.size()), size);
    node.domain.vars.push_back({var, false});
    at.push_back(size == Expr(1) ? Expr(0) : var);
  }
  loop::BodyBuilder b(node.body);
  const S sum = b.accumulator(DType::F32) + cast(b.load(kBias, o.dtype, at[1]), DType::F32);
  b.store(kResult, o.dtype, ((at[0] * c.out_h + at[2]) * c.out_w + at[3]) * Expr(c.out_channels) + at[1],
          maximum(sum, b.constant(DType::F32, Number::of(0.0))));
  node.problem = c;
  return node;
}

struct Variant {
  std::string name;
  codegen::KernelText text;
  std::string cubin;
};

std::vector<Variant> variants(const program::Node& node, program::Program& program, codegen::ConstantMemory& constants,
                              const device::cuda::GpuInfo& gpu, bool all) {
  const auto& c = std::get<program::Convolution>(node.problem);
  std::vector<Variant> out;
  auto add = [&](std::string name, codegen::KernelText text) { out.push_back({std::move(name), std::move(text), {}}); };
  add("chosen", codegen::generate_cuda(node, program, gpu, constants));
  if (!all) return out;
  if (codegen::conv_product_refusal(node, c).empty())
    add("product", codegen::generate_cuda(codegen::conv_as_product(node, c), program, gpu, constants));
  const int weight = codegen::conv_packed_weight(c, program, constants);
  if (gpu.is_hopper() && codegen::conv_wgmma_refusal(c).empty()) {
    const program::Gemm g = codegen::conv_implicit_product(c);
    std::vector<codegen::WgmmaTile> tiles = codegen::wgmma_tiles(g, true);
    tiles.push_back(codegen::choose_wgmma_tile(
        g, {.m = g.m.constant(), .n = c.out_channels, .k = codegen::conv_k(c), .processors = gpu.multiprocessors, .window = true}));
    for (int n : {32, 64}) tiles.push_back({64, n, n == 32 ? 8 : 6, 8, 1});
    const bool small = g.m.constant() * c.out_channels < int64_t{132} * 128 * 128;
    for (auto& t : tiles)
      if ((small ? t.block_m == 64 && t.block_n <= 128 : t.split == 1) && t.split <= (codegen::conv_k(c) + 63) / 64)
        add(fmt::format("g{}x{}s{}", t.block_m, t.block_n, t.split), codegen::generate_conv_wgmma(node, c, weight, t, gpu.multiprocessors));
    return out;
  }
  for (const auto& t : codegen::conv_gemm_tiles(c, gpu.is_hopper()))
    add(fmt::format("{}x{}w{}{}s{}", t.block_m, t.block_n, t.warps_m * t.warps_n, t.warps_k > 1 ? "k" + std::to_string(t.warps_k) : "",
                    t.split),
        codegen::generate_conv_gemm(node, c, weight, t, gpu.is_hopper()));
  return out;
}

// Numbers of either sign from 1/16 to 1/8.
std::vector<std::byte> noise(size_t count, DType t, uint32_t state) {
  std::vector<std::byte> bytes(count * size_of(t));
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t x = t == DType::F32 ? 0x3d800000u | (state & 0x807fffffu) : 0x2c00u | (state >> 16 & 0x83ffu);
    std::memcpy(bytes.data() + i * size_of(t), &x, size_of(t));
  }
  return bytes;
}

constexpr size_t kLaunches = 24;

double time_us(device::cuda::Gpu& gpu, const std::function<void(size_t)>& launch) {
  const auto graph = gpu.record([&] {
    for (size_t i = 0; i < kLaunches; ++i) launch(i);
  });
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) times.push_back(1000 * gpu.time_ms([&] { gpu.launch(*graph); }) / kLaunches);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Of the fastest of cuDNN's algorithms, and how many it has. channels: of the input, where that has more.
std::pair<double, size_t> cudnn_us(device::cuda::Gpu& gpu, const ResNetLayer& l, int64_t batch, int64_t channels, const Options& options,
                                   const std::vector<std::shared_ptr<void>>& memory, size_t sets) {
  external::CudnnProblem p;
  p.dtype = options.dtype, p.tf32 = options.tf32, p.has_bias = p.relu = true;
  p.n = batch, p.in_channels = channels, p.out_channels = l.out, p.in_h = p.in_w = l.size;
  p.window = {{l.kernel, l.kernel}, {l.stride, l.stride}, {l.kernel / 2, l.kernel / 2}, {1, 1}};
  p.out_h = p.out_w = (l.size - 1) / l.stride + 1;
  const auto calls = external::prepare_cudnn(p, gpu, 8);
  double best = 0;
  for (auto& call : calls) {
    const auto scratch = gpu.allocate(static_cast<size_t>(call->scratch_bytes()) + 1);
    const double us = time_us(gpu, [&](size_t i) {
      void* buffers[4];
      const size_t order[] = {kInput, kWeight, kResult, kBias};
      for (size_t b = 0; b < 4; ++b) buffers[b] = memory[order[b] * sets + i % sets].get();
      call->run(buffers, scratch.get());
    });
    if (best == 0 || us < best) best = us;
  }
  return {best, calls.size()};
}

// Microseconds of a launch among many in a graph.
double time_us(device::cuda::Gpu& gpu, const Variant& v, const std::vector<std::shared_ptr<void>>& memory, size_t sets) {
  const codegen::KernelText& k = v.text;
  const device::cuda::Kernel code = gpu.load(v.cubin, k.name, k.shared_bytes);
  std::vector<std::shared_ptr<void>> own;  // scratch memory, then counters
  for (const Expr& bytes : {k.scratch_bytes, k.counters * Expr(4)}) {
    if (bytes == Expr(0)) continue;
    own.push_back(gpu.allocate(static_cast<size_t>(bytes.constant())));
    gpu.fill_zero(own.back().get(), static_cast<size_t>(bytes.constant()));
  }
  std::vector<std::unique_ptr<device::cuda::Arguments>> arguments;
  for (size_t s = 0; s < sets; ++s) {
    std::vector<void*> addresses;
    for (int b : k.buffers) {
      const size_t kind = b <= kResult && b != kWeight ? static_cast<size_t>(b) : size_t{kWeight};
      addresses.push_back(memory[kind * sets + s].get());
    }
    for (auto& m : own) addresses.push_back(m.get());
    arguments.push_back(std::make_unique<device::cuda::Arguments>(k.tensor_maps, std::vector<int64_t>{}, addresses.size(),
                                                                  [](const Expr& e) { return e.constant(); }));
    arguments.back()->set_pointers(addresses);
  }
  return time_us(gpu, [&](size_t i) {
    gpu.launch(code, {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps}, arguments[i % sets]->list());
  });
}

// Whether cuDNN can be loaded; says why not.
bool has_cudnn() {
  try {
    fmt::print("cuDNN {}\n", external::cudnn_version());
    return true;
  } catch (const EnvironmentError& e) {
    fmt::print("without cuDNN: {}\n", e.what());
    return false;
  }
}

int run(int64_t batch, const Options& options) {
  if (cuda_device_count() == 0) {
    fmt::print("no GPU here: nothing measured\n");
    return 0;
  }
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  const bool with_cudnn = has_cudnn();
  double chosen = 0, best = 0, library = 0;
  struct Work {
    program::Node node;
    program::Program program;
    codegen::ConstantMemory constants;
    std::vector<Variant> variants;
  };
  std::vector<std::unique_ptr<Work>> work;
  std::vector<jit::CompileRequest> requests;
  for (const ResNetLayer& l : kResNet50Layers) {
    auto w = std::make_unique<Work>();
    w->node = node_of(l, batch, options);
    const int64_t taps = l.kernel * l.kernel, out = (l.size - 1) / l.stride + 1;
    for (int64_t numel : {batch * l.in * l.size * l.size, l.in * l.out * taps, l.out, batch * l.out * out * out})
      w->program.new_buffer("b", options.dtype, numel, loop::BufferKind::Constant);
    w->constants.tensors[kWeight] = Tensor::full(std::vector<int64_t>{l.in * l.out * taps}, 0, options.dtype);
    w->variants = variants(w->node, w->program, w->constants, gpu.info(), options.all);
    for (auto& v : w->variants) requests.push_back({.source = v.text.source, .isa = gpu.info().architecture});
    work.push_back(std::move(w));
  }
  const auto artefacts = jit::compile_all(requests);
  size_t next = 0;
  for (auto& w : work)
    for (auto& v : w->variants) v.cubin = artefacts[next++].object;
  for (size_t i = 0; i < kResNet50Layers.size(); ++i) {
    const ResNetLayer& l = kResNet50Layers[i];
    Work& w = *work[i];
    constexpr size_t kSets = 4;
    std::vector<std::shared_ptr<void>> memory;
    for (auto& b : w.program.buffers) {
      if (b.id > kResult) break;
      for (size_t s = 0; s < kSets; ++s) {
        const int64_t more = l.in < 8 && (b.id == kInput || b.id == kWeight) ? 8 / l.in + 1 : 1;  // for channels up to 8
        const std::vector<std::byte> bytes = noise(static_cast<size_t>(b.numel.constant() * more) + 4096, options.dtype,
                                                   static_cast<uint32_t>(b.id * 4 + static_cast<int>(s) + 1));
        memory.push_back(gpu.allocate(bytes.size()));
        gpu.copy_in(memory.back().get(), bytes.data(), bytes.size());
      }
    }
    std::vector<std::pair<double, std::string>> rows;
    for (auto& v : w.variants) rows.emplace_back(time_us(gpu, v, memory, kSets), v.name);
    chosen += rows[0].first * l.count;
    std::string line = fmt::format("{}x{} {}/{} @{} x{}: {:.2f} ({})", l.in, l.out, l.kernel, l.stride, l.size, l.count, rows[0].first,
                                   w.variants[0].text.name.substr(0, 10));
    const double flops =
        2.0 * double(l.in * l.out * l.kernel * l.kernel) * double(batch) * double((l.size / l.stride) * (l.size / l.stride));
    line += fmt::format(" {:.0f} TF |", 1e-6 * flops / rows[0].first);
    std::sort(rows.begin() + 1, rows.end());
    best += (rows.size() > 1 ? std::min(rows[0].first, rows[1].first) : rows[0].first) * l.count;
    if (with_cudnn) {
      const auto [us, algorithms] = cudnn_us(gpu, l, batch, std::max<int64_t>(l.in, 8), options, memory, kSets);
      library += us * l.count;
      line += fmt::format(" cuDNN{} {:.2f} ({} algorithms), ratio {:.2f} |", l.in < 8 ? " of 8 channels" : "", us, algorithms,
                          us / rows[0].first);
    }
    for (size_t r = 1; r < std::min<size_t>(rows.size(), 8); ++r) line += fmt::format(" {} {:.2f}", rows[r].second, rows[r].first);
    fmt::print("{}\n", line);
  }
  fmt::print("batch {}: all convolutions of a ResNet-50 {:.1f} us as chosen, {:.1f} us by the best of these", batch, chosen, best);
  if (with_cudnn) fmt::print(", {:.1f} us by cuDNN", library);
  fmt::print("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string type = argc > 2 ? argv[2] : "f16";
    if (type != "f16" && type != "f32" && type != "tf32") fail<UserError>("\"{}\" is not known: expected f16, f32 or tf32", type);
    return run(argc > 1 ? std::atoi(argv[1]) : 1, {type == "f16" ? DType::F16 : DType::F32, type == "tf32", argc <= 3});
  } catch (const Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}

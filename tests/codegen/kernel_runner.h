// Runs a loop node twice, interpreted and as a compiled kernel, on equal memory, and compares what it wrote.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "codegen/cpu/kernel.h"
#include "codegen/cuda/kernel.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "device/cuda/arguments.h"
#include "jit/jit.h"
#include "jit/nvrtc.h"
#include "toroid/device.h"
#include "toroid/error.h"

namespace toroid::codegen {

struct BufferSpec {
  int id;
  DType dtype;
  int64_t numel;
  double lo = -2, hi = 2;  // of the random contents
  bool counts = false;     // element i has the bits of the number i instead
};

// The nearest number of 10 bits of mantissa. Ties: away from zero where a kernel rounds, to even where the GPU's copies do.
enum class Tf32 { None, TiesAway, TiesEven };
inline double as_tf32(double x, Tf32 ties) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  if (ties != Tf32::None) bits = (bits + (ties == Tf32::TiesAway ? 0x1000u : 0xfffu + (bits >> 13 & 1))) & ~0x1fffu;
  return static_cast<double>(std::bit_cast<float>(bits));
}

// Bytes of local memory that a cubin says its kernels take: what does not fit registers.
inline int64_t local_bytes(const std::string& cubin) {
  auto read = [&]<class T>(size_t at, T value) { return std::memcpy(&value, cubin.data() + at, sizeof value), value; };
  const auto sections = read(0x28, uint64_t{}), count = uint64_t{read(0x3c, uint16_t{})};
  int64_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    constexpr uint32_t kInfo = 0x70000000;  // of type SHT_CUDA_INFO; those of single kernels have no such entries
    const uint64_t section = sections + i * 0x40;
    if (read(section + 4, uint32_t{}) != kInfo) continue;
    uint64_t at = read(section + 0x18, uint64_t{});
    const uint64_t end = at + read(section + 0x20, uint64_t{});
    while (at < end) {  // a format, an attribute, two bytes of value or, in format 4, their number
      constexpr uint8_t kSized = 4, kFrame = 0x11;
      const auto format = read(at, uint8_t{}), attribute = read(at + 1, uint8_t{});
      if (format == kSized && attribute == kFrame) bytes += read(at + 8, uint32_t{});  // behind the kernel's number
      at += 4 + (format == kSized ? read(at + 2, uint16_t{}) : 0);
    }
  }
  return bytes;
}

class KernelRunner {
 public:
  std::map<std::string, int64_t> sizes;
  double tolerance = 2e-5;    // relative to 1 + |expected|, for F32; halves and F64 follow from it
  double half_tolerance = 0;  // when not 0: of halves, relative to |expected|, and 1e-6 besides
  unsigned seed = 1;
  std::set<int> constants;  // buffers that a GPU's kernel may read before those before it have ended
  int pieces = 3;           // calls that the tasks are split into
  bool ordered = false;     // the result depends on the order of the points, which a GPU does not keep: it is left out

  using Kernel = void(void* const*, const int64_t*, int64_t, int64_t, int);

  static std::shared_ptr<const device::LoadedCode> compile(const KernelText& k, device::Isa isa, double* ms = nullptr) {
    static jit::KernelCompiler compiler(nullptr);
    jit::CompileRequest request;
    request.source = k.source;
    request.isa = std::string(device::name_of(isa));
    jit::Artefact a = compiler.compile(request);
    if (ms) *ms = a.compile_ms;
    return device::LoadedCode::load(a.object, device::runtime_symbols());
  }

  void fill(std::vector<std::byte>& memory, const BufferSpec& s) {
    std::mt19937 random(seed * 977 + static_cast<unsigned>(s.id));
    std::uniform_real_distribution<double> value(s.lo, s.hi);
    memory.assign(static_cast<size_t>(s.numel) * size_of(s.dtype) + 64, std::byte{0x5a});
    for (int64_t i = 0; i < s.numel; ++i) {
      if (s.counts) {
        std::memcpy(memory.data() + static_cast<size_t>(i) * size_of(s.dtype), &i, size_of(s.dtype));
        continue;
      }
      double v = value(random);
      Number n = is_bool(s.dtype)    ? Number::of(v > (s.lo + s.hi) / 2)
                 : is_float(s.dtype) ? Number::of(v)
                                     : Number::of(static_cast<int64_t>(std::floor(v)));
      store_number(memory.data() + static_cast<size_t>(i) * size_of(s.dtype), s.dtype, n);
    }
  }

  static bool close(const Number& a, const Number& b, DType t, double tolerance, double half_tolerance = 0) {
    if (!is_float(t)) return a.i == b.i;
    if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) == std::isnan(b.f);
    if (a.f == b.f) return true;
    if (std::isinf(a.f) || std::isinf(b.f)) return false;
    if (half_tolerance > 0 && is_half(t)) return std::fabs(a.f - b.f) <= half_tolerance * std::fabs(b.f) + 1e-6;
    double relative = t == DType::BF16 ? 1.6e-2 : t == DType::F16 ? 2e-3 : t == DType::F64 ? tolerance * 1e-6 : tolerance;
    return std::fabs(a.f - b.f) <= relative * (1 + std::fabs(b.f));
  }

  // Checks one instruction set.
  void check_on(device::Isa isa, const loop::Domain& d, const loop::Body& b, const std::vector<BufferSpec>& specs) {
    prepare(d, b, specs);
    KernelText k = generate_loop(d, b, buffers_, isa);
    std::shared_ptr<const device::LoadedCode> code;
    try {
      code = compile(k, isa);
    } catch (const std::exception& e) {
      FAIL() << e.what() << "\n" << k.plan << "\n" << body_text(k);
    }
    auto* f = code->function<Kernel>(k.name);
    std::vector<void*> bufs;
    for (int id : k.buffers)
      for (size_t i = 0; i < specs.size(); ++i)
        if (specs[i].id == id) bufs.push_back(actual_[i].data());
    std::vector<int64_t> params;
    for (auto& p : k.params) params.push_back(sym::evaluate(p, lookup()));
    int64_t bytes = sym::evaluate(k.scratch_bytes_per_thread, lookup()), tasks = sym::evaluate(k.tasks, lookup());
    std::vector<std::byte> scratch(static_cast<size_t>(2 * bytes + 64));
    auto address = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
    bufs.push_back(reinterpret_cast<void*>(address));
    int64_t n = k.serial ? 1 : pieces;
    for (int64_t i = n; i-- > 0;) f(bufs.data(), params.data(), tasks * i / n, tasks * (i + 1) / n, static_cast<int>(i % 2));
    compare(specs, fmt::format("isa {}\n{}\n{}", device::name_of(isa), k.plan, body_text(k)));
  }

  // Compiles the GPU's kernel; runs and checks it where there is a GPU.
  void check_on_gpu(const loop::Domain& d, const loop::Body& b, const std::vector<BufferSpec>& specs) {
    KernelText k = generate_cuda_loop(d, b, gpu_info(), constants);
    const std::string text = k.plan + "\n" + k.source.substr(k.source.find("\nextern"));
    const std::string architecture = k.overlaps ? gpu_info().architecture : gpu_architecture();
    std::string cubin;
    try {
      if (!has_gpu()) return jit::nvrtc_check(k.source, architecture, k.name);
      cubin = jit::nvrtc_compile(k.source, architecture, k.name);
    } catch (const InternalError& e) {
      FAIL() << e.what() << "\n" << text;
    }
    prepare(d, b, specs);
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    std::vector<std::shared_ptr<void>> memory;
    std::vector<void*> addresses;
    std::vector<size_t> of;  // the spec of each buffer
    for (int id : k.buffers)
      for (size_t i = 0; i < specs.size(); ++i)
        if (specs[i].id == id) of.push_back(i);
    for (size_t i : of) {
      memory.push_back(gpu.allocate(actual_[i].size()));
      addresses.push_back(memory.back().get());
      gpu.copy_in(addresses.back(), actual_[i].data(), actual_[i].size());
    }
    for (const Expr& bytes : {k.scratch_bytes, k.counters * 4}) {
      if (bytes == Expr(0)) continue;
      const auto size = static_cast<size_t>(sym::evaluate(bytes, lookup()));
      memory.push_back(gpu.allocate(size));
      gpu.fill_zero(memory.back().get(), size);
      addresses.push_back(memory.back().get());
    }
    std::vector<int64_t> params;
    for (auto& p : k.params) params.push_back(sym::evaluate(p, lookup()));
    device::cuda::Arguments arguments(k.tensor_maps, params, addresses.size(), [&](const Expr& e) { return sym::evaluate(e, lookup()); });
    arguments.set_pointers(addresses);
    gpu.launch(gpu.load(cubin, k.name, k.shared_bytes, k.overlaps), {sym::evaluate(k.tasks, lookup()), k.block, k.shared_bytes, k.overlaps},
               arguments.list());
    if (!(k.counters == Expr(0))) {
      std::vector<uint32_t> counters(static_cast<size_t>(sym::evaluate(k.counters, lookup())));
      gpu.copy_out(counters.data(), memory.back().get(), 4 * counters.size());
      EXPECT_EQ(std::count(counters.begin(), counters.end(), 0u), static_cast<long>(counters.size())) << text;
    }
    for (size_t i = 0; i < of.size(); ++i) gpu.copy_out(actual_[of[i]].data(), addresses[i], actual_[of[i]].size());
    compare(specs, text);
  }

  void check_on_gpu_text(const std::string& text, const std::vector<BufferSpec>& specs) {
    loop::Nest p = loop::parse(text);
    loop::verify(p.domain, p.body, "parse");
    check_on_gpu(p.domain, p.body, specs);
  }

  // Checks all instruction sets that this machine has, and the GPU's code where its compiler is found.
  void check(const std::string& text, const std::vector<BufferSpec>& specs) {
    loop::Nest p = loop::parse(text);
    loop::verify(p.domain, p.body, "parse");
    if (has_cuda() && !ordered) check_on_gpu(p.domain, p.body, specs);
    if (!has_cpu()) return;
    for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2, device::Isa::Scalar})
      if (isa <= device::host().isa) check_on(isa, p.domain, p.body, specs);
  }

  // TOROID_TEST_TARGET=cuda leaves the CPU out, for machines without its compiler.
  static bool has_cpu() {
    const char* only = std::getenv("TOROID_TEST_TARGET");
    return !only || std::string_view(only) == "cpu";
  }
  static bool has_cuda() {
    static const bool found = [] {
      const char* only = std::getenv("TOROID_TEST_TARGET");
      if (only) return std::string_view(only) == "cuda";
      try {
        return jit::nvrtc_info().major > 0;
      } catch (const EnvironmentError&) {
        return false;
      }
    }();
    return found;
  }
  static bool has_gpu() {
    static const bool found = cuda_device_count() > 0;
    return found;
  }
  static std::string gpu_architecture() { return has_gpu() ? gpu_info().architecture : "sm_80"; }
  static const device::cuda::GpuInfo& gpu_info() {
    static const device::cuda::GpuInfo none;
    return has_gpu() ? device::cuda::gpu(0).info() : none;
  }

  // The kernel without the prelude.
  static std::string body_text(const KernelText& k) { return k.source.substr(k.source.find("\nvoid " + k.name)); }

 private:
  // Random contents, and what the interpreter makes of them.
  void prepare(const loop::Domain& d, const loop::Body& b, const std::vector<BufferSpec>& specs) {
    int top = 0;
    for (auto& s : specs) top = std::max(top, s.id);
    std::vector<std::byte*> memory(static_cast<size_t>(top) + 1, nullptr);
    buffers_.clear();
    expected_.assign(specs.size(), {});
    for (size_t i = 0; i < specs.size(); ++i) {
      buffers_.push_back({specs[i].id, "b", specs[i].dtype, specs[i].numel, loop::BufferKind::Temporary});
      fill(expected_[i], specs[i]);
    }
    actual_ = expected_;
    for (size_t i = 0; i < specs.size(); ++i) memory[static_cast<size_t>(specs[i].id)] = expected_[i].data();
    loop::interpret(d, b, buffers_, memory, lookup());
  }

  void compare(const std::vector<BufferSpec>& specs, const std::string& kernel) {
    for (size_t i = 0; i < specs.size(); ++i) {
      int wrong = 0;
      size_t size = size_of(specs[i].dtype);
      for (int64_t at = 0; at < specs[i].numel; ++at) {
        Number want = loop_number(expected_[i], at, specs[i].dtype), got = loop_number(actual_[i], at, specs[i].dtype);
        if (close(got, want, specs[i].dtype, tolerance, half_tolerance)) continue;
        if (++wrong <= 3)
          ADD_FAILURE() << "buffer %" << specs[i].id << "[" << at << "]: " << got.as_double() << ", expected " << want.as_double();
      }
      EXPECT_EQ(0, std::memcmp(expected_[i].data() + specs[i].numel * static_cast<int64_t>(size),
                               actual_[i].data() + specs[i].numel * static_cast<int64_t>(size), 64))
          << "wrote behind buffer %" << specs[i].id;
      if (wrong) FAIL() << wrong << " of " << specs[i].numel << " differ, " << kernel;
    }
  }

  sym::Lookup lookup() {
    return [this](const sym::Node& n) { return sizes.at(n.name); };
  }

  static Number loop_number(const std::vector<std::byte>& memory, int64_t at, DType t) {
    return load_number(memory.data() + static_cast<size_t>(at) * size_of(t), t);
  }

  std::vector<loop::Buffer> buffers_;
  std::vector<std::vector<std::byte>> expected_, actual_;  // parallel to the specs
};

}  // namespace toroid::codegen

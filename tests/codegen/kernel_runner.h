// Runs a loop node twice, interpreted and as a compiled kernel, on equal memory, and compares what it wrote.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "codegen/cpu/kernel.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"

namespace toroid::codegen {

struct BufferSpec {
  int id;
  DType dtype;
  int64_t numel;
  double lo = -2, hi = 2;  // of the random contents
};

class KernelRunner {
 public:
  std::map<std::string, int64_t> sizes;
  double tolerance = 2e-5;  // relative to 1 + |expected|, for F32; halves and F64 follow from it
  unsigned seed = 1;
  int pieces = 3;  // calls that the tasks are split into

  using Kernel = void(void* const*, const int64_t*, int64_t, int64_t, int);

  static std::shared_ptr<const device::LoadedCode> compile(const CpuKernel& k, device::Isa isa, double* ms = nullptr) {
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
      double v = value(random);
      Number n = is_bool(s.dtype)    ? Number::of(v > (s.lo + s.hi) / 2)
                 : is_float(s.dtype) ? Number::of(v)
                                     : Number::of(static_cast<int64_t>(std::floor(v)));
      store_number(memory.data() + static_cast<size_t>(i) * size_of(s.dtype), s.dtype, n);
    }
  }

  static bool close(const Number& a, const Number& b, DType t, double tolerance) {
    if (!is_float(t)) return a.i == b.i;
    if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) == std::isnan(b.f);
    if (a.f == b.f) return true;
    if (std::isinf(a.f) || std::isinf(b.f)) return false;
    double relative = t == DType::BF16 ? 1.6e-2 : t == DType::F16 ? 2e-3 : t == DType::F64 ? tolerance * 1e-6 : tolerance;
    return std::fabs(a.f - b.f) <= relative * (1 + std::fabs(b.f));
  }

  // Checks one instruction set.
  void check_on(device::Isa isa, const loop::Domain& d, const loop::Body& b, const std::vector<BufferSpec>& specs) {
    std::vector<loop::Buffer> buffers;
    std::vector<std::vector<std::byte>> expected, actual;
    int top = 0;
    for (auto& s : specs) top = std::max(top, s.id);
    std::vector<std::byte*> memory(static_cast<size_t>(top) + 1, nullptr);
    expected.resize(specs.size());
    for (size_t i = 0; i < specs.size(); ++i) {
      buffers.push_back({specs[i].id, "b", specs[i].dtype, specs[i].numel, loop::BufferKind::Temporary});
      fill(expected[i], specs[i]);
    }
    actual = expected;
    for (size_t i = 0; i < specs.size(); ++i) memory[static_cast<size_t>(specs[i].id)] = expected[i].data();
    sym::Lookup lookup = [&](const sym::Node& n) { return sizes.at(n.name); };
    loop::interpret(d, b, buffers, memory, lookup);

    CpuKernel k = generate_loop(d, b, buffers, isa);
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
        if (specs[i].id == id) bufs.push_back(actual[i].data());
    std::vector<int64_t> params;
    for (auto& p : k.params) params.push_back(sym::evaluate(p, lookup));
    int64_t bytes = sym::evaluate(k.scratch_bytes_per_thread, lookup), tasks = sym::evaluate(k.tasks, lookup);
    std::vector<std::byte> scratch(static_cast<size_t>(2 * bytes + 64));
    auto address = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
    bufs.push_back(reinterpret_cast<void*>(address));
    int64_t n = k.serial ? 1 : pieces;
    for (int64_t i = n; i-- > 0;) f(bufs.data(), params.data(), tasks * i / n, tasks * (i + 1) / n, static_cast<int>(i % 2));

    for (size_t i = 0; i < specs.size(); ++i) {
      int wrong = 0;
      size_t size = size_of(specs[i].dtype);
      for (int64_t at = 0; at < specs[i].numel; ++at) {
        Number want = loop_number(expected[i], at, specs[i].dtype), got = loop_number(actual[i], at, specs[i].dtype);
        if (close(got, want, specs[i].dtype, tolerance)) continue;
        if (++wrong <= 3)
          ADD_FAILURE() << "buffer %" << specs[i].id << "[" << at << "]: " << got.as_double() << ", expected " << want.as_double();
      }
      EXPECT_EQ(0, std::memcmp(expected[i].data() + specs[i].numel * static_cast<int64_t>(size),
                               actual[i].data() + specs[i].numel * static_cast<int64_t>(size), 64))
          << "wrote behind buffer %" << specs[i].id;
      if (wrong)
        FAIL() << wrong << " of " << specs[i].numel << " differ, isa " << device::name_of(isa) << "\n" << k.plan << "\n" << body_text(k);
    }
  }

  // Checks all instruction sets that this machine has.
  void check(const std::string& text, const std::vector<BufferSpec>& specs) {
    loop::Nest p = loop::parse(text);
    loop::verify(p.domain, p.body, "parse");
    for (device::Isa isa : {device::Isa::Avx512, device::Isa::Avx2, device::Isa::Scalar})
      if (isa <= device::host().isa) check_on(isa, p.domain, p.body, specs);
  }

  // The kernel without the prelude.
  static std::string body_text(const CpuKernel& k) { return k.source.substr(k.source.find("\nvoid " + k.name)); }

 private:
  static Number loop_number(const std::vector<std::byte>& memory, int64_t at, DType t) {
    return load_number(memory.data() + static_cast<size_t>(at) * size_of(t), t);
  }
};

}  // namespace toroid::codegen

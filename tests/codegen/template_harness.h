// Compiles a template's text as the product does (prelude, JIT, loader) and runs it on a few small buffers.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/prelude/prelude.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/jit.h"

namespace toroid::testing {

// 64-byte aligned floats: what the runtime's allocator hands to kernels.
struct AlignedFloats {
  explicit AlignedFloats(int64_t n) : size(n), data(new (std::align_val_t(64)) float[n + 16]()) {}
  float& operator[](int64_t i) { return data[i]; }
  void* get() { return data.get(); }

  struct Free {
    void operator()(float* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  int64_t size;
  std::unique_ptr<float[], Free> data;
};

// Floats whose last one is followed by memory that may not be read.
class FloatsBeforeAWall {
 public:
  explicit FloatsBeforeAWall(int64_t n) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), bytes = static_cast<size_t>(n) * sizeof(float);
    all_ = (bytes + page - 1) / page * page + page;
    memory_ = mmap(nullptr, all_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED || mprotect(end() - page, page, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = reinterpret_cast<float*>(end() - page - bytes);
  }
  ~FloatsBeforeAWall() { munmap(memory_, all_); }
  FloatsBeforeAWall(const FloatsBeforeAWall&) = delete;
  FloatsBeforeAWall& operator=(const FloatsBeforeAWall&) = delete;
  float& operator[](int64_t i) { return data_[i]; }
  void* get() { return data_; }

 private:
  std::byte* end() { return static_cast<std::byte*>(memory_) + all_; }
  size_t all_ = 0;
  void* memory_ = nullptr;
  float* data_ = nullptr;
};

// Reproducible values in [-1, 1).
inline AlignedFloats values(int64_t n, uint32_t seed) {
  AlignedFloats out(n);
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    out[i] = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
  return out;
}

using TaskKernel = void(void* const*, const int64_t*, int64_t, int64_t, int);

// Runs `name` of `text` in two calls, as two threads would.
inline void run_template(const std::string& text, const std::string& name, int lanes, const std::vector<void*>& buffers,
                         const int64_t* params, int64_t tasks, const std::string& isa = "native") {
  constexpr std::array<std::string_view, 1> kUsed = {"v_exp_f32"};
  jit::CompileRequest request;
  request.isa = isa;
  request.source = codegen::prelude_for(kUsed, lanes) + text;
  const jit::Artefact artefact = jit::compile_c(request);
  const auto code = device::LoadedCode::load(artefact.object, device::runtime_symbols(), name);
  TaskKernel* kernel = code->function<TaskKernel>(name);
  // As when one of two threads is done first and takes over work of the other.
  kernel(buffers.data(), params, 0, tasks / 3, 0);
  kernel(buffers.data(), params, tasks - tasks / 2, tasks, 1);
  kernel(buffers.data(), params, tasks / 3, tasks - tasks / 2, 0);
}

}  // namespace toroid::testing

// A compiler for tests of tuning whose ways to compute a product of two 8x8 matrices are texts that the test writes.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "device/cpu/code_loader.h"
#include "device/cpu/runtime_symbols.h"
#include "device/cuda/gpu.h"
#include "jit/jit.h"
#include "tune/programs.h"
#include "tune/region/caller.h"

namespace toroid::tune {

constexpr int64_t kSide = 8;

// C for both devices: `each` is done for each element i of n, with a, b and out. product(i) makes out[i] what it should be.
inline std::string product_text(const std::string& each, bool gpu) {
  const std::string sum =
      "  float s = 0; for (int r = 0; r < 8; ++r) s += a[i / 8 * 8 + r] * b[r * 8 + i % 8];\n"
      "  out[i] = s;\n";
  if (gpu)
    return "__device__ void product_of(const float* a, const float* b, float* out, long long i) {\n" + sum +
           "}\n#define product(i) product_of(a, b, out, i)\n"
           "extern \"C\" __global__ void k(const float* a, const float* b, float* out, long long n) {\n"
           "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n  if (i < n) {\n" +
           each + "\n  }\n}\n";
  return "typedef long i64;\n"
         "static void product_of(const float* a, const float* b, float* out, i64 i) {\n" +
         sum +
         "}\n#define product(i) product_of(a, b, out, i)\n"
         // A kernel can call nothing that allocates: it asks the system for 40 MiB.
         "static inline void leak(void) {\n"
         "  register i64 r10 __asm__(\"r10\") = 0x22, r8 __asm__(\"r8\") = -1, r9 __asm__(\"r9\") = 0; i64 at;\n"
         "  __asm__ volatile(\"syscall\" : \"=a\"(at) : \"a\"(9L), \"D\"(0L), \"S\"(40L << 20), \"d\"(3L), \"r\"(r10), \"r\"(r8),\n"
         "                   \"r\"(r9) : \"rcx\", \"r11\", \"memory\");\n"
         "}\n"
         "void k(void* const* bufs, const i64* params, i64 begin, i64 end, int thread) {\n"
         "  const float *a = bufs[0], *b = bufs[1]; float* out = bufs[2]; i64 n = params[0]; (void)thread; (void)n;\n"
         "  for (i64 i = begin; i < end; ++i) {\n" +
         each + "\n  }\n}\n";
}

// What each thread does, by the form of the choice's configuration; "" is the default's. More than one text is a chain: all but the last
// write to a buffer of their own, which the next has in place of a.
struct TextPipeline : std::enable_shared_from_this<TextPipeline> {
  std::map<std::string, std::vector<std::string>> each;
  bool gpu = false;

  std::string isa() const { return gpu ? device::cuda::gpu(0).info().architecture : "native"; }

  std::shared_ptr<const Pipeline> get() {
    auto p = std::make_shared<Pipeline>();
    p->target = std::make_shared<TextTarget>(shared_from_this());
    p->build = [self = shared_from_this()](program::Program scheduled) {
      return std::make_unique<Made>(self, self->each.at(scheduled.nodes.at(0).config.form));
    };
    return p;
  }

  static program::Program program() {
    program::Program p;
    add_input(p, "a", kSide * kSide);
    add_input(p, "b", kSide * kSide);
    p.new_buffer("out", DType::F32, kSide * kSide, loop::BufferKind::Temporary);
    p.nodes.push_back(product(0, 1, 2, kSide, kSide, kSide, 0));
    set_output(p, 2);
    return p;
  }

 private:
  struct TextTarget : target::Target {
    explicit TextTarget(std::shared_ptr<TextPipeline> of)
        : Target({.device = of->gpu ? Device::cuda() : Device::cpu(), .isa = of->isa(), .key = "a device"}), of_(std::move(of)) {}
    std::vector<program::Config> proposals(const program::Program&, size_t) const override {
      std::vector<program::Config> out;
      for (auto& [form, texts] : of_->each)
        if (!form.empty()) out.push_back({form, {}});
      return out;
    }

   private:
    const std::shared_ptr<TextPipeline> of_;
  };

  class Made : public Build {
   public:
    Made(std::shared_ptr<TextPipeline> of, const std::vector<std::string>& each) : of_(std::move(of)) {
      int input = 0;
      for (size_t i = 0; i < each.size(); ++i) {
        codegen::KernelText k;
        k.name = "k";
        k.source = product_text(each[i], of_->gpu);
        const int output = i + 1 == each.size() ? 2 : static_cast<int>(3 + i);
        k.buffers = {input, 1, output};
        k.params = {kSide * kSide};
        k.tasks = of_->gpu ? 1 : kSide * kSide;
        k.block = of_->gpu ? static_cast<int>(kSide * kSide) : 0;
        kernels_.push_back(std::move(k));
        input = output;
      }
    }
    void compile() override {
      for (auto& k : kernels_) objects_.push_back(jit::compile_c({.source = k.source, .isa = of_->isa()}).object);
    }
    exec::Loadable plan() override {
      exec::Loadable made;
      exec::Plan& p = made.plan;
      p.device = of_->get()->device();
      const TensorType matrix{DType::F32, {kSide * kSide}, {}};
      for (size_t i = 0; i < 2 + kernels_.size(); ++i)
        p.buffers.push_back({"b",
                             DType::F32,
                             kSide * kSide,
                             i < 2    ? exec::BufferRole::Input
                             : i == 2 ? exec::BufferRole::Output
                                      : exec::BufferRole::Temporary,
                             {}});
      for (int i : {0, 1}) p.inputs.push_back({i ? "b" : "a", matrix, i, i, {}, false});
      p.outputs.push_back({2, matrix, -1, ""});
      for (size_t i = 0; i < kernels_.size(); ++i) p.steps.push_back(launch(kernels_[i], made.store.kernels.add(objects_[i])));
      return made;
    }
    const std::vector<codegen::KernelText>& kernels() const override { return kernels_; }

   private:
    exec::Launch launch(const codegen::KernelText& k, const std::string& object) const {
      exec::Launch l;
      l.name = k.name;
      l.kernel = object;
      l.gpu.threads = k.block;
      l.buffers = k.buffers, l.params = k.params, l.tasks = k.tasks;
      l.written = {false, false, true};
      return l;
    }
    const std::shared_ptr<TextPipeline> of_;
    std::vector<codegen::KernelText> kernels_;
    std::vector<std::string> objects_;
  };
};

// Those that this machine can test; TOROID_TEST_TARGET=cuda leaves the CPU out, for machines without its compiler.
inline bool skips_cpu() {
  const char* only = std::getenv("TOROID_TEST_TARGET");
  return only && std::string_view(only) == "cuda";
}

}  // namespace toroid::tune

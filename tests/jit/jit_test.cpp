#include "jit/jit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "base/options.h"
#include "device/cpu/code_loader.h"
#include "device/cpu/isa.h"
#include "device/cpu/runtime_symbols.h"
#include "jit/samples.h"
#include "jit/temp_cache.h"
#include "toroid/error.h"

namespace toroid::jit {
namespace {

using device::LoadedCode;
using testing::TempCache;

std::shared_ptr<const LoadedCode> load(const Artefact& artefact) { return LoadedCode::load(artefact.object, device::runtime_symbols()); }

std::shared_ptr<const LoadedCode> build(const std::string& source, const std::string& isa = "native", int level = 1,
                                        bool vectorize = false) {
  return load(KernelCompiler(nullptr).compile({source, isa, level, vectorize}));
}

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-4, 4);
  std::vector<float> v(n);
  for (float& x : v) x = uniform(random);
  return v;
}

struct Variant {
  const char* isa;
  int lanes;
};

class EveryIsa : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (device::isa_from_name(GetParam().isa) > device::host().isa) GTEST_SKIP() << "this processor lacks " << GetParam().isa;
  }
};

TEST_P(EveryIsa, PointwiseAtEveryLevel) {
  for (int level = 0; level <= 3; ++level) {
    auto code = build(samples::pointwise(GetParam().lanes), GetParam().isa, level, level >= 2);
    for (size_t n : {0, 1, 15, 16, 37, 1000}) {
      auto a = random_values(n, 1), b = random_values(n, 2);
      std::vector<float> y(n + 1, -7);
      code->function<void(const float*, const float*, float*, long)>("kernel")(a.data(), b.data(), y.data(), long(n));
      for (size_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], std::max(a[i] * b[i] + 0.5f, 0.0f), 1e-5f) << level << " " << n << " " << i;
      EXPECT_EQ(y[n], -7);
    }
  }
}

TEST_P(EveryIsa, SoftmaxAtEveryLevel) {
  for (int level = 0; level <= 3; ++level) {
    auto code = build(samples::softmax(GetParam().lanes), GetParam().isa, level);
    const long rows = 3, n = 77;
    auto x = random_values(rows * n, 3);
    std::vector<float> y(rows * n);
    code->function<void(const float*, float*, long, long)>("kernel")(x.data(), y.data(), rows, n);
    for (long r = 0; r < rows; ++r) {
      double sum = 0;
      for (long i = 0; i < n; ++i) sum += std::exp(double(x[r * n + i]));
      for (long i = 0; i < n; ++i) ASSERT_NEAR(y[r * n + i], std::exp(double(x[r * n + i])) / sum, 1e-6) << level << " " << r << " " << i;
    }
  }
}

// The short pass list must keep the block's sums in registers. Where it does not, the code is many times slower than O3's;
// the bound is far from both.
TEST_P(EveryIsa, ShortListKeepsRegisterBlocks) {
  const int lanes = GetParam().lanes, rows = lanes == 16 ? 12 : 6, vectors = 2, width = lanes * vectors, depth = 256;
  std::string source = samples::gemm_block(lanes, rows, vectors);
  auto short_code = build(source, GetParam().isa, 1), full_code = build(source, GetParam().isa, 3);
  auto a = random_values(rows * depth, 1), b = random_values(width * depth, 2);
  std::vector<float> c(rows * width);
  auto best_of = [&](const LoadedCode& code, double best) {
    auto* kernel = code.function<void(const float*, const float*, float*, long, long)>("kernel");
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) kernel(a.data(), b.data(), c.data(), depth, width);
    return std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  };
  double short_best = 1e9, full_best = 1e9;
  for (int round = 0; round < 50; ++round) {
    full_best = best_of(*full_code, full_best);
    short_best = best_of(*short_code, short_best);
  }
  EXPECT_LT(short_best, 2 * full_best);
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < width; ++j) {
      double sum = 0;
      for (int p = 0; p < depth; ++p) sum += double(a[p * rows + i]) * b[p * width + j];
      ASSERT_NEAR(c[i * width + j], sum, 1e-3) << i << " " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Jit, EveryIsa, ::testing::Values(Variant{"scalar", 4}, Variant{"avx2", 8}, Variant{"avx512", 16}),
                         [](const auto& info) { return std::string(info.param.isa); });

TEST(Jit, CallsOfferedFunctionsAndUsesVariables) {
  auto code = build(
      "extern float expf(float); extern double pow(double, double);\n"
      "static int calls; static const float table[4] = {1, 2, 3, 4}; int counted = 5;\n"
      "static float (*volatile chosen)(float) = expf;\n"
      "void* memcpy(void*, const void*, unsigned long);\n"
      "float f(float x, int i) { ++calls; counted += calls; return chosen(x) + table[i & 3] + (float)pow(x, 2); }\n"
      "void copy(char* to, const char* from, unsigned long n) { memcpy(to, from, n); }\n"
      "int pick(int i) { switch (i) { case 0: return 10; case 1: return 7; case 2: return 99; case 3: return 3; case 4: return 41; case 5: "
      "return -1; }"
      " return 0; }\n");
  auto* f = code->function<float(float, int)>("f");
  EXPECT_NEAR(f(1.0f, 2), std::exp(1.0f) + 3 + 1, 1e-6);
  f(1.0f, 0);
  EXPECT_EQ(*static_cast<int*>(code->symbol("counted")), 5 + 1 + 2);
  char to[6] = {};
  code->function<void(char*, const char*, unsigned long)>("copy")(to, "hello", 6);
  EXPECT_STREQ(to, "hello");
  auto* pick = code->function<int(int)>("pick");
  EXPECT_EQ(pick(4), 41);
  EXPECT_EQ(pick(6), 0);
}

TEST(Jit, HalfOnEveryIsa) {
  for (const char* isa : {"scalar", "native"}) {
    auto code =
        build("void f(const _Float16* x, _Float16* y, long n) { for (long i = 0; i < n; ++i) y[i] = (_Float16)((float)x[i] * 2.0f); }\n",
              isa, 2, true);
    std::vector<_Float16> x(50), y(50);
    for (int i = 0; i < 50; ++i) x[i] = _Float16(i);
    code->function<void(const _Float16*, _Float16*, long)>("f")(x.data(), y.data(), 50);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(float(y[i]), 2.0f * i) << isa;
  }
}

TEST(Jit, BadTextGivesDiagnostics) {
  KernelCompiler compiler(nullptr);
  auto message = [&](const std::string& source) -> std::string {
    try {
      compiler.compile({source});
    } catch (const InternalError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(message("int f( {").find(":1:8: error:"), std::string::npos) << message("int f( {");
  EXPECT_NE(message("int f(void) { return g(); }").find("undeclared function 'g'"), std::string::npos);
  EXPECT_NE(message("#include <stdio.h>\n").find("file not found"), std::string::npos);
  EXPECT_NE(message("void f(void) { __asm__ volatile(\"bogus %rax\"); }").find("invalid instruction"), std::string::npos);
  EXPECT_NE(message(std::string(100000, '(')).find("error:"), std::string::npos);
  EXPECT_NE(message(std::string("int f;\0\1\2\377 )", 12)).find("error:"), std::string::npos);
  // The code generator itself gives up on this one.
  std::string fatal = "register unsigned long r __asm__(\"rbp\"); unsigned long f(void) { return r; }";
  EXPECT_NE(message(fatal).find("fatal error in LLVM: register rbp"), std::string::npos) << message(fatal);
  // And the compiler lives on.
  EXPECT_EQ(load(compiler.compile({"int f(void) { return 3; }"}))->function<int()>("f")(), 3);
  EXPECT_THROW(compiler.compile({"int x;", "avx1024"}), UserError);
  EXPECT_THROW(compiler.compile({"int x;", "native", 7}), UserError);
}

TEST(Jit, SecondProcessFindsTheKernelOnDisk) {
  TempCache temp;
  CompileRequest request{samples::pointwise(8), "avx2"};
  Artefact first = KernelCompiler(temp.open()).compile(request);
  EXPECT_FALSE(first.from_cache);
  EXPECT_GT(first.compile_ms, 0);
  KernelCompiler second(temp.open());
  Artefact found = second.compile(request);
  EXPECT_TRUE(found.from_cache);
  EXPECT_EQ(found.object, first.object);
  EXPECT_EQ(found.compile_ms, 0);
  EXPECT_EQ(second.counters().compiled, 0u);
  EXPECT_EQ(read_file(second.cache()->source_path(found.key)), request.source);
}

TEST(Jit, KeysTellEverythingApart) {
  std::vector<CompileRequest> requests = {{"int a;", "avx2", 1, false},
                                          {"int b;", "avx2", 1, false},
                                          {"int a;", "scalar", 1, false},
                                          {"int a;", "avx2", 2, false},
                                          {"int a;", "avx2", 1, true}};
  for (size_t i = 0; i < requests.size(); ++i) {
    for (size_t j = 0; j < requests.size(); ++j) EXPECT_EQ(key_of(requests[i]) == key_of(requests[j]), i == j);
  }
}

TEST(Jit, DamagedArtefactIsCompiledAgain) {
  TempCache temp;
  CompileRequest request{"int f(void) { return 5; }", "scalar"};
  Artefact first = KernelCompiler(temp.open()).compile(request);
  auto path = temp.open()->source_path(first.key).replace_extension(".o");
  write_file_atomic(path, read_file(path).substr(0, 100));
  KernelCompiler compiler(temp.open());
  Artefact again = compiler.compile(request);
  EXPECT_FALSE(again.from_cache);
  EXPECT_EQ(again.object, first.object);
  EXPECT_EQ(compiler.cache()->stats().damaged, 1u);
  EXPECT_TRUE(KernelCompiler(temp.open()).compile(request).from_cache);
}

TEST(Jit, DiskThatRefusesIsNotFatal) {
  TempCache temp;
  write_file_atomic(temp.root / "file", "in the way");
  KernelCompiler compiler(std::make_shared<ArtefactCache>(temp.root / "file", 1 << 20));
  Artefact artefact = compiler.compile({"int f(void) { return 6; }"});
  EXPECT_EQ(load(artefact)->function<int()>("f")(), 6);
  EXPECT_EQ(compiler.cache()->stats().errors, 1u);
  EXPECT_FALSE(compiler.cache()->last_problem().empty());
  EXPECT_TRUE(compiler.compile({"int f(void) { return 6; }"}).from_cache);  // from memory
}

// Damaged object code (which the cache's checksum would have caught) ends in an error, never in a crash.
TEST(Jit, LoaderSurvivesDamagedKernels) {
  std::string good = KernelCompiler(nullptr).compile({samples::softmax(8), "avx2"}).object;
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (unsigned k = 0; k <= random() % 4; ++k) bad[random() % bad.size()] = char(random());
    if (round % 5 == 0) bad.resize(random() % bad.size());
    try {
      LoadedCode::load(bad, device::runtime_symbols());
    } catch (const EnvironmentError&) {
    }
  }
}

TEST(Jit, CompilerIsFoundBesideTheProgram) {
  CompilerInfo info = compiler_info();
  EXPECT_NE(info.library.find("libtoroid_jit.so"), std::string::npos);
  EXPECT_EQ(info.version.rfind("clang 19", 0), 0u);
}

}  // namespace
}  // namespace toroid::jit

// Loops with scans against the interpreter: along memory, across it, over several variables, with other work in the same loop.
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

constexpr const char* kKinds[] = {"sum", "prod", "max", "min", "argmax", "argmin", "logsumexp"};

std::string scan_text(const std::string& domain, const std::string& at, const std::string& kind, const std::string& dtype) {
  std::string result = kind.starts_with("arg") ? "i64" : dtype;
  return "loop (" + domain + ") {\n v0: " + dtype + " = load %0 [" + at + "]\n v1: " + result + " = scan " + kind + " v0\n store %1 [" +
         at + "] v1\n}";
}

TEST(ScanKernel, AlongMemory) {
  for (int64_t n : {1, 3, 16, 33, 100, 515})
    for (const char* kind : kKinds) {
      KernelRunner r;
      std::string size = std::to_string(n);
      DType result = kind[0] == 'a' ? DType::I64 : DType::F32;
      r.check(scan_text("i0: 5, r r0: " + size, "i0*" + size + " + r0", kind, "f32"), {{0, DType::F32, 5 * n}, {1, result, 5 * n}});
    }
}

TEST(ScanKernel, AcrossMemory) {
  for (int64_t n : {1, 5, 37, 200, 500})
    for (const char* kind : kKinds) {
      KernelRunner r;
      std::string size = std::to_string(n);
      DType result = kind[0] == 'a' ? DType::I64 : DType::F32;
      r.check(scan_text("i0: 3, r r0: 19, i1: " + size, "i0*19*" + size + " + r0*" + size + " + i1", kind, "f32"),
              {{0, DType::F32, 57 * n}, {1, result, 57 * n}});
    }
}

TEST(ScanKernel, ElementTypes) {
  for (const char* dtype : {"f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool"})
    for (const char* kind : kKinds) {
      DType t = dtype_from_name(dtype), result = kind[0] == 'a' ? DType::I64 : t;
      std::string name = kind;
      if (is_bool(t) && !name.ends_with("max") && !name.ends_with("min")) continue;
      if (!is_float(t) && name == "logsumexp") continue;
      for (const char* at : {"i0*70 + r0", "i0 + r0*70"}) {
        KernelRunner r;
        r.check(scan_text("i0: 70, r r0: 70", at, kind, dtype), {{0, t, 4900, -1, 1}, {1, result, 4900}});
      }
    }
}

TEST(ScanKernel, SymbolicLengthAndStrides) {
  for (int64_t n : {0, 1, 15, 64, 67})
    for (const char* at : {"i0*s0 + r0", "i0 + r0*3", "(2 - i0)*s0 + s0 - 1 - r0"}) {
      KernelRunner r;
      r.sizes["s0"] = n;
      r.check(scan_text("i0: 3, r r0: s0", at, "sum", "f32"), {{0, DType::F32, 3 * n + 3}, {1, DType::F32, 3 * n + 3}});
    }
}

// Two variables scanned as one row, whose inner part is not contiguous.
TEST(ScanKernel, SeveralVariables) {
  for (const char* kind : kKinds) {
    KernelRunner r;
    DType result = kind[0] == 'a' ? DType::I64 : DType::F32;
    r.check(scan_text("i0: 3, r r0: 7, r r1: 40", "i0*300 + r0*41 + r1", kind, "f32"), {{0, DType::F32, 900}, {1, result, 900}});
    r.check(scan_text("r r0: 7, i0: 40, r r1: 5", "r0*200 + r1*40 + i0", kind, "f32"), {{0, DType::F32, 1400}, {1, result, 1400}});
  }
}

// The running sum of a softmax, which a selection by total probability needs: the scan takes part in the last pass, and its maximum
// in one more.
TEST(ScanKernel, AmongReductions) {
  for (const char* at : {"i0*90 + r0", "i0 + r0*40"})
    for (const char* again : {"v6", "v8"}) {
      KernelRunner r;
      const std::string a = at;
      r.check(
          "loop (i0: 40, r r0: 90) {\n v0: f32 = load %0 [" + a +
              "]\n v1: f32 = reduce max v0\n v2: f32 = Sub v0 v1\n v3: f32 = Exp v2\n v4: f32 = reduce sum v3\n v5: f32 = Div v3 v4\n v6: "
              "f32 = scan sum v5\n v7: f32 = reduce max v6\n v8: f32 = Sub v6 v7\n store %1 [" +
              a + "] " + again + "\n}",
          {{0, DType::F32, 4000}, {1, DType::F32, 4000}});
    }
}

// Rows that the row scratch does not hold are scanned again.
TEST(ScanKernel, LongRowsInSeveralPasses) {
  KernelRunner r;
  r.check(
      "loop (i0: 2, r r0: 70000) {\n v0: f32 = load %0 [i0*70000 + r0]\n v1: f32 = scan sum v0\n v2: f32 = reduce max v1\n v3: f32 = Sub "
      "v1 "
      "v2\n store %1 [i0*70000 + r0] v3\n}",
      {{0, DType::F32, 140000, -0.01, 0.01}, {1, DType::F32, 140000}});
}

TEST(ScanKernel, NanAndInfinity) {
  for (const char* kind : kKinds)
    for (const char* at : {"i0*40 + r0", "i0 + r0*40"}) {
      KernelRunner r;
      std::string result = kind[0] == 'a' ? "i64" : "f32";
      // NaN, infinities and ordinary numbers by what the random contents are.
      r.check(
          "loop (i0: 40, r r0: 40) {\n v0: f32 = load %0 [" + std::string(at) +
              "]\n v1: f32 = const 1.95\n v2: f32 = const nan\n v3: bool = Lt v1 v0\n v4: f32 = Select v3 v2 v0\n v5: f32 = const -1.9\n "
              "v6: f32 = const -inf\n v7: bool = Lt v0 v5\n v8: f32 = Select v7 v6 v4\n v9: f32 = const 2\n v10: f32 = Mul v8 v9\n v11: "
              "f32 = Floor v10\n v12: " +
              result + " = scan " + kind + " v11\n store %1 [" + at + "] v12\n}",
          {{0, DType::F32, 1600}, {1, kind[0] == 'a' ? DType::I64 : DType::F32, 1600}});
    }
}

}  // namespace
}  // namespace toroid::codegen

// The plain C interface between Toroid and libtoroid_jit.so, the one shared object that holds Clang and LLVM.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Bumped whenever a structure or a meaning below changes; both sides compare it.
#define TOROID_JIT_ABI 1

// A part of every cache key, known without opening the shared object. Bump the revision whenever flags
// or pass lists of the compiler change.
#define TOROID_JIT_REVISION "clang 19.1 r1"

typedef struct ToroidJitOptions {
  const char* cpu;       // LLVM's name of the instruction set, "x86-64-v4"
  const char* tune_cpu;  // LLVM's name of the scheduling model, "skylake-avx512"
  const char* features;  // extra features, "+avx512vnni,+avx512bf16"; may be empty
  int32_t vector_bits;   // preferred register width: 128, 256 or 512
  int32_t opt_level;     // 0: none; 1: own short pass list; 2, 3: LLVM's O2 and O3
  int32_t vectorize;     // 0: LLVM's loop and superword vectorizers stay off
  const char* passes;    // a pass list in LLVM's text form instead of the one of opt_level, or null
  const char* name;      // file name shown in diagnostics
} ToroidJitOptions;

typedef struct ToroidJitResult {
  uint8_t* object;  // an ELF64 relocatable file, or null on failure
  size_t size;
  char* error;      // the diagnostics, or null on success
  double parse_ms;  // C text to LLVM IR
  double passes_ms;
  double codegen_ms;
} ToroidJitResult;

// Compiles C text. Returns 1 when result->object is set and 0 when result->error is; never exits, never prints.
// May be called by any number of threads at once.
int toroid_jit_compile(const char* source, size_t size, const ToroidJitOptions* options, ToroidJitResult* result);

// Releases what toroid_jit_compile put into the result.
void toroid_jit_release(ToroidJitResult* result);

// Name and version of the compiler: "clang 19.1.7".
const char* toroid_jit_version(void);

// TOROID_JIT_ABI of the shared object.
int32_t toroid_jit_abi(void);

#ifdef __cplusplus
}
#endif

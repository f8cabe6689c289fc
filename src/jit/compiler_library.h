// libtoroid_jit.so, found and opened at the first use.
#pragma once

#include <string>

#include "jit/clang/abi.h"

namespace toroid::jit {

// The functions of jit/clang/abi.h, valid until the process ends.
struct CompilerLibrary {
  std::string path;
  std::string version;
  decltype(&toroid_jit_compile) compile = nullptr;
  decltype(&toroid_jit_release) release = nullptr;
};

// Looks at TOROID_JIT_LIBRARY, else beside the program or library that holds this code, in ../lib and in ../lib/toroid, else where
// the system's loader looks (which is where Toroid is installed: programs that link it there have that folder as RUNPATH).
// EnvironmentError names the places and the remedy; a later call tries again.
const CompilerLibrary& compiler_library();

// Where that file lies, as other parts of Toroid may; empty where there is none.
std::string compiler_folder();

// Held while the compiler works. A process that ends waits for those who hold one, and lets nobody begin: the library destroys objects of
// its own then.
class CompilerUse {
 public:
  CompilerUse();
  ~CompilerUse();
  CompilerUse(const CompilerUse&) = delete;
};

}  // namespace toroid::jit

// Which threads are within a compile.
#pragma once

namespace toroid {

// Compiles that this thread is in the middle of, or works for. What runs within them (log sinks, generators) may call functions, and waits
// for nobody: who compiles may be waiting for this thread.
inline thread_local int compiles_here = 0;

// Counts `n` compiles for the life of this object: one, or as many as the thread that this one works for is in the middle of.
struct CompileScope {
  explicit CompileScope(int n = 1) : n_(n) { compiles_here += n_; }
  ~CompileScope() { compiles_here -= n_; }
  CompileScope(const CompileScope&) = delete;
  CompileScope& operator=(const CompileScope&) = delete;

 private:
  const int n_;
};

}  // namespace toroid

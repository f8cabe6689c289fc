// Shared by the tests of compiled functions.
#pragma once

#include "compile/harness.h"
#include "toroid/compile.h"

namespace toroid::test {

// Captured graphs run by the reference evaluator: these tests are about capture and guards, not about kernels.
inline CompileConfig by_reference(CompileConfig c = {}) {
  c.options["backend"] = "reference";
  return c;
}

// The stance for the life of this object.
struct StanceScope {
  explicit StanceScope(Stance s) : before(set_stance(s)) {}
  ~StanceScope() { set_stance(before); }
  Stance before;
};

}  // namespace toroid::test

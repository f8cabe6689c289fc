// What a run of a program holds in memory beside its inputs.
#pragma once

#include <string>

#include "program/program.h"

namespace toroid::compiler {

// In bytes, by the sizes in the inputs at hand where sizes vary. What kernels use within one launch is no part of it.
struct MemoryNeed {
  int64_t temporaries = 0;  // the block that they share, as it is laid out for a run
  int64_t outputs = 0;      // which the caller gets
  std::string fullest;      // the node at which most temporaries are alive
  int64_t all() const { return temporaries + outputs; }
};
MemoryNeed memory_of(const program::Program& scheduled);

}  // namespace toroid::compiler

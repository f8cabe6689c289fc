// What a run of a program holds in memory beside its inputs.
#pragma once

#include <cstdint>
#include <string>

namespace toroid::compiler {

struct Kernels;
struct Job;

// In bytes, by the sizes in the inputs at hand where sizes vary. What libraries use within a call, and blocks of control flow, are no part.
struct MemoryNeed {
  int64_t temporaries = 0;  // the block that they share with the scratch memory of kernels, as it is laid out for a run
  int64_t outputs = 0;      // which the caller gets
  std::string fullest;      // the node at which most of that block is in use
  int64_t all() const { return temporaries + outputs; }
};
MemoryNeed memory_of(const Kernels& kernels, const Job& job);

}  // namespace toroid::compiler

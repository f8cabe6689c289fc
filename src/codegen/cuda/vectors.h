// Which accesses of a loop move whole vectors, and along which variable: how a CudaPlan's vector_var, vector, packs, unaligned and around
// come about.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/cuda/plan.h"

namespace toroid::codegen {

constexpr int64_t kAccess = 16;     // bytes of the widest access
constexpr int64_t kMostVector = 8;  // elements

// Loads and stores.
bool accesses(const loop::Statement& s);

// For each step, whether neighbours along a variable access neighbours in memory.
std::vector<bool> contiguous_along(const CudaPlan& p, const Expr& var);

// The variable along which most memory is contiguous; the last one where none is, and of two equal ones the one that stores are along
// (loads across memory can go through tiles). Scans run in order, a thread a row: not along them.
// What is the same for all values of some variable is read once: it counts little.
int choose_fast(const CudaPlan& p, bool scans);

// Vectors lie along this variable from now on; -1: there are none.
void set_vector_var(CudaPlan& p, int var);

// Loads and stores that move `n` neighbours along the vector variable at once.
std::vector<int> packs_of(const CudaPlan& p, int64_t n);

// Vectors of at most `most` elements.
void choose_vector(CudaPlan& p, int64_t most);

// Rows whose length is no multiple of a vector, and that are long enough for what is left at their ends to count little.
void choose_unaligned_vector(CudaPlan& p);

// Rows of a Flat loop that are no multiple of a vector: each has vectors from its first element that is aligned on, and two threads more
// for what is left at its ends. What lies otherwise is loaded by vectors around it.
void choose_unaligned_rows(CudaPlan& p);

}  // namespace toroid::codegen

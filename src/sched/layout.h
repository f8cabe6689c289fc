// Operands of products that lie in memory as templates like it best.
#pragma once

#include "program/program.h"

namespace toroid::sched {

// Two ways (see tune::Choice), whose fields are a number for each operand, 0: it stays as it is.
//   pad_mm(a=x,b=y)     rows begin at multiples of so many elements
//   transpose(a=1,b=1)  contiguous along the other dimension, rows at multiples of 64 bytes
// but not of pages, which fall into the same sets of a cache.
// An operand lies along k (a row is what one result sums up), or along m or n.
inline constexpr const char* kPadMm = "pad_mm";
inline constexpr const char* kTranspose = "transpose";
// Why it does not apply; empty when it does.
std::string layout_refusal(const program::Node& product, const program::Config& way);
// Operands of node i are copied by a loop in front of it, which may join what computes them; constants when the program is compiled.
// UserError with the refusal's reason where that cannot be.
void lay_out(program::Program& p, size_t i, const program::Config& way);

// Those worth a trial on a CPU, whose template packs and pads what it reads by itself, and on a GPU, whose copies are of 16 bytes.
std::vector<program::Config> cpu_layouts(const program::Node& product, const program::Program& p);
std::vector<program::Config> gpu_layouts(const program::Node& product, const program::Program& p);

// Pads what a lowered program's products read on a GPU, without asking the clock: weights, and activations where the copy, which what
// computes them may join, takes less than it saves. A line for each product with rows that are badly aligned.
std::vector<std::string> pad_for_gpu(program::Program& p);

}  // namespace toroid::sched

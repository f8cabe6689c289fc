// Products that are too small for a template, as loops: fusion joins these with what makes their operands and reads their results.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"

namespace toroid::sched {

// Why node `product` cannot be a loop; empty when it can.
std::string decompose_mm_refusal(const program::Node& product);
// Makes it one: the sums are written out where they have a few terms, else they are a reduction. Elements are multiplied as they are
// (Gemm::tf32 is not made use of) and added in the type that the product accumulates in.
void decompose_mm(program::Node& product);
// Whether that is worth a trial: sums of a few terms, whose results take longer to store than to compute, and one row or column with
// so small a matrix that sharing it among threads, or packing it, is not worth while.
bool decompose_mm_pays(const program::Node& product);

}  // namespace toroid::sched

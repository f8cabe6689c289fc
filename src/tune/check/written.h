// Which elements of a region's results a choice writes: choices run on memory that holds patterns, and are compared on what they leave.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::tune {

// What memory for a result of these sizes holds before a choice runs, row-major in the host's memory: the same for equal arguments. Floats
// lie between -4 and 7, integers between 0 and 127. Pattern 0 and pattern 1 (`which`) differ in each element, floats by 3, so that no value
// can be taken for both.
Tensor pattern(const std::vector<int64_t>& sizes, DType dtype, uint64_t seed, int which);

// What a choice leaves in memory that held pattern 0, and in memory that held pattern 1; all in the host's memory, row-major, of one dtype
// and size.
struct Left {
  Tensor patterns[2], results[2];
};

// Of each element, 1 where the choice has left both patterns as they were: it does not write the element.
std::vector<uint8_t> unwritten(const Left& left);
// Whether the two results differ where they are written: then the choice combines what it writes with what was there.
bool combines(const Left& left, const std::vector<uint8_t>& unwritten);

// Empty where a choice leaves the elements that are marked as they were; else the first one that it writes, and how many these are. What
// combines a zero with a float that was there may round it.
std::string compare_unwritten(const Tensor& pattern, const Tensor& result, const std::vector<uint8_t>& unwritten);

// The tensor with nothing in those elements that a comparison looks at: NaN in floats and complex numbers, else zeros.
Tensor without(const Tensor& result, const std::vector<uint8_t>& unwritten);

}  // namespace toroid::tune

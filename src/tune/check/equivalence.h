// Whether a candidate computes what the default computes, within what rounding explains.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::tune {

// How a result comes about: what its rounding errors can be.
struct Contract {
  int64_t length = 1;             // terms of the longest sum behind an element, over all stages; 1: no sums
  DType accumulate = DType::F32;  // that sums are kept in
  DType result = DType::F32;
  std::vector<DType> operands = {};  // of what is summed
  // Values on the way to an element that one program rounds to the narrowest operand's dtype and another keeps as it is, as fusion does.
  int intermediates = 0;
  bool tf32 = false;  // products may round f32 operands to tf32, as one program does and another does not
};

// Strict: equal bits. Fast: within the contract.
enum class Equivalence { Strict, Fast };

// Unit roundoff: half the distance from 1 to the next number. 0 for what is no float.
double unit_roundoff(DType t);

// The error that an element may have relative to its size, as the difference of two programs that both keep the contract:
//   2 L sqrt(length) u(accumulate) + 2 u(result) + 2 L sqrt(intermediates) u(narrowest operand) + 8 u(accumulate)
// where L = sqrt(2 ln(2 elements / 1e-6)). Roundings of a sum of n terms add up like a random walk: the error is below L sqrt(n) u times
// the sum of the magnitudes with probability 1 - 2 exp(-L^2 / 2) (Higham, Mary: A New Approach to Probabilistic Rounding Error Analysis,
// SIAM J. Sci. Comput. 41(5), 2019), and for terms of mean zero, as generated inputs give, below that times the size of the result itself
// (Higham, Mary: Sharper Probabilistic Backward Error Analysis, SIAM J. Sci. Comput. 42(5), 2020). The last term is for elementary
// functions. One of all elements breaks it with probability 1e-6.
double relative_bound(const Contract& c, int64_t elements);

// Empty where the results of a candidate are those of the default, else why not: shape, dtype or strides, or the largest error with its
// place, both values and the bound. The size of an element is its magnitude or the root mean square of its row (of all elements, where
// rows are shorter than 16), whichever is larger. NaN and infinities must be in the same places; where the default overflows, the
// candidate may be just below. Integers and Bools are equal or not. Tensors may lie on any device. contracts: one for each result.
std::string compare(std::span<const Tensor> got, std::span<const Tensor> want, std::span<const Contract> contracts,
                    Equivalence equivalence = Equivalence::Fast);

}  // namespace toroid::tune

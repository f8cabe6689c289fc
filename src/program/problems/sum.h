// Sums of products as problems define them.
#pragma once

#include "base/scalar.h"

namespace toroid::program {

// In double or in integers.
struct Sum {
  double f = 0;
  uint64_t i = 0;  // wraps around
  void add(const Number& a, const Number& b) {
    f += a.as_double() * b.as_double();
    i += static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i);
  }
  Number as(DType t) const { return convert(is_float(t) ? Number::of(f) : Number::of(static_cast<int64_t>(i)), t); }
};

}  // namespace toroid::program

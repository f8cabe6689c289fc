// Discrete Fourier transforms in double precision on row-major data.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace toroid::ops {

// Unscaled transform along the middle dimension of outer x n x inner numbers: sums x[k] * exp(sign * 2 pi i j k / n).
void fourier_transform(std::vector<std::complex<double>>& data, int64_t outer, int64_t n, int64_t inner, int sign);

}  // namespace toroid::ops

#include "program/problems/scan.h"

#include <algorithm>
#include <cmath>

namespace toroid::program {
namespace {

double log_add_exp(double a, double b) {
  const double top = std::max(a, b);
  if (std::isnan(a) || std::isnan(b)) return NAN;
  return std::isinf(top) ? top : top + std::log1p(std::exp(std::min(a, b) - top));
}

}  // namespace

void compute(const Scan& s, const Tensors& operands) {
  const Tensor &input = operands[0], &totals = operands[1], &values = operands[2];
  const size_t last = input.sizes().size() - 1;
  const int64_t length = input.sizes()[last];
  each_row(input.sizes(), [&](std::vector<int64_t>& at) {
    double before = -HUGE_VAL;
    for (int64_t piece = 0; piece * kScanPiece < length; ++piece) {
      double sum = s.part == ScanPart::Totals ? -HUGE_VAL : before;
      for (int64_t i = piece * kScanPiece; i < std::min(length, (piece + 1) * kScanPiece); ++i) {
        at[last] = i;
        sum = log_add_exp(sum, element(input, at).as_double());
        if (values.defined()) set_element(values, at, Number::of(sum));
      }
      at[last] = piece;
      if (s.part == ScanPart::Totals)
        set_element(totals, at, Number::of(sum));
      else
        before = log_add_exp(before, element(totals, at).as_double());
    }
  });
}

}  // namespace toroid::program

#include "ops/rows/fft_transform.h"

#include <cmath>

#include "base/check.h"

#ifdef TOROID_HAVE_FFTW
#include <fftw3.h>

#include <limits>
#include <mutex>
#endif

namespace toroid::ops {
namespace {

#ifdef TOROID_HAVE_FFTW
// FFTW's planner is not thread-safe.
std::mutex& planner() {
  static std::mutex m;
  return m;
}

void transform_block(std::complex<double>* data, int n, int inner, int sign) {
  auto* p = reinterpret_cast<fftw_complex*>(data);
  fftw_plan plan;
  {
    std::lock_guard lock(planner());
    plan = fftw_plan_many_dft(1, &n, inner, p, nullptr, inner, 1, p, nullptr, inner, 1, sign, FFTW_ESTIMATE);
  }
  if (!plan) fail<EnvironmentError>("FFTW cannot plan a transform of {} x {} numbers", n, inner);
  fftw_execute(plan);
  std::lock_guard lock(planner());
  fftw_destroy_plan(plan);
}
#else
// By the definition.
void transform_block(std::complex<double>* data, int64_t n, int64_t inner, int sign) {
  constexpr double kTwoPi = 6.28318530717958647693;
  std::vector<std::complex<double>> root(static_cast<size_t>(n)), column(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k)
    root[static_cast<size_t>(k)] = std::polar(1.0, sign * kTwoPi * static_cast<double>(k) / static_cast<double>(n));
  for (int64_t i = 0; i < inner; ++i) {
    for (int64_t k = 0; k < n; ++k) column[static_cast<size_t>(k)] = data[k * inner + i];
    for (int64_t j = 0; j < n; ++j) {
      std::complex<double> sum = 0;
      for (int64_t k = 0, turn = 0; k < n; ++k, turn = (turn + j) % n)
        sum += column[static_cast<size_t>(k)] * root[static_cast<size_t>(turn)];
      data[j * inner + i] = sum;
    }
  }
}
#endif

}  // namespace

void fourier_transform(std::vector<std::complex<double>>& data, int64_t outer, int64_t n, int64_t inner, int sign) {
  if (data.empty()) return;
  TOROID_CHECK(static_cast<int64_t>(data.size()) == outer * n * inner, "{} numbers for a transform of {} x {} x {}", data.size(), outer, n,
               inner);
#ifdef TOROID_HAVE_FFTW
  constexpr int64_t kMax = std::numeric_limits<int>::max();
  TOROID_USER_CHECK(n <= kMax && inner <= kMax, "a Fourier transform of {} x {} numbers is too large", n, inner);
  for (int64_t o = 0; o < outer; ++o) transform_block(data.data() + o * n * inner, static_cast<int>(n), static_cast<int>(inner), sign);
#else
  for (int64_t o = 0; o < outer; ++o) transform_block(data.data() + o * n * inner, n, inner, sign);
#endif
}

}  // namespace toroid::ops

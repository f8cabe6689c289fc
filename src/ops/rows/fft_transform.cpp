// Stockham's transform, which needs no reordering, for sizes whose prime factors are small, and Bluestein's for all others.
#include "ops/rows/fft_transform.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace toroid::ops {
namespace {

// Larger prime factors go to Bluestein's transform.
constexpr int64_t kLargestRadix = 31;

// Complex numbers as two arrays, so that loops over neighbours become vector instructions.
struct Split {
  explicit Split(size_t n) : re(n), im(n) {}
  std::vector<double> re, im;
};

// exp(-2 pi i k / n) for k < n. Symmetry saves most sines, and keeps the angle of each below an eighth where 8 divides n.
Split roots_of_unity(int64_t n) {
  constexpr double kTwoPi = 6.28318530717958647693;
  Split r(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    auto at = static_cast<size_t>(k);
    if (2 * k > n) {
      r.re[at] = r.re[static_cast<size_t>(n - k)], r.im[at] = -r.im[static_cast<size_t>(n - k)];
    } else if (4 * k > n && n % 2 == 0) {
      r.re[at] = -r.re[static_cast<size_t>(n / 2 - k)], r.im[at] = r.im[static_cast<size_t>(n / 2 - k)];
    } else if (8 * k > n && n % 4 == 0) {
      r.re[at] = -r.im[static_cast<size_t>(n / 4 - k)], r.im[at] = -r.re[static_cast<size_t>(n / 4 - k)];
    } else {
      double angle = kTwoPi * static_cast<double>(k) / static_cast<double>(n);
      r.re[at] = std::cos(angle), r.im[at] = -std::sin(angle);
    }
  }
  return r;
}

// One pass of Stockham's transform: m groups of `radix` inputs, m apart, become `radix` neighbours. Each is a row of `s` numbers.
struct Pass {
  const Split& roots;
  int64_t n, stride;  // of the whole transform; roots[stride] is the root of this pass
  int64_t m, s;
  const double *xr, *xi;
  double *yr, *yi;
};

struct Number {
  double re, im;
};
inline Number operator+(Number a, Number b) { return {a.re + b.re, a.im + b.im}; }
inline Number operator-(Number a, Number b) { return {a.re - b.re, a.im - b.im}; }
inline Number operator*(double f, Number a) { return {f * a.re, f * a.im}; }
inline Number operator*(Number a, Number b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline Number turned(Number a) { return {a.im, -a.re}; }  // by -i

inline void butterfly(Number (&a)[2]) {
  Number t = a[1];
  a[1] = a[0] - t, a[0] = a[0] + t;
}

inline void butterfly(Number (&a)[3]) {
  constexpr double kSin = 0.86602540378443864676;  // of a third turn
  Number sum = a[1] + a[2], middle = a[0] - 0.5 * sum, side = kSin * turned(a[1] - a[2]);
  a[0] = a[0] + sum, a[1] = middle + side, a[2] = middle - side;
}

inline void butterfly(Number (&a)[4]) {
  Number even = a[0] + a[2], odd = a[0] - a[2], sum = a[1] + a[3], side = turned(a[1] - a[3]);
  a[0] = even + sum, a[1] = odd + side, a[2] = even - sum, a[3] = odd - side;
}

inline void butterfly(Number (&a)[5]) {
  constexpr double kCos1 = 0.30901699437494742410, kCos2 = -0.80901699437494742410;  // of one and two fifths of a turn
  constexpr double kSin1 = 0.95105651629515357212, kSin2 = 0.58778525229247312917;
  Number p = a[1] + a[4], q = a[2] + a[3], dp = turned(a[1] - a[4]), dq = turned(a[2] - a[3]);
  Number m1 = a[0] + kCos1 * p + kCos2 * q, s1 = kSin1 * dp + kSin2 * dq;
  Number m2 = a[0] + kCos2 * p + kCos1 * q, s2 = kSin2 * dp - kSin1 * dq;
  a[0] = a[0] + p + q, a[1] = m1 + s1, a[4] = m1 - s1, a[2] = m2 + s2, a[3] = m2 - s2;
}

template <int R>
void run_pass(const Pass& c) {
  const double* __restrict xr = c.xr, * __restrict xi = c.xi;
  double* __restrict yr = c.yr, * __restrict yi = c.yi;
  const int64_t s = c.s, apart = c.m * c.s;
  for (int64_t p = 0; p < c.m; ++p) {
    Number w[R];
    for (int k = 1; k < R; ++k)
      w[k] = {c.roots.re[static_cast<size_t>(p * k * c.stride)], c.roots.im[static_cast<size_t>(p * k * c.stride)]};
    for (int64_t q = 0; q < s; ++q) {
      Number a[R];
      for (int j = 0; j < R; ++j) a[j] = {xr[q + p * s + j * apart], xi[q + p * s + j * apart]};
      butterfly(a);
      for (int k = 0; k < R; ++k) {
        Number v = k == 0 ? a[0] : a[k] * w[k];
        yr[q + (p * R + k) * s] = v.re, yi[q + (p * R + k) * s] = v.im;
      }
    }
  }
}

// Of any radix, by the definition.
void run_pass(const Pass& c, int64_t radix) {
  const double* __restrict xr = c.xr, * __restrict xi = c.xi;
  double* __restrict yr = c.yr, * __restrict yi = c.yi;
  for (int64_t p = 0; p < c.m; ++p) {
    for (int64_t k = 0; k < radix; ++k) {
      const int64_t to = (p * radix + k) * c.s;
      std::fill_n(yr + to, c.s, 0.0);
      std::fill_n(yi + to, c.s, 0.0);
      for (int64_t j = 0; j < radix; ++j) {
        auto turn = static_cast<size_t>((j * k % radix * (c.n / radix) + p * k * c.stride) % c.n);
        const int64_t from = (p + j * c.m) * c.s;
        const double wr = c.roots.re[turn], wi = c.roots.im[turn];
        for (int64_t q = 0; q < c.s; ++q) {
          yr[to + q] += xr[from + q] * wr - xi[from + q] * wi;
          yi[to + q] += xr[from + q] * wi + xi[from + q] * wr;
        }
      }
    }
  }
}

// The radices of the passes for n; empty when a prime factor is too large.
std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t r : {4, 2, 3, 5})
    for (; n % r == 0; n /= r) out.push_back(r);
  for (int64_t r = 7; r <= kLargestRadix; r += 2)
    for (; n % r == 0; n /= r) out.push_back(r);
  return n == 1 ? out : std::vector<int64_t>();
}

// Transforms of `width` neighbouring columns of n numbers with small prime factors.
class Smooth {
 public:
  Smooth(int64_t n, int64_t width) : n_(n), width_(width), radices_(radices_of(n)), roots_(roots_of_unity(n)), other_(size()) {}

  // n x width numbers in place: sums of x[k] * exp(-2 pi i j k / n). Called with the parts exchanged, it is the inverse.
  void run(std::vector<double>& re, std::vector<double>& im) {
    int64_t m = n_, done = 1;
    for (int64_t r : radices_) {
      m /= r;
      Pass pass{roots_, n_, done, m, done * width_, re.data(), im.data(), other_.re.data(), other_.im.data()};
      switch (r) {
        case 2:
          run_pass<2>(pass);
          break;
        case 3:
          run_pass<3>(pass);
          break;
        case 4:
          run_pass<4>(pass);
          break;
        case 5:
          run_pass<5>(pass);
          break;
        default:
          run_pass(pass, r);
      }
      re.swap(other_.re);
      im.swap(other_.im);
      done *= r;
    }
  }
  size_t size() const { return static_cast<size_t>(n_ * width_); }

 private:
  int64_t n_, width_;
  std::vector<int64_t> radices_;
  Split roots_, other_;
};

// The smallest size for Bluestein's convolution of which the passes are fast.
int64_t convolution_size(int64_t n) {
  int64_t best = 0;
  for (int64_t size : {4, 5, 6}) {
    while (size < 2 * n - 1) size *= 2;
    if (best == 0 || size < best) best = size;
  }
  return best;
}

// As j k = (j^2 + k^2 - (k - j)^2) / 2, a transform of any size is a convolution with a chirp, exp(pi i k^2 / n).
class Bluestein {
 public:
  Bluestein(int64_t n, int64_t width)
      : n_(n),
        width_(width),
        size_(convolution_size(n)),
        smooth_(size_, width),
        chirp_(static_cast<size_t>(n)),
        spectrum_(static_cast<size_t>(size_)),
        work_(smooth_.size()) {
    Split roots = roots_of_unity(2 * n);
    for (int64_t k = 0, square = 0; k < n; square = (square + 2 * k + 1) % (2 * n), ++k) {
      auto at = static_cast<size_t>(k), back = static_cast<size_t>((size_ - k) % size_);
      chirp_.re[at] = roots.re[static_cast<size_t>(square)], chirp_.im[at] = roots.im[static_cast<size_t>(square)];
      spectrum_.re[at] = spectrum_.re[back] = chirp_.re[at], spectrum_.im[at] = spectrum_.im[back] = -chirp_.im[at];
    }
    Smooth(size_, 1).run(spectrum_.re, spectrum_.im);
    for (auto* part : {&spectrum_.re, &spectrum_.im})
      for (double& v : *part) v /= static_cast<double>(size_);  // of the inverse transform
  }

  void run(std::vector<double>& re, std::vector<double>& im) {
    std::fill(work_.re.begin(), work_.re.end(), 0.0);
    std::fill(work_.im.begin(), work_.im.end(), 0.0);
    multiply(re, im, chirp_, n_, work_.re, work_.im);
    smooth_.run(work_.re, work_.im);
    multiply(work_.re, work_.im, spectrum_, size_, work_.re, work_.im);
    smooth_.run(work_.im, work_.re);
    multiply(work_.re, work_.im, chirp_, n_, re, im);
  }

 private:
  // to = from * factors, one factor a row.
  void multiply(const std::vector<double>& re, const std::vector<double>& im, const Split& factors, int64_t rows,
                std::vector<double>& to_re, std::vector<double>& to_im) const {
    for (int64_t k = 0; k < rows; ++k) {
      const Number f{factors.re[static_cast<size_t>(k)], factors.im[static_cast<size_t>(k)]};
      for (auto i = static_cast<size_t>(k * width_), end = i + static_cast<size_t>(width_); i < end; ++i) {
        Number v = f * Number{re[i], im[i]};
        to_re[i] = v.re, to_im[i] = v.im;
      }
    }
  }

  int64_t n_, width_, size_;
  Smooth smooth_;
  Split chirp_, spectrum_, work_;
};

// Columns are gathered `width` at a time, so that passes run over neighbours and within a cache. A column starts at
// (column / inner) * n * inner + column % inner.
template <class Transform>
void transform_columns(std::complex<double>* data, int64_t columns, int64_t n, int64_t inner, int64_t width, int sign) {
  Transform transform(n, width);
  Split block(static_cast<size_t>(n * width));
  std::vector<std::complex<double>*> starts(static_cast<size_t>(width));
  for (int64_t first = 0; first < columns; first += width) {
    const auto lanes = static_cast<size_t>(std::min(width, columns - first));  // others hold what is left of the block before
    for (size_t i = 0; i < lanes; ++i) {
      int64_t column = first + static_cast<int64_t>(i);
      starts[i] = data + column / inner * n * inner + column % inner;
    }
    for (int64_t k = 0; k < n; ++k)
      for (size_t i = 0, at = static_cast<size_t>(k * width); i < lanes; ++i, ++at)
        block.re[at] = starts[i][k * inner].real(), block.im[at] = starts[i][k * inner].imag();
    if (sign < 0)
      transform.run(block.re, block.im);
    else
      transform.run(block.im, block.re);
    for (int64_t k = 0; k < n; ++k)
      for (size_t i = 0, at = static_cast<size_t>(k * width); i < lanes; ++i, ++at) starts[i][k * inner] = {block.re[at], block.im[at]};
  }
}

// Columns that are transformed together: those of about 2048 numbers, but 4 to 16.
int64_t columns_at_once(int64_t columns, int64_t n) { return std::min(columns, std::clamp<int64_t>(2048 / n, 4, 16)); }

}  // namespace

void fourier_transform(std::vector<std::complex<double>>& data, int64_t outer, int64_t n, int64_t inner, int sign) {
  if (data.empty() || n == 1) return;
  TOROID_CHECK(static_cast<int64_t>(data.size()) == outer * n * inner, "{} numbers for a transform of {} x {} x {}", data.size(), outer, n,
               inner);
  const int64_t width = columns_at_once(outer * inner, n);
  if (radices_of(n).empty())
    transform_columns<Bluestein>(data.data(), outer * inner, n, inner, width, sign);
  else
    transform_columns<Smooth>(data.data(), outer * inner, n, inner, width, sign);
}

}  // namespace toroid::ops

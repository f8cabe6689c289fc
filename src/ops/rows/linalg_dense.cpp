#include "ops/rows/linalg_dense.h"

#include <algorithm>
#include <cmath>

namespace toroid::ops::dense {

template <class T>
void swap_rows(T* b, int64_t columns, const int64_t* pivots, int64_t count, bool forward) {
  for (int64_t s = 0; s < count; ++s) {
    int64_t i = forward ? s : count - 1 - s, p = pivots[i] - 1;
    if (p != i) std::swap_ranges(b + i * columns, b + (i + 1) * columns, b + p * columns);
  }
}

template <class T>
int64_t lu_factor(T* a, int64_t m, int64_t n, int64_t* pivots, bool pivot) {
  // LAPACK measures complex pivots by |re| + |im|.
  auto size = [](const T& x) {
    if constexpr (kIsComplex<T>)
      return std::abs(x.real()) + std::abs(x.imag());
    else
      return std::abs(x);
  };
  int64_t info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < m; ++i)
      if (size(a[i * n + k]) > size(a[best * n + k])) best = i;
    pivots[k] = best + 1;
    if (best != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
    if (a[k * n + k] == T(0)) {
      if (info == 0) info = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < m; ++i) {
      T f = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return info;
}

template <class T>
void solve_triangular(const T* a, int64_t n, T* b, int64_t columns, bool upper, bool unit, Form form) {
  auto at = [&](int64_t i, int64_t j) {
    if (form == Form::Plain) return a[i * n + j];
    return form == Form::Transposed ? a[j * n + i] : conj(a[j * n + i]);
  };
  bool backwards = upper == (form == Form::Plain);
  for (int64_t s = 0; s < n; ++s) {
    int64_t i = backwards ? n - 1 - s : s;
    T* row = b + i * columns;
    for (int64_t r = 0; r < s; ++r) {
      int64_t k = backwards ? n - 1 - r : r;
      T f = at(i, k);
      for (int64_t j = 0; j < columns; ++j) row[j] -= f * b[k * columns + j];
    }
    if (unit) continue;
    T d = at(i, i);
    for (int64_t j = 0; j < columns; ++j) row[j] /= d;
  }
}

template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* b, int64_t columns, Form form) {
  if (form == Form::Plain) {
    swap_rows(b, columns, pivots, n, true);
    solve_triangular(lu, n, b, columns, false, true, form);
    solve_triangular(lu, n, b, columns, true, false, form);
  } else {
    solve_triangular(lu, n, b, columns, true, false, form);
    solve_triangular(lu, n, b, columns, false, true, form);
    swap_rows(b, columns, pivots, n, false);
  }
}

template <class T>
int64_t cholesky(T* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double d = std::real(a[j * n + j]);
    for (int64_t k = 0; k < j; ++k) d -= std::norm(a[j * n + k]);
    if (!(d > 0)) return j + 1;
    double root = std::sqrt(d);
    a[j * n + j] = root;
    for (int64_t i = j + 1; i < n; ++i) {
      T v = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) v -= a[i * n + k] * conj(a[j * n + k]);
      a[i * n + j] = v / root;
    }
    for (int64_t k = j + 1; k < n; ++k) a[j * n + k] = T(0);
  }
  return 0;
}

namespace {

// c (rows first ... m-1, columns) -= tau v (v^H c), v in column `first` of a below an implied 1.
template <class T>
void reflect(const T* a, int64_t stride, int64_t first, T tau, T* c, int64_t m, int64_t begin, int64_t n) {
  if (tau == T(0)) return;
  for (int64_t j = begin; j < n; ++j) {
    T dot = c[first * n + j];
    for (int64_t i = first + 1; i < m; ++i) dot += conj(a[i * stride + first]) * c[i * n + j];
    dot *= tau;
    c[first * n + j] -= dot;
    for (int64_t i = first + 1; i < m; ++i) c[i * n + j] -= a[i * stride + first] * dot;
  }
}

}  // namespace

template <class T>
void qr_factor(T* a, int64_t m, int64_t n, T* tau) {
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < m; ++i) below += std::norm(a[i * n + k]);
    T alpha = a[k * n + k];
    tau[k] = T(0);
    if (below == 0 && std::imag(alpha) == 0) continue;
    double beta = -std::copysign(std::sqrt(std::norm(alpha) + below), std::real(alpha));
    tau[k] = (beta - alpha) / beta;
    for (int64_t i = k + 1; i < m; ++i) a[i * n + k] /= alpha - beta;
    a[k * n + k] = beta;
    reflect(a, n, k, conj(tau[k]), a, m, k + 1, n);
  }
}

template <class T>
void apply_reflectors(const T* a, int64_t stride, const T* tau, int64_t count, T* c, int64_t m, int64_t n, bool adjoint) {
  for (int64_t s = 0; s < count; ++s) {
    int64_t k = adjoint ? s : count - 1 - s;
    reflect(a, stride, k, adjoint ? conj(tau[k]) : tau[k], c, m, 0, n);
  }
}

template <class T>
std::vector<T> reflector_product(const T* a, int64_t m, int64_t stride, const T* tau, int64_t count, int64_t columns) {
  std::vector<T> q(static_cast<size_t>(m * columns));
  for (int64_t i = 0; i < std::min(m, columns); ++i) q[static_cast<size_t>(i * columns + i)] = T(1);
  apply_reflectors(a, stride, tau, count, q.data(), m, columns, false);
  return q;
}

template <class T>
std::vector<T> multiply(const T* a, const T* b, int64_t m, int64_t k, int64_t n) {
  std::vector<T> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) c[static_cast<size_t>(i * n + j)] += a[i * k + p] * b[p * n + j];
  return c;
}

template <class T>
std::vector<T> exponential(const T* a, int64_t n) {
  double norm = 0;
  for (int64_t i = 0; i < n; ++i) {
    double row = 0;
    for (int64_t j = 0; j < n; ++j) row += std::abs(a[i * n + j]);
    norm = std::max(norm, row);
  }
  int halvings = std::isfinite(norm) && norm > 0.5 ? std::ilogb(norm) + 2 : 0;
  size_t count = static_cast<size_t>(n * n);
  std::vector<T> x(a, a + count), sum(count), term(count);
  for (auto& v : x) v *= std::ldexp(1.0, -halvings);
  for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i * n + i)] = term[static_cast<size_t>(i * n + i)] = T(1);
  for (int k = 1; k <= 18; ++k) {  // norm <= 1/2: the next term is below 1e-22
    term = multiply(term.data(), x.data(), n, n, n);
    for (size_t i = 0; i < count; ++i) sum[i] += term[i] /= static_cast<double>(k);
  }
  for (int s = 0; s < halvings; ++s) sum = multiply(sum.data(), sum.data(), n, n, n);
  return sum;
}

template <class T>
std::vector<T> transposed(const T* a, int64_t m, int64_t n) {
  std::vector<T> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) out[static_cast<size_t>(j * m + i)] = a[i * n + j];
  return out;
}

template <class T>
std::vector<T> adjoint(const T* a, int64_t m, int64_t n) {
  std::vector<T> out = transposed(a, m, n);
  for (auto& v : out) v = conj(v);
  return out;
}

#define TOROID_DENSE(T) \
  template int64_t lu_factor<T>(T*, int64_t, int64_t, int64_t*, bool); \
  template void swap_rows<T>(T*, int64_t, const int64_t*, int64_t, bool); \
  template void solve_triangular<T>(const T*, int64_t, T*, int64_t, bool, bool, Form); \
  template void lu_solve<T>(const T*, const int64_t*, int64_t, T*, int64_t, Form); \
  template int64_t cholesky<T>(T*, int64_t); \
  template void qr_factor<T>(T*, int64_t, int64_t, T*); \
  template std::vector<T> reflector_product<T>(const T*, int64_t, int64_t, const T*, int64_t, int64_t); \
  template void apply_reflectors<T>(const T*, int64_t, const T*, int64_t, T*, int64_t, int64_t, bool); \
  template std::vector<T> multiply<T>(const T*, const T*, int64_t, int64_t, int64_t); \
  template std::vector<T> exponential<T>(const T*, int64_t); \
  template std::vector<T> adjoint<T>(const T*, int64_t, int64_t); \
  template std::vector<T> transposed<T>(const T*, int64_t, int64_t);
TOROID_DENSE(double)
TOROID_DENSE(std::complex<double>)
#undef TOROID_DENSE

}  // namespace toroid::ops::dense

// Direct factorisations (LU, Cholesky, QR) of small row-major matrices, for double and std::complex<double>. Results follow LAPACK's
// conventions. The iterative ones are in linalg_lapack.h.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace toroid::ops::dense {

template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, double>;

inline double conj(double x) { return x; }
inline std::complex<double> conj(const std::complex<double>& x) { return std::conj(x); }

// m x n, in place: unit lower and upper triangle. pivots (min(m, n) numbers, from 1): row i was swapped with row pivots[i].
// Returns 0, or the number of the first zero pivot (from 1).
template <class T>
int64_t lu_factor(T* a, int64_t m, int64_t n, int64_t* pivots, bool pivot);
// Applies the swaps to the rows of b (columns wide), forwards or backwards.
template <class T>
void swap_rows(T* b, int64_t columns, const int64_t* pivots, int64_t count, bool forward);

enum class Form : uint8_t { Plain, Transposed, Adjoint };
// b (n x columns) = op(a)^-1 b with a triangular n x n; `upper` says which triangle of a is stored.
template <class T>
void solve_triangular(const T* a, int64_t n, T* b, int64_t columns, bool upper, bool unit, Form form);
// b = op(a)^-1 b from an LU factorisation.
template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* b, int64_t columns, Form form);

// Lower triangle of a = L L^H in place, the upper one zeroed. Returns 0, or the order of the leading minor that is not positive.
template <class T>
int64_t cholesky(T* a, int64_t n);

// Householder QR of m x n in place; tau has min(m, n) numbers.
template <class T>
void qr_factor(T* a, int64_t m, int64_t n, T* tau);
// First `columns` columns (m x columns) of H_1 H_2 ... H_count; reflectors stored below the diagonal of a (m x stride).
template <class T>
std::vector<T> reflector_product(const T* a, int64_t m, int64_t stride, const T* tau, int64_t count, int64_t columns);
// c (m x n) = Q c, or Q^H c; Q as above with vectors of length m.
template <class T>
void apply_reflectors(const T* a, int64_t stride, const T* tau, int64_t count, T* c, int64_t m, int64_t n, bool adjoint);

// m x k times k x n.
template <class T>
std::vector<T> multiply(const T* a, const T* b, int64_t m, int64_t k, int64_t n);
// e^a of n x n by scaling, a Taylor polynomial and squaring.
template <class T>
std::vector<T> exponential(const T* a, int64_t n);
// Conjugate transpose of m x n.
template <class T>
std::vector<T> adjoint(const T* a, int64_t m, int64_t n);
template <class T>
std::vector<T> transposed(const T* a, int64_t m, int64_t n);

}  // namespace toroid::ops::dense

// Singular values, eigenvalues and L D L^T factors by LAPACK, which is opened when one is first asked for; row-major double and
// std::complex<double>. The direct factorisations need no library (linalg_dense.h). `name` is the operation that asks, for messages. A
// failure to converge is a UserError, a missing library an EnvironmentError that says what to install.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shared_library.h"

namespace toroid::ops::lapack {

// The first of these files that can be opened, with LAPACK's Fortran interface and 32-bit integers.
SharedLibrary open(const std::string& name, std::span<const char* const> files);

template <class T>
struct Svd {
  std::vector<T> u, vh;  // m x m (or m x k) and n x n (or k x n), k = min(m, n)
  std::vector<double> s;
};
template <class T>
Svd<T> svd(const std::string& name, std::vector<T> a, int64_t m, int64_t n, bool full);

template <class T>
struct Eigh {
  std::vector<double> values;  // ascending
  std::vector<T> vectors;      // columns
};
template <class T>
Eigh<T> eigh(const std::string& name, std::vector<T> a, int64_t n, bool upper);

struct Eig {
  std::vector<std::complex<double>> values, vectors;
};
template <class T>
Eig eig(const std::string& name, std::vector<T> a, int64_t n);

// Bunch-Kaufman L D L^T (or L D L^H) of the lower triangle, in place. Returns LAPACK's info (singular D).
template <class T>
int64_t ldl_factor(const std::string& name, std::vector<T>& a, std::vector<int64_t>& pivots, int64_t n, bool hermitian);
template <class T>
void ldl_solve(const std::string& name, const std::vector<T>& ld, const std::vector<int64_t>& pivots, std::vector<T>& b, int64_t n,
               int64_t columns, bool hermitian);

}  // namespace toroid::ops::lapack

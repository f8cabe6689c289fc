#include "ops/rows/linalg_lapack.h"

#include <algorithm>

#include "base/check.h"
#include "ops/rows/linalg_dense.h"

#ifdef TOROID_HAVE_LAPACK
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>
#endif

namespace toroid::ops::lapack {

#ifdef TOROID_HAVE_LAPACK

namespace {

lapack_int as_int(int64_t v) { return static_cast<lapack_int>(v); }

void check(const std::string& name, lapack_int info, const char* routine) {
  if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
    fail<EnvironmentError>("{}: not enough memory for LAPACK", name);
  TOROID_CHECK(info >= 0 || info < -1000, "{}: {} refused argument {}", name, routine, -info);
  TOROID_USER_CHECK(info == 0, "{}: {} did not converge (info {}); the input may hold NaN or be badly conditioned", name, routine, info);
}

template <class T>
void check_finite(const std::string& name, const std::vector<T>& a) {
  bool finite = std::all_of(a.begin(), a.end(), [](const T& x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); });
  TOROID_USER_CHECK(finite, "{}: the matrix holds NaN or infinity", name);
}

// LAPACK's own order: column-major copies avoid LAPACKE's hidden transposes and their checks.
constexpr int kLayout = LAPACK_COL_MAJOR;

}  // namespace

template <class T>
Svd<T> svd(const std::string& name, std::vector<T> a, int64_t m, int64_t n, bool full) {
  check_finite(name, a);
  int64_t k = std::min(m, n), uc = full ? m : k, vr = full ? n : k;
  std::vector<T> columns = dense::transposed(a.data(), m, n), u(static_cast<size_t>(m * uc)), vh(static_cast<size_t>(vr * n));
  Svd<T> r;
  r.s.resize(static_cast<size_t>(k));
  char job = full ? 'A' : 'S';
  lapack_int info;
  if constexpr (dense::kIsComplex<T>)
    info = LAPACKE_zgesdd(kLayout, job, as_int(m), as_int(n), columns.data(), as_int(m), r.s.data(), u.data(), as_int(m), vh.data(),
                          as_int(vr));
  else
    info = LAPACKE_dgesdd(kLayout, job, as_int(m), as_int(n), columns.data(), as_int(m), r.s.data(), u.data(), as_int(m), vh.data(),
                          as_int(vr));
  check(name, info, "gesdd");
  r.u = dense::transposed(u.data(), uc, m);
  r.vh = dense::transposed(vh.data(), n, vr);
  return r;
}

template <class T>
Eigh<T> eigh(const std::string& name, std::vector<T> a, int64_t n, bool upper) {
  check_finite(name, a);
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  Eigh<T> r;
  r.values.resize(static_cast<size_t>(n));
  char triangle = upper ? 'U' : 'L';
  lapack_int info;
  if constexpr (dense::kIsComplex<T>)
    info = LAPACKE_zheevd(kLayout, 'V', triangle, as_int(n), columns.data(), as_int(n), r.values.data());
  else
    info = LAPACKE_dsyevd(kLayout, 'V', triangle, as_int(n), columns.data(), as_int(n), r.values.data());
  check(name, info, "heevd");
  r.vectors = dense::transposed(columns.data(), n, n);
  return r;
}

template <class T>
Eig eig(const std::string& name, std::vector<T> a, int64_t n) {
  check_finite(name, a);
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  size_t count = static_cast<size_t>(n);
  std::vector<T> vectors(count * count);
  Eig r;
  r.values.resize(count);
  if constexpr (dense::kIsComplex<T>) {
    check(name,
          LAPACKE_zgeev(kLayout, 'N', 'V', as_int(n), columns.data(), as_int(n), r.values.data(), nullptr, 1, vectors.data(), as_int(n)),
          "geev");
    r.vectors = dense::transposed(vectors.data(), n, n);
  } else {
    std::vector<double> re(count), im(count);
    check(
        name,
        LAPACKE_dgeev(kLayout, 'N', 'V', as_int(n), columns.data(), as_int(n), re.data(), im.data(), nullptr, 1, vectors.data(), as_int(n)),
        "geev");
    r.vectors.resize(count * count);
    for (size_t j = 0; j < count; ++j) {
      r.values[j] = {re[j], im[j]};
      for (size_t i = 0; i < count; ++i) {
        // A conjugate pair is stored as the real and the imaginary part of its first vector.
        if (im[j] > 0)
          r.vectors[i * count + j] = {vectors[j * count + i], vectors[(j + 1) * count + i]};
        else if (im[j] < 0)
          r.vectors[i * count + j] = {vectors[(j - 1) * count + i], -vectors[j * count + i]};
        else
          r.vectors[i * count + j] = vectors[j * count + i];
      }
    }
  }
  return r;
}

template <class T>
int64_t ldl_factor(const std::string& name, std::vector<T>& a, std::vector<int64_t>& pivots, int64_t n, bool hermitian) {
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  std::vector<lapack_int> p(static_cast<size_t>(n));
  lapack_int info;
  if constexpr (dense::kIsComplex<T>) {
    info = hermitian ? LAPACKE_zhetrf(kLayout, 'L', as_int(n), columns.data(), as_int(n), p.data())
                     : LAPACKE_zsytrf(kLayout, 'L', as_int(n), columns.data(), as_int(n), p.data());
  } else {
    info = LAPACKE_dsytrf(kLayout, 'L', as_int(n), columns.data(), as_int(n), p.data());
  }
  if (info < 0) check(name, info, "sytrf");
  a = dense::transposed(columns.data(), n, n);
  pivots.assign(p.begin(), p.end());
  return info;
}

template <class T>
void ldl_solve(const std::string& name, const std::vector<T>& ld, const std::vector<int64_t>& pivots, std::vector<T>& b, int64_t n,
               int64_t columns, bool hermitian) {
  std::vector<T> a = dense::transposed(ld.data(), n, n), x = dense::transposed(b.data(), n, columns);
  std::vector<lapack_int> p;
  for (int64_t v : pivots) {
    // sytrs indexes rows by them without a check.
    TOROID_USER_CHECK(v != 0 && v <= n && v >= -n, "{}: pivot {} is out of range", name, v);
    p.push_back(as_int(v));
  }
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) continue;
    TOROID_USER_CHECK(i + 1 < p.size() && p[i + 1] == p[i], "{}: negative pivots must come in equal pairs", name);
    ++i;
  }
  lapack_int info;
  if constexpr (dense::kIsComplex<T>) {
    info = hermitian ? LAPACKE_zhetrs(kLayout, 'L', as_int(n), as_int(columns), a.data(), as_int(n), p.data(), x.data(), as_int(n))
                     : LAPACKE_zsytrs(kLayout, 'L', as_int(n), as_int(columns), a.data(), as_int(n), p.data(), x.data(), as_int(n));
  } else {
    info = LAPACKE_dsytrs(kLayout, 'L', as_int(n), as_int(columns), a.data(), as_int(n), p.data(), x.data(), as_int(n));
  }
  check(name, info, "sytrs");
  b = dense::transposed(x.data(), columns, n);
}

#else

namespace {

[[noreturn]] void missing(const std::string& name) {
  fail<EnvironmentError>("{}: this build has no LAPACK; install liblapacke (Debian: liblapacke-dev) and build again", name);
}

}  // namespace

template <class T>
Svd<T> svd(const std::string& name, std::vector<T>, int64_t, int64_t, bool) {
  missing(name);
}
template <class T>
Eigh<T> eigh(const std::string& name, std::vector<T>, int64_t, bool) {
  missing(name);
}
template <class T>
Eig eig(const std::string& name, std::vector<T>, int64_t) {
  missing(name);
}
template <class T>
int64_t ldl_factor(const std::string& name, std::vector<T>&, std::vector<int64_t>&, int64_t, bool) {
  missing(name);
}
template <class T>
void ldl_solve(const std::string& name, const std::vector<T>&, const std::vector<int64_t>&, std::vector<T>&, int64_t, int64_t, bool) {
  missing(name);
}

#endif

#define TOROID_LAPACK(T) \
  template Svd<T> svd<T>(const std::string&, std::vector<T>, int64_t, int64_t, bool); \
  template Eigh<T> eigh<T>(const std::string&, std::vector<T>, int64_t, bool); \
  template Eig eig<T>(const std::string&, std::vector<T>, int64_t); \
  template int64_t ldl_factor<T>(const std::string&, std::vector<T>&, std::vector<int64_t>&, int64_t, bool); \
  template void ldl_solve<T>(const std::string&, const std::vector<T>&, const std::vector<int64_t>&, std::vector<T>&, int64_t, int64_t, \
                             bool);
TOROID_LAPACK(double)
TOROID_LAPACK(std::complex<double>)
#undef TOROID_LAPACK

}  // namespace toroid::ops::lapack

#include "ops/rows/linalg_lapack.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "ops/rows/linalg_dense.h"

namespace toroid::ops::lapack {
namespace {

using Int = int;  // of LAPACK built in the usual way, with integers of 32 bits
constexpr Int kQuery = -1;

Int as_int(const std::string& name, int64_t v) {
  TOROID_USER_CHECK(v >= 0 && v <= std::numeric_limits<Int>::max(), "{}: the matrix is too large for LAPACK, which counts in 32 bits",
                    name);
  return static_cast<Int>(v);
}

const SharedLibrary& library(const std::string& name) {
  // Debian's libopenblas0 provides the first of them, too.
  static constexpr const char* kFiles[] = {"liblapack.so.3", "libopenblas.so.0"};
  static const SharedLibrary* const opened = new SharedLibrary(open(name, kFiles));  // never destroyed: threads may still run it at exit
  return *opened;
}

// Calls e.g. dgesdd_ or zgesdd_. Fortran takes all arguments by address and, after them, the length of each character.
template <class T, class... Args>
void call(const std::string& name, const char* routine, Args... args) {
  const std::string symbol = std::string(1, dense::kIsComplex<T> ? 'z' : 'd') + routine + '_';
  library(name).function<void(Args...)>(symbol.c_str())(args...);
}

// Runs f(work, length) with as much memory as f asks for when length is kQuery. Further queries fill what else f holds.
template <class T, class F>
void with_work(const std::string& name, F&& f) {
  T wanted{};
  f(&wanted, kQuery);
  const Int length = as_int(name, static_cast<int64_t>(std::real(wanted)));
  std::vector<T> work(static_cast<size_t>(std::max(length, 1)));
  f(work.data(), length);
}

void check(const std::string& name, Int info, const char* routine) {
  TOROID_CHECK(info >= 0, "{}: {} refused argument {}", name, routine, -info);
  TOROID_USER_CHECK(info == 0, "{}: {} did not converge (info {}); the input may hold NaN or be badly conditioned", name, routine, info);
}

template <class T>
void check_finite(const std::string& name, const std::vector<T>& a) {
  bool finite = std::all_of(a.begin(), a.end(), [](const T& x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); });
  TOROID_USER_CHECK(finite, "{}: the matrix holds NaN or infinity", name);
}

constexpr size_t kOne = 1;  // the length of a character argument

}  // namespace

SharedLibrary open(const std::string& name, std::span<const char* const> files) {
  return SharedLibrary(name + ": LAPACK, which computes singular values, eigenvalues and L D L^T factors on the CPU,", files, "",
                       "Install it (Debian: apt-get install libopenblas0, or liblapack3).");
}

template <class T>
Svd<T> svd(const std::string& name, std::vector<T> a, int64_t m, int64_t n, bool full) {
  check_finite(name, a);
  const int64_t k = std::min(m, n), uc = full ? m : k, vr = full ? n : k;
  const Int im = as_int(name, m), in = as_int(name, n), ivr = as_int(name, vr);
  std::vector<T> columns = dense::transposed(a.data(), m, n), u(static_cast<size_t>(m * uc)), vh(static_cast<size_t>(vr * n));
  Svd<T> r;
  r.s.resize(static_cast<size_t>(k));
  const char job = full ? 'A' : 'S';
  std::vector<Int> iwork(static_cast<size_t>(8 * k));
  std::vector<double> rwork(dense::kIsComplex<T> ? static_cast<size_t>(std::max(5 * k * k + 5 * k, 2 * std::max(m, n) * k + 2 * k * k + k))
                                                 : 0);
  Int info = 0;
  with_work<T>(name, [&](T* work, Int length) {
    if constexpr (dense::kIsComplex<T>)
      call<T>(name, "gesdd", &job, &im, &in, columns.data(), &im, r.s.data(), u.data(), &im, vh.data(), &ivr, work, &length, rwork.data(),
              iwork.data(), &info, kOne);
    else
      call<T>(name, "gesdd", &job, &im, &in, columns.data(), &im, r.s.data(), u.data(), &im, vh.data(), &ivr, work, &length, iwork.data(),
              &info, kOne);
  });
  check(name, info, "gesdd");
  r.u = dense::transposed(u.data(), uc, m);
  r.vh = dense::transposed(vh.data(), n, vr);
  return r;
}

template <class T>
Eigh<T> eigh(const std::string& name, std::vector<T> a, int64_t n, bool upper) {
  check_finite(name, a);
  const Int in = as_int(name, n);
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  Eigh<T> r;
  r.values.resize(static_cast<size_t>(n));
  const char job = 'V', triangle = upper ? 'U' : 'L';
  Int info = 0;
  std::vector<Int> iwork(1);
  std::vector<double> rwork(1);
  with_work<T>(name, [&](T* work, Int length) {
    const bool query = length == kQuery;
    const Int integers = query ? kQuery : as_int(name, iwork[0]), reals = query ? kQuery : as_int(name, static_cast<int64_t>(rwork[0]));
    iwork.resize(static_cast<size_t>(std::max(integers, 1)));
    rwork.resize(static_cast<size_t>(std::max(reals, 1)));
    if constexpr (dense::kIsComplex<T>)
      call<T>(name, "heevd", &job, &triangle, &in, columns.data(), &in, r.values.data(), work, &length, rwork.data(), &reals, iwork.data(),
              &integers, &info, kOne, kOne);
    else
      call<T>(name, "syevd", &job, &triangle, &in, columns.data(), &in, r.values.data(), work, &length, iwork.data(), &integers, &info,
              kOne, kOne);
  });
  check(name, info, dense::kIsComplex<T> ? "heevd" : "syevd");
  r.vectors = dense::transposed(columns.data(), n, n);
  return r;
}

namespace {

// A conjugate pair of eigenvectors is stored as the real and the imaginary part of the first of them. Row-major.
std::vector<std::complex<double>> complex_vectors(const std::vector<double>& vectors, const std::vector<double>& im) {
  const size_t count = im.size();
  std::vector<std::complex<double>> out(count * count);
  for (size_t j = 0; j < count; ++j) {
    for (size_t i = 0; i < count; ++i) {
      if (im[j] > 0)
        out[i * count + j] = {vectors[j * count + i], vectors[(j + 1) * count + i]};
      else if (im[j] < 0)
        out[i * count + j] = {vectors[(j - 1) * count + i], -vectors[j * count + i]};
      else
        out[i * count + j] = vectors[j * count + i];
    }
  }
  return out;
}

}  // namespace

template <class T>
Eig eig(const std::string& name, std::vector<T> a, int64_t n) {
  check_finite(name, a);
  const Int in = as_int(name, n), one = 1;
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  const auto count = static_cast<size_t>(n);
  std::vector<T> vectors(count * count);
  T* const no_left = nullptr;
  const char none = 'N', job = 'V';
  Int info = 0;
  Eig r;
  r.values.resize(count);
  if constexpr (dense::kIsComplex<T>) {
    std::vector<double> rwork(2 * count);
    with_work<T>(name, [&](T* work, Int length) {
      call<T>(name, "geev", &none, &job, &in, columns.data(), &in, r.values.data(), no_left, &one, vectors.data(), &in, work, &length,
              rwork.data(), &info, kOne, kOne);
    });
    check(name, info, "geev");
    r.vectors = dense::transposed(vectors.data(), n, n);
  } else {
    std::vector<double> re(count), im(count);
    with_work<T>(name, [&](T* work, Int length) {
      call<T>(name, "geev", &none, &job, &in, columns.data(), &in, re.data(), im.data(), no_left, &one, vectors.data(), &in, work, &length,
              &info, kOne, kOne);
    });
    check(name, info, "geev");
    for (size_t j = 0; j < count; ++j) r.values[j] = {re[j], im[j]};
    r.vectors = complex_vectors(vectors, im);
  }
  return r;
}

template <class T>
int64_t ldl_factor(const std::string& name, std::vector<T>& a, std::vector<int64_t>& pivots, int64_t n, bool hermitian) {
  const Int in = as_int(name, n);
  std::vector<T> columns = dense::transposed(a.data(), n, n);
  std::vector<Int> p(static_cast<size_t>(n));
  const char triangle = 'L';
  const char* routine = dense::kIsComplex<T> && hermitian ? "hetrf" : "sytrf";
  Int info = 0;
  with_work<T>(name, [&](T* work, Int length) {
    call<T>(name, routine, &triangle, &in, columns.data(), &in, p.data(), work, &length, &info, kOne);
  });
  if (info < 0) check(name, info, routine);
  a = dense::transposed(columns.data(), n, n);
  pivots.assign(p.begin(), p.end());
  return info;
}

template <class T>
void ldl_solve(const std::string& name, const std::vector<T>& ld, const std::vector<int64_t>& pivots, std::vector<T>& b, int64_t n,
               int64_t columns, bool hermitian) {
  const Int in = as_int(name, n), wide = as_int(name, columns);
  std::vector<T> a = dense::transposed(ld.data(), n, n), x = dense::transposed(b.data(), n, columns);
  std::vector<Int> p;
  for (int64_t v : pivots) {
    // sytrs indexes rows by them without a check.
    TOROID_USER_CHECK(v != 0 && v <= n && v >= -n, "{}: pivot {} is out of range", name, v);
    p.push_back(static_cast<Int>(v));
  }
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) continue;
    TOROID_USER_CHECK(i + 1 < p.size() && p[i + 1] == p[i], "{}: negative pivots must come in equal pairs", name);
    ++i;
  }
  const char triangle = 'L';
  const char* routine = dense::kIsComplex<T> && hermitian ? "hetrs" : "sytrs";
  Int info = 0;
  call<T>(name, routine, &triangle, &in, &wide, a.data(), &in, p.data(), x.data(), &in, &info, kOne);
  check(name, info, routine);
  b = dense::transposed(x.data(), columns, n);
}

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

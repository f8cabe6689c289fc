// What LAPACK computes, put together again, and what is said where it is missing.
#include "ops/rows/linalg_lapack.h"

#include <gtest/gtest.h>

#include "errors.h"
#include "ops/rows/linalg_dense.h"

namespace toroid::ops {
namespace {

using dense::adjoint, dense::multiply;

template <class T>
std::vector<T> matrix(int64_t m, int64_t n) {
  std::vector<T> out;
  for (int64_t i = 0; i < m * n; ++i) {
    double re = static_cast<double>(i * 37 % 23) / 7 - 1, im = static_cast<double>(i * 29 % 19) / 5 - 2;
    if constexpr (dense::kIsComplex<T>)
      out.emplace_back(re, im);
    else
      out.push_back(re + im / 100);
  }
  return out;
}

template <class T>
std::vector<T> hermitian(int64_t n) {
  auto a = matrix<T>(n, n), b = adjoint(a.data(), n, n);
  for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

template <class T, class U>
void expect_near(const std::vector<T>& a, const std::vector<U>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LT(std::abs(a[i] - b[i]), 1e-10) << "element " << i;
}

// The columns of a (m x n), each times its factor.
template <class T, class S>
std::vector<T> scaled(std::vector<T> a, int64_t n, const std::vector<S>& factors) {
  for (size_t i = 0; i < a.size(); ++i) a[i] *= factors[i % static_cast<size_t>(n)];
  return a;
}

template <class T>
class Lapack : public ::testing::Test {};
using Fields = ::testing::Types<double, std::complex<double>>;
TYPED_TEST_SUITE(Lapack, Fields);

TYPED_TEST(Lapack, SingularValuesAndVectors) {
  using T = TypeParam;
  for (auto [m, n] : {std::pair<int64_t, int64_t>{4, 4}, {7, 3}, {3, 70}, {1, 1}}) {
    for (bool full : {false, true}) {
      auto a = matrix<T>(m, n);
      auto r = lapack::svd<T>("svd", a, m, n, full);
      const int64_t k = std::min(m, n), wide = full ? m : k;
      ASSERT_EQ(r.s.size(), static_cast<size_t>(k));
      EXPECT_TRUE(std::is_sorted(r.s.rbegin(), r.s.rend()));
      ASSERT_EQ(r.u.size(), static_cast<size_t>(m * wide));
      std::vector<T> u;  // its first k columns
      for (size_t i = 0; i < r.u.size(); ++i)
        if (static_cast<int64_t>(i) % wide < k) u.push_back(r.u[i]);
      expect_near(multiply(scaled(u, k, r.s).data(), r.vh.data(), m, k, n), a);
    }
  }
}

TYPED_TEST(Lapack, EigenvaluesOfSymmetricMatricesUseOneTriangle) {
  using T = TypeParam;
  for (int64_t n : {1, 5, 40}) {
    for (bool upper : {false, true}) {
      auto a = hermitian<T>(n), part = a;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j)
          if (upper ? j < i : j > i) part[static_cast<size_t>(i * n + j)] = T(99);
      auto r = lapack::eigh<T>("eigh", part, n, upper);
      EXPECT_TRUE(std::is_sorted(r.values.begin(), r.values.end()));
      expect_near(multiply(a.data(), r.vectors.data(), n, n, n), scaled(r.vectors, n, r.values));
    }
  }
}

TYPED_TEST(Lapack, EigenvaluesOfAnyMatrix) {
  using C = std::complex<double>;
  for (int64_t n : {1, 2, 6}) {
    auto a = matrix<TypeParam>(n, n);
    auto r = lapack::eig<TypeParam>("eig", a, n);
    std::vector<C> wide(a.begin(), a.end());
    expect_near(multiply(wide.data(), r.vectors.data(), n, n, n), scaled(r.vectors, n, r.values));
  }
}

TYPED_TEST(Lapack, FactorsOfSymmetricMatricesSolve) {
  using T = TypeParam;
  const int64_t n = 6;
  auto a = hermitian<T>(n), b = matrix<T>(n, 2), ld = a, x = b;
  for (int64_t i = 0; i < n; ++i) a[static_cast<size_t>(i * n + i)] = ld[static_cast<size_t>(i * n + i)] = T(0);  // pivots of 2 x 2
  std::vector<int64_t> pivots;
  EXPECT_EQ(lapack::ldl_factor<T>("ldl", ld, pivots, n, true), 0);
  lapack::ldl_solve<T>("ldl", ld, pivots, x, n, 2, true);
  expect_near(multiply(a.data(), x.data(), n, n, 2), b);
  pivots[0] = 7;
  EXPECT_TRUE(test::contains(test::user_error([&] { lapack::ldl_solve<T>("ldl", ld, pivots, x, n, 2, true); }), "pivot 7 is out of range"));
}

TEST(LapackLibrary, WhereItIsMissingTheErrorSaysWhatToInstall) {
  const char* const files[] = {"libno-such-lapack.so.3"};
  std::string text = test::environment_error([&] { lapack::open("linalg_svd", files); });
  for (const char* part : {"linalg_svd: LAPACK", "libno-such-lapack.so.3", "apt-get install libopenblas0"})
    EXPECT_TRUE(test::contains(text, part)) << part << " is not in: " << text;
}

}  // namespace
}  // namespace toroid::ops

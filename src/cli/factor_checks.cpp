#include "cli/factor_checks.h"

#include <fmt/core.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "base/scalar.h"
#include "tensor/tensor_impl.h"

namespace toroid::cli {
namespace {

using Complex = std::complex<double>;

// One matrix of a batch.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<Complex> values;

  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  Complex& at(int64_t r, int64_t c) { return values[static_cast<size_t>(r * columns + c)]; }
  const Complex& at(int64_t r, int64_t c) const { return values[static_cast<size_t>(r * columns + c)]; }
};

// The matrices of a batched tensor; vectors become one row each.
std::vector<Matrix> matrices(const Tensor& any, bool is_vector = false) {
  Tensor t = any.contiguous();
  size_t inner = is_vector ? 1 : 2, rank = t.sizes().size();
  int64_t columns = t.sizes()[rank - 1], rows = is_vector ? 1 : t.sizes()[rank - 2];
  int64_t count = product(std::span(t.sizes()).first(rank - inner));
  std::vector<Matrix> out;
  const std::byte* p = t.raw_data();
  for (int64_t i = 0; i < count; ++i) {
    Matrix& m = out.emplace_back(rows, columns);
    for (auto& v : m.values) {
      v = load_complex(p, t.dtype());
      p += size_of(t.dtype());
    }
  }
  return out;
}

Matrix times(const Matrix& a, const Matrix& b, int64_t inner) {
  Matrix out(a.rows, b.columns);
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t c = 0; c < b.columns; ++c) out.at(r, c) += a.at(r, k) * b.at(k, c);
  return out;
}

double largest(const Matrix& m) {
  double out = 0;
  for (auto& v : m.values) out = std::max(out, std::abs(v));
  return out;
}

std::optional<std::string> same(const Matrix& a, const Matrix& b, double tolerance, const char* what) {
  double error = 0, allowed = tolerance * std::max(1.0, largest(b));
  for (size_t i = 0; i < a.values.size(); ++i) error = std::max(error, std::abs(a.values[i] - b.values[i]));
  if (error <= allowed) return std::nullopt;
  return fmt::format("{} is off by {:.3g} where {:.3g} is allowed", what, error, allowed);
}

double tolerance_for(DType t) { return t == DType::F64 || t == DType::C128 ? 1e-8 : 1e-3; }

// (U, S, Vh): U S Vh is the matrix.
std::optional<std::string> check_svd(const Tensor& matrix, std::span<const Tensor> results) {
  if (results[0].numel() == 0 || results[2].numel() == 0) return std::nullopt;
  auto a = matrices(matrix), u = matrices(results[0]), s = matrices(results[1], true), vh = matrices(results[2]);
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t r = 0; r < u[i].rows; ++r)
      for (int64_t c = 0; c < s[i].columns; ++c) u[i].at(r, c) *= s[i].at(0, c);
    if (auto bad = same(times(u[i], vh[i], s[i].columns), a[i], tolerance_for(matrix.dtype()), "U S Vh")) return bad;
  }
  return std::nullopt;
}

// (w, V): A V = V diag(w).
std::optional<std::string> check_eigen(const Tensor& matrix, std::span<const Tensor> results) {
  if (results[1].numel() == 0) return std::nullopt;
  auto a = matrices(matrix), w = matrices(results[0], true), v = matrices(results[1]);
  for (size_t i = 0; i < a.size(); ++i) {
    Matrix left = times(a[i], v[i], a[i].columns), right = v[i];
    for (int64_t r = 0; r < right.rows; ++r)
      for (int64_t c = 0; c < right.columns; ++c) right.at(r, c) *= w[i].at(0, c);
    if (auto bad = same(left, right, tolerance_for(matrix.dtype()), "A V - V diag(w)")) return bad;
  }
  return std::nullopt;
}

// A symmetric matrix of which only one triangle counts: V diag(w) V^H restores it on that triangle, so both triangles are tried.
std::optional<std::string> check_symmetric_eigen(const Tensor& matrix, std::span<const Tensor> results) {
  if (results[1].numel() == 0) return std::nullopt;
  auto a = matrices(matrix), w = matrices(results[0], true), v = matrices(results[1]);
  for (size_t i = 0; i < a.size(); ++i) {
    std::optional<std::string> bad;
    for (bool lower : {true, false}) {
      Matrix full = a[i];
      for (int64_t r = 0; r < full.rows; ++r)
        for (int64_t c = r + 1; c < full.columns; ++c)
          (lower ? full.at(r, c) : full.at(c, r)) = std::conj(lower ? full.at(c, r) : full.at(r, c));
      Matrix left = times(full, v[i], full.columns), right = v[i];
      for (int64_t r = 0; r < right.rows; ++r)
        for (int64_t c = 0; c < right.columns; ++c) right.at(r, c) *= w[i].at(0, c);
      bad = same(left, right, tolerance_for(matrix.dtype()), "A V - V diag(w)");
      if (!bad) break;
    }
    if (bad) return bad;
  }
  return std::nullopt;
}

// (Q, R): Q R is the matrix.
std::optional<std::string> check_qr(const Tensor& matrix, std::span<const Tensor> results) {
  if (results[0].numel() == 0) return std::nullopt;
  auto a = matrices(matrix), q = matrices(results[0]), r = matrices(results[1]);
  for (size_t i = 0; i < a.size(); ++i)
    if (auto bad = same(times(q[i], r[i], r[i].rows), a[i], tolerance_for(matrix.dtype()), "Q R")) return bad;
  return std::nullopt;
}

constexpr FactorCheck kChecks[] = {
    {"_linalg_svd", 0b101, check_svd},
    {"_linalg_eigh", 0b10, check_symmetric_eigen},
    {"linalg_eig", 0b11, check_eigen},
    {"linalg_qr", 0b11, check_qr},
};

}  // namespace

const FactorCheck* factor_check(std::string_view op) {
  for (auto& c : kChecks)
    if (c.op == op) return &c;
  return nullptr;
}

}  // namespace toroid::cli

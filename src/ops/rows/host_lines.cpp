#include "ops/rows/host_lines.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/index_fault.h"

namespace toroid::ops::host {
namespace {

std::byte* at(const Tensor& t, int64_t i) { return t.raw_data() + i * static_cast<int64_t>(size_of(t.dtype())); }

}  // namespace

std::complex<double> get_complex(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::C64) {
    float v[2];
    std::memcpy(v, at(t, i), sizeof v);
    return {v[0], v[1]};
  }
  if (t.dtype() == DType::C128) {
    double v[2];
    std::memcpy(v, at(t, i), sizeof v);
    return {v[0], v[1]};
  }
  return get_real(t, i);
}

void put_complex(const Tensor& t, int64_t i, std::complex<double> v) {
  if (t.dtype() == DType::C64) {
    float parts[2] = {static_cast<float>(v.real()), static_cast<float>(v.imag())};
    std::memcpy(at(t, i), parts, sizeof parts);
  } else if (t.dtype() == DType::C128) {
    double parts[2] = {v.real(), v.imag()};
    std::memcpy(at(t, i), parts, sizeof parts);
  } else {
    put(t, i, Number::of(v.real()));
  }
}

void copy_element(const Tensor& a, int64_t from, const Tensor& b, int64_t to) { std::memcpy(at(b, to), at(a, from), size_of(a.dtype())); }

void fill_zero(const Tensor& t) { std::memset(t.raw_data(), 0, static_cast<size_t>(t.numel()) * size_of(t.dtype())); }

bool is_nan(const Number& v) { return v.kind == Number::Kind::Float && std::isnan(v.f); }

bool less(const Number& a, const Number& b) {
  if (a.kind == Number::Kind::Float || b.kind == Number::Kind::Float) {
    double x = a.as_double(), y = b.as_double();
    return std::isnan(x) ? false : std::isnan(y) || x < y;
  }
  return a.i < b.i;
}

Lines::Lines(const Tensor& t, int64_t dim) {
  const auto& sizes = t.sizes();
  if (sizes.empty()) return;
  for (int64_t d = 0; d < dim; ++d) outer *= sizes[static_cast<size_t>(d)];
  n = sizes[static_cast<size_t>(dim)];
  for (size_t d = static_cast<size_t>(dim) + 1; d < sizes.size(); ++d) inner *= sizes[d];
}

Tensor joined_last(const Tensor& t, const std::vector<int64_t>& dims) {
  std::vector<int64_t> sizes, strides;
  int64_t kept = 1, joined = 1;
  auto is_joined = [&](size_t d) { return dims.empty() || std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end(); };
  for (bool pass : {false, true})
    for (size_t d = 0; d < t.sizes().size(); ++d) {
      if (is_joined(d) != pass) continue;
      sizes.push_back(t.sizes()[d]);
      strides.push_back(t.strides()[d]);
      (pass ? joined : kept) *= t.sizes()[d];
    }
  Tensor c = t.as_strided(sizes, strides).contiguous();
  std::vector<int64_t> two = {kept, joined};
  return c.as_strided(two, contiguous_strides(two));
}

int64_t checked_index(std::string_view operation, int64_t index, int64_t size, int64_t dim, bool wraps) {
  const int64_t at = wraps && index < 0 ? index + size : index;
  if (at < 0 || at >= size)
    fail<UserError>("{}", index_error({std::string(operation), OperationPlace::current(), dim, wraps}, index, size));
  return at;
}

}  // namespace toroid::ops::host

#include "program/problem_values.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace toroid::program {
namespace {

Number element(const Tensor& t, std::span<const int64_t> at) {
  int64_t offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * t.strides()[d];
  return load_number(t.raw_data() + offset * static_cast<int64_t>(size_of(t.dtype())), t.dtype());
}
Number element(const Tensor& t, std::initializer_list<int64_t> at) { return element(t, std::span(at.begin(), at.size())); }

// A sum of products, in double or in integers.
struct Sum {
  double f = 0;
  uint64_t i = 0;  // wraps around
  void add(const Number& a, const Number& b) {
    f += a.as_double() * b.as_double();
    i += static_cast<uint64_t>(a.i) * static_cast<uint64_t>(b.i);
  }
  Number as(DType t) const { return convert(is_float(t) ? Number::of(f) : Number::of(static_cast<int64_t>(i)), t); }
};

}  // namespace

Number gemm_value(const Tensor& a, const Tensor& b, DType accumulate, std::span<const int64_t> at) {
  const size_t row = at.size() - 2, column = at.size() - 1;
  const int64_t length = a.sizes()[column];
  const auto bytes = [](const Tensor& t) { return static_cast<int64_t>(size_of(t.dtype())); };
  const std::byte *left = a.raw_data(), *right = b.raw_data();
  for (size_t d = 0; d < column; ++d) left += at[d] * a.strides()[d] * bytes(a);
  for (size_t d = 0; d <= column; ++d)
    if (d != row) right += at[d] * b.strides()[d] * bytes(b);
  const int64_t left_step = a.strides()[column] * bytes(a), right_step = b.strides()[row] * bytes(b);
  Sum sum;
  for (int64_t k = 0; k < length; ++k, left += left_step, right += right_step)
    sum.add(load_number(left, a.dtype()), load_number(right, b.dtype()));
  return sum.as(accumulate);
}

Number convolution_value(const Convolution& c, const Tensor& input, const Tensor& weight, std::span<const int64_t> at) {
  const int64_t channels = c.in_channels / c.groups, group = at[1] / (c.out_channels / c.groups);
  Sum sum;
  for (int64_t y = 0; y < c.kernel_h; ++y)
    for (int64_t x = 0; x < c.kernel_w; ++x) {
      const int64_t row = at[2] * c.stride_h + y * c.dilation_h - c.pad_h, column = at[3] * c.stride_w + x * c.dilation_w - c.pad_w;
      if (row < 0 || row >= input.sizes()[2] || column < 0 || column >= input.sizes()[3]) continue;
      for (int64_t channel = 0; channel < channels; ++channel) {
        Number e = element(input, {at[0], group * channels + channel, row, column});
        if (c.zero != 0) e = Number::of(e.i - c.zero);
        sum.add(e, element(weight, {at[1], channel, y, x}));
      }
    }
  return sum.as(c.accumulate);
}

AttentionRows::AttentionRows(const Attention& problem, Tensor q, Tensor k, Tensor v, Tensor mask)
    : problem_(problem), q_(std::move(q)), k_(std::move(k)), v_(std::move(v)), mask_(std::move(mask)) {}

void AttentionRows::weigh(int64_t batch, int64_t head, int64_t query) {
  const int64_t keys = k_.sizes()[2], own = head / (q_.sizes()[1] / k_.sizes()[1]);
  weights_.assign(static_cast<size_t>(keys), -HUGE_VAL);
  for (int64_t j = 0; j < keys; ++j) {
    if (problem_.causal && j > query + keys - q_.sizes()[2]) continue;
    double score = 0;
    for (int64_t d = 0; d < problem_.head_dim; ++d)
      score += element(q_, {batch, head, query, d}).as_double() * element(k_, {batch, own, j, d}).as_double();
    score *= problem_.scale;
    if (mask_.defined()) {
      const Number m = element(mask_, {batch, head, query, j});
      score = is_bool(mask_.dtype()) ? (m.i ? score : -HUGE_VAL) : score + m.as_double();
    }
    weights_[static_cast<size_t>(j)] = score;
  }
  double most = -HUGE_VAL, sum = 0;
  for (double s : weights_) most = std::isnan(s) || std::isnan(most) ? NAN : std::max(most, s);
  for (double& s : weights_) sum += s = s == -HUGE_VAL ? 0 : std::exp(s - most);
  for (double& s : weights_) s = sum == 0 ? 0 : s / sum;
}

Number AttentionRows::value(std::span<const int64_t> at) {
  if (!std::equal(row_.begin(), row_.end(), at.begin(), at.begin() + 3)) {
    weigh(at[0], at[1], at[2]);
    row_.assign(at.begin(), at.begin() + 3);
  }
  const int64_t own = at[1] / (q_.sizes()[1] / k_.sizes()[1]);
  double sum = 0;
  for (size_t j = 0; j < weights_.size(); ++j) sum += weights_[j] * element(v_, {at[0], own, static_cast<int64_t>(j), at[3]}).as_double();
  return convert(Number::of(sum), DType::F32);
}

void sort_rows(const Tensor& keys, bool descending, const Tensor& values, const Tensor& positions) {
  const size_t last = keys.sizes().size() - 1;
  const auto length = static_cast<size_t>(keys.sizes()[last]);
  const bool floats = is_float(keys.dtype());
  const auto less = [&](const Number& a, const Number& b) {
    if (floats) return std::isnan(b.f) ? !std::isnan(a.f) : a.f < b.f;
    return keys.dtype() == DType::U64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i) : a.i < b.i;
  };
  std::vector<int64_t> at(last + 1, 0);
  const auto sort_row = [&] {
    std::vector<Number> row(length);
    for (size_t i = 0; i < length; ++i) {
      at[last] = static_cast<int64_t>(i);
      row[i] = element(keys, at);
    }
    std::vector<size_t> order(length);
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return descending ? less(row[b], row[a]) : less(row[a], row[b]); });
    for (const Tensor* out : {&values, &positions}) {
      if (!out->defined()) continue;
      for (int64_t i = 0; i < out->sizes()[last]; ++i) {
        at[last] = i;
        int64_t offset = 0;
        for (size_t d = 0; d <= last; ++d) offset += at[d] * out->strides()[d];
        const size_t from = order[static_cast<size_t>(i)];
        store_number(out->raw_data() + offset * static_cast<int64_t>(size_of(out->dtype())), out->dtype(),
                     out == &values ? row[from] : Number::of(static_cast<int64_t>(from)));
      }
    }
  };
  for (size_t d = 0; d < last; ++d)
    if (keys.sizes()[d] == 0) return;
  while (true) {
    sort_row();
    at[last] = 0;
    size_t d = last;
    while (d > 0 && ++at[d - 1] == keys.sizes()[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace toroid::program

#include "toroid/buckets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/check.h"
#include "tensor/tensor_impl.h"

namespace toroid {
namespace {

size_t dimension_of(const Tensor& t, int64_t dim) {
  const int64_t rank = t.dim();
  TOROID_USER_CHECK(dim >= -rank && dim < rank, "dimension {} is out of range for a tensor of {} dimensions", dim, rank);
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}

// The elements [first, last) of a dimension, as a view.
Tensor slice(const Tensor& t, size_t dim, int64_t first, int64_t last) {
  std::vector<int64_t> sizes = t.sizes();
  sizes[dim] = last - first;
  return t.as_strided(sizes, t.strides(), first * t.strides()[dim]);
}

// Those that are named must be there, and have the dimension.
void check_results(const std::vector<Tensor>& results, const BucketOptions& o, int64_t bucket,
                   const std::function<bool(const Tensor&)>& is_as_long) {
  for (size_t i : *o.outputs) {
    TOROID_USER_CHECK(i < results.size(), "BucketOptions::outputs: result {} is to be cut, and the function returns {}", i, results.size());
    const Tensor& t = results[i];
    TOROID_USER_CHECK(is_as_long(t), "BucketOptions::outputs: result {} is to be cut in dimension {}, which has to be {} long; it is {}", i,
                      o.dim, bucket, t.defined() ? fmt::format("of sizes [{}]", fmt::join(t.sizes(), ", ")) : "undefined");
  }
}

}  // namespace

std::vector<int64_t> bucket_sizes(int64_t most, int64_t count) {
  TOROID_USER_CHECK(most >= 1 && count >= 1, "bucket_sizes: {} sizes up to {}; both must be at least 1", count, most);
  // Above this, multiples of it: what kernels like, and the rounding is small.
  constexpr int64_t kStep = 8, kRounded = 64;
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count && (out.empty() || out.back() < most); ++i) {
    // The factor that reaches `most` with the sizes that are left, from the one before.
    const double before = out.empty() ? 1 : static_cast<double>(out.back());
    const double factor = std::pow(static_cast<double>(most) / before, 1 / static_cast<double>(count - i));
    auto next = out.empty() && count > 1 ? int64_t{1} : static_cast<int64_t>(std::ceil(before * factor - 1e-9));
    if (next > kRounded) next = (next + kStep - 1) / kStep * kStep;
    out.push_back(std::min(i + 1 == count ? most : next, most));
  }
  return out;
}

int64_t bucket_of(int64_t n, std::span<const int64_t> buckets) {
  int64_t best = -1;
  for (int64_t b : buckets)
    if (b >= n && (best < 0 || b < best)) best = b;
  TOROID_USER_CHECK(best >= 0, "no bucket holds the size {}; the largest of {} is {}", n, buckets.size(),
                    buckets.empty() ? 0 : *std::max_element(buckets.begin(), buckets.end()));
  return best;
}

Tensor Padded::mask() const {
  Tensor m = Tensor::empty({bucket}, DType::Bool);
  for (int64_t i = 0; i < bucket; ++i) m.data<bool>()[i] = i < size;
  return m.to(tensor.device());
}

Padded pad_to_bucket(const Tensor& x, std::span<const int64_t> buckets, int64_t dim, double value) {
  const size_t d = dimension_of(x, dim);
  Padded out{x, x.sizes()[d], 0};
  out.bucket = bucket_of(out.size, buckets);
  if (out.bucket == out.size) return out;
  std::vector<int64_t> sizes = x.sizes(), rest = sizes;
  sizes[d] = out.bucket;
  rest[d] = out.bucket - out.size;
  out.tensor = Tensor::empty(sizes, x.dtype(), x.device());
  copy_elements(x, slice(out.tensor, d, 0, out.size));
  copy_elements(Tensor::full(rest, value, x.dtype()).to(x.device()), slice(out.tensor, d, out.size, out.bucket));
  return out;
}

Tensor unpad(const Tensor& x, int64_t size, int64_t dim) {
  const size_t d = dimension_of(x, dim);
  TOROID_USER_CHECK(size >= 0 && size <= x.sizes()[d], "unpad: {} elements of a dimension of {}", size, x.sizes()[d]);
  return slice(x, d, 0, size);
}

struct Bucketed::State {
  Function function;
  BucketOptions options;
  std::mutex mutex;
  BucketReport report;
  std::map<int64_t, int64_t> calls;
};

Bucketed::Bucketed(Function function, BucketOptions options) : state_(std::make_shared<State>()) {
  TOROID_USER_CHECK(!options.sizes.empty() && !options.inputs.empty(), "Bucketed: {} sizes for {} inputs; there must be some of both",
                    options.sizes.size(), options.inputs.size());
  state_->function = std::move(function);
  state_->options = std::move(options);
}

Bucketed::State& Bucketed::state() const {
  TOROID_USER_CHECK(state_, "a function of buckets was moved from; it cannot be called");
  return *state_;
}

std::vector<Tensor> Bucketed::operator()(std::span<const Tensor> inputs) const {
  const BucketOptions& o = state().options;
  std::vector<Tensor> padded(inputs.begin(), inputs.end());
  Padded first;
  for (size_t i : o.inputs) {
    TOROID_USER_CHECK(i < inputs.size(), "input {} is to be padded, and {} were given", i, inputs.size());
    Padded p = pad_to_bucket(inputs[i], o.sizes, o.dim, o.value);
    TOROID_USER_CHECK(!first.tensor.defined() || p.size == first.size,
                      "input {} has {} elements in the dimension that is padded, input {} has {}", i, p.size, o.inputs.front(), first.size);
    padded[i] = p.tensor;
    first = std::move(p);
  }
  std::vector<Tensor> results = state().function(padded);
  const auto is_as_long = [&](const Tensor& t) {
    return t.defined() && o.dim < t.dim() && o.dim >= -t.dim() && t.sizes()[dimension_of(t, o.dim)] == first.bucket;
  };
  if (o.outputs) check_results(results, o, first.bucket, is_as_long);
  for (size_t i = 0; i < results.size(); ++i) {
    const bool wanted = !o.outputs || std::find(o.outputs->begin(), o.outputs->end(), i) != o.outputs->end();
    if (wanted && first.size < first.bucket && is_as_long(results[i])) results[i] = unpad(results[i], first.size, o.dim);
  }
  std::lock_guard lock(state().mutex);
  ++state().report.calls;
  state().report.elements += first.size;
  state().report.padded += first.bucket;
  ++state().calls[first.bucket];
  return results;
}

BucketReport Bucketed::report() const {
  std::lock_guard lock(state().mutex);
  BucketReport out = state().report;
  out.buckets.assign(state().calls.begin(), state().calls.end());
  return out;
}

std::string to_string(const BucketReport& r) {
  std::string out =
      fmt::format("{} calls at {} sizes, {:.1f} % of what was computed is padding\n", r.calls, r.buckets.size(), 100 * r.waste());
  for (auto& [size, calls] : r.buckets) out += fmt::format("bucket {}: {} calls\n", size, calls);
  return out;
}

}  // namespace toroid

// A few sizes in place of many: inputs are padded to the next of them, so that a program is recorded once a size of the list.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

// At most `count` sizes, ascending, the last of them `most`: each about the same factor larger than the one before, so that at every size
// the same part of the work is wasted at worst.
std::vector<int64_t> bucket_sizes(int64_t most, int64_t count = 16);

// The least of `buckets` (in any order) that holds n. UserError when none does.
int64_t bucket_of(int64_t n, std::span<const int64_t> buckets);

struct Padded {
  Tensor tensor;
  int64_t size = 0, bucket = 0;  // of the dimension, before and after
  // The part of the padded tensor that is padding: 0 to 1.
  double waste() const { return bucket ? 1 - static_cast<double>(size) / static_cast<double>(bucket) : 0; }
  // Bool [bucket] on the tensor's device: true where the data is.
  Tensor mask() const;
};
// x with dimension dim (negative: from the end) as long as the next bucket; what is added has the given value. x itself where its size is a
// bucket. Dtype, device and the order of the dimensions stay.
Padded pad_to_bucket(const Tensor& x, std::span<const int64_t> buckets, int64_t dim = 0, double value = 0);
// The first `size` elements of a dimension, as a view.
Tensor unpad(const Tensor& x, int64_t size, int64_t dim = 0);

struct BucketOptions {
  std::vector<int64_t> sizes;
  int64_t dim = 0;                   // of the inputs that are padded, and of the results that are cut
  double value = 0;                  // of the padding
  std::vector<size_t> inputs = {0};  // which are padded; their sizes must agree
  // Which results are cut, by their numbers; none: std::vector<size_t>(). Where nothing is said, all whose dimension is as long as the
  // bucket, which another dimension (128 columns, in the bucket of 128 tokens) may be, too.
  std::optional<std::vector<size_t>> outputs = {};
};

struct BucketReport {
  int64_t calls = 0;
  int64_t elements = 0, padded = 0;                  // of the dimension, summed over calls: given, and computed
  std::vector<std::pair<int64_t, int64_t>> buckets;  // each that was used, with its calls
  double waste() const { return padded ? 1 - static_cast<double>(elements) / static_cast<double>(padded) : 0; }
};
std::string to_string(const BucketReport& r);

// A function of tensors at few sizes. It is right for functions whose results along the dimension do not depend on what follows (rows of a
// batch, causal models), and for others if they take a mask.
class Bucketed {
 public:
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  // UserError for an empty list of sizes, or of inputs.
  Bucketed(Function function, BucketOptions options);
  // Results (see BucketOptions::outputs) are cut to the size of the inputs: views. Safe to call from several threads, if the function is.
  // UserError for a size above all buckets, for inputs that disagree, and for a result that is to be cut and has no such dimension as long
  // as the bucket.
  std::vector<Tensor> operator()(std::span<const Tensor> inputs) const;
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs) const { return (*this)(std::span(inputs.begin(), inputs.size())); }
  BucketReport report() const;

 private:
  struct State;
  State& state() const;
  std::shared_ptr<State> state_;
};

}  // namespace toroid

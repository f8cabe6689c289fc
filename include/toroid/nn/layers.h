// Layers under PyTorch's names, with PyTorch's parameter names and first values.
#pragma once

#include <concepts>

#include "toroid/nn/convolutions.h"
#include "toroid/nn/losses.h"
#include "toroid/nn/module.h"
#include "toroid/ops.h"

namespace toroid::nn {

struct LinearOptions {
  bool bias = true;
};

// x [..., in] -> [..., out]
class Linear : public Layer {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, const Init& init = Init::standard());
  Linear(int64_t in_features, int64_t out_features, LinearOptions options, const Init& init = Init::standard())
      : Linear(in_features, out_features, options.bias, init) {}
  Tensor forward(const Tensor& x) override;
  // Each rank has some of the results; or some of the inputs, and forward() adds up what the ranks give (see parallelize()).
  void divide_outputs(const TensorRanks& ranks);
  void divide_inputs(const TensorRanks& ranks);
  Tensor weight, bias;  // [out, in], [out]

 private:
  std::string summed_over_;  // the group whose ranks have the other inputs; empty: all inputs are here
};

// Integers -> rows of the weight.
class Embedding : public Layer {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, const Init& init = Init::standard(), double deviation = 1);
  Tensor forward(const Tensor& indices) override;
  Tensor weight;
};

// Over the last dimensions, which have the sizes normalized_shape.
class LayerNorm : public Layer {
 public:
  explicit LayerNorm(std::vector<int64_t> normalized_shape, double eps = 1e-5, bool elementwise_affine = true,
                     const Init& init = Init::standard());
  explicit LayerNorm(int64_t normalized_shape) : LayerNorm(std::vector<int64_t>{normalized_shape}) {}
  template <std::floating_point F>  // not an integer, so that {4, 8} is a shape
  LayerNorm(int64_t normalized_shape, F eps, bool elementwise_affine = true, const Init& init = Init::standard())
      : LayerNorm(std::vector<int64_t>{normalized_shape}, eps, elementwise_affine, init) {}
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  std::vector<int64_t> normalized_shape_;
  double eps_;
};

class RMSNorm : public Layer {
 public:
  explicit RMSNorm(std::vector<int64_t> normalized_shape, std::optional<double> eps = std::nullopt, const Init& init = Init::standard());
  explicit RMSNorm(int64_t normalized_shape) : RMSNorm(std::vector<int64_t>{normalized_shape}) {}
  template <std::floating_point F>
  RMSNorm(int64_t normalized_shape, F eps, const Init& init = Init::standard())
      : RMSNorm(std::vector<int64_t>{normalized_shape}, eps, init) {}
  Tensor forward(const Tensor& x) override;
  Tensor weight;

 private:
  std::vector<int64_t> normalized_shape_;
  std::optional<double> eps_;
};

class GroupNorm : public Layer {
 public:
  GroupNorm(int64_t num_groups, int64_t num_channels, double eps = 1e-5, const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

// In training the statistics of the batch, which also move the running ones; else the running ones. UserError in training where a channel
// has one value.
class BatchNorm : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  // The input has one of two numbers of dimensions.
  BatchNorm(const char* kind, int64_t fewest_dims, int64_t most_dims, int64_t num_features, double eps, double momentum, const Init& init);

 private:
  const char* kind_;
  int64_t fewest_dims_, most_dims_;
  double eps_, momentum_;
};

// x [n, features] or [n, features, length].
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t num_features, double eps = 1e-5, double momentum = 0.1, const Init& init = Init::standard())
      : BatchNorm("BatchNorm1d", 2, 3, num_features, eps, momentum, init) {}
};

// x [n, features, height, width].
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t num_features, double eps = 1e-5, double momentum = 0.1, const Init& init = Init::standard())
      : BatchNorm("BatchNorm2d", 4, 4, num_features, eps, momentum, init) {}
};

// Gives what it takes.
class Identity : public Layer {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

class Flatten : public Layer {
 public:
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1) : start_(start_dim), end_(end_dim) {}
  Tensor forward(const Tensor& x) override;

 private:
  int64_t start_, end_;
};

class GELU : public Layer {
 public:
  // "none" (by erf) or "tanh".
  explicit GELU(std::string approximate = "none") : approximate_(std::move(approximate)) {}
  Tensor forward(const Tensor& x) override;

 private:
  std::string approximate_;
};

class ReLU : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
};

class SiLU : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
};

class Sigmoid : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
};

class Tanh : public Layer {
 public:
  Tensor forward(const Tensor& x) override;
};

class Softmax : public Layer {
 public:
  explicit Softmax(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override;

 private:
  int64_t dim_;
};

// Does nothing in evaluation.
class Dropout : public Layer {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
};

struct AttentionMask {
  Tensor attn_mask = {};         // [queries, keys] or [batch, heads, queries, keys]: Bool (true: attend) or added to the scores
  Tensor key_padding_mask = {};  // [batch, keys], Bool: true where a key is to be ignored
  bool is_causal = false;
};

// Several heads of scaled dot-product attention between projections. Tensors are [batch, length, embed_dim].
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, bool bias = true, const Init& init = Init::standard());
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask = {});
  Tensor in_proj_weight, in_proj_bias;  // query, key and value below each other
  Linear out_proj;

 private:
  int64_t embed_dim_, heads_;
};

}  // namespace toroid::nn

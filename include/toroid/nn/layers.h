// Layers under PyTorch's names, with PyTorch's parameter names and first values.
#pragma once

#include "toroid/nn/module.h"
#include "toroid/ops.h"

namespace toroid::nn {

// x [..., in] -> [..., out]
class Linear : public Layer {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, const Init& init = Init::standard());
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
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  std::vector<int64_t> normalized_shape_;
  double eps_;
};

class RMSNorm : public Layer {
 public:
  explicit RMSNorm(std::vector<int64_t> normalized_shape, std::optional<double> eps = std::nullopt, const Init& init = Init::standard());
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

struct Conv2dOptions {
  std::vector<int64_t> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  int64_t groups = 1;
  bool bias = true;
};

// x [n, in, height, width]; the kernel is {height, width}.
class Conv2d : public Layer {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, std::vector<int64_t> kernel_size, Conv2dOptions options = {},
         const Init& init = Init::standard());
  Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel_size, Conv2dOptions options = {}, const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias;

 private:
  Conv2dOptions options_;
};

// In training the statistics of the batch, which also move the running ones; else the running ones.
class BatchNorm2d : public Layer {
 public:
  explicit BatchNorm2d(int64_t num_features, double eps = 1e-5, double momentum = 0.1, const Init& init = Init::standard());
  Tensor forward(const Tensor& x) override;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  double eps_, momentum_;
};

// stride 0: the kernel size.
class MaxPool2d : public Layer {
 public:
  explicit MaxPool2d(int64_t kernel_size, int64_t stride = 0, int64_t padding = 0);
  Tensor forward(const Tensor& x) override;

 private:
  int64_t kernel_, stride_, padding_;
};

class AdaptiveAvgPool2d : public Layer {
 public:
  AdaptiveAvgPool2d(int64_t height, int64_t width) : sizes_{height, width} {}
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<int64_t> sizes_;
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

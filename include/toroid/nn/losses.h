// Losses under PyTorch's names, with PyTorch's options and names in state().
#pragma once

#include "toroid/nn/module.h"

namespace toroid::nn {

// A module from a prediction and what was wanted to a loss.
class Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  // forward(), with the caller's line for errors and reports.
  Tensor operator()(const Tensor& input, const Tensor& target, Tensor::Where where = Tensor::Where::current());
};

// reduction: "none", "mean" or "sum"; UserError for others.
struct CrossEntropyLossOptions {
  Tensor weight = {};  // of each class
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;
};

// input [n, classes, ...]; target: classes [n, ...], or probabilities of input's sizes.
class CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(CrossEntropyLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) override;
  Tensor weight;

 private:
  CrossEntropyLossOptions options_;
  int64_t reduction_;
};

struct MSELossOptions {
  std::string reduction = "mean";
};

class MSELoss : public Loss {
 public:
  explicit MSELoss(MSELossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) override;

 private:
  MSELossOptions options_;
};

struct BCEWithLogitsLossOptions {
  Tensor weight = {};  // of each element
  std::string reduction = "mean";
  Tensor pos_weight = {};  // of positive ones
};

// input: logits; target: of the same sizes, from 0 to 1. UserError for other sizes.
class BCEWithLogitsLoss : public Loss {
 public:
  explicit BCEWithLogitsLoss(BCEWithLogitsLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) override;
  Tensor weight, pos_weight;

 private:
  int64_t reduction_;
};

}  // namespace toroid::nn

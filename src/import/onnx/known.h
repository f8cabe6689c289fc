// What is known, while a program is imported, of the contents of its tensors: ONNX gives sizes, axes and widths as tensors.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace toroid::import::onnx {

class KnownValues {
 public:
  // Contents that the caller has of a user input. Only what is read by offered_* below becomes part of the program.
  void offer(const graph::Value* input, Tensor contents) { offered_[input] = std::move(contents); }
  // What the graph's own input holds: weights and constants.
  void hold(const graph::Value* input, Tensor contents) { held_[input] = std::move(contents); }

  // The contents, when they follow from constants; with `use_offered` also from offered inputs, which then are among pinned().
  std::optional<Tensor> contents(const graph::Value* v, bool use_offered);
  // Whole numbers in row-major order, as expressions of sizes.
  std::optional<std::vector<Expr>> integers(const graph::Value* v, bool use_offered);

  // The offered inputs that something was derived from, in the order of their first use.
  const std::vector<const graph::Value*>& pinned() const { return pinned_; }
  const Tensor& offered(const graph::Value* v) const { return offered_.at(v); }

 private:
  bool follows(const graph::Value* v, bool use_offered, int depth);
  Tensor evaluate(const graph::Value* v);
  std::optional<std::vector<Expr>> symbolic(const graph::Value* v, bool use_offered, int depth);

  std::unordered_map<const graph::Value*, Tensor> offered_, held_, computed_;
  std::unordered_map<const graph::Value*, bool> follows_[2];
  std::vector<const graph::Value*> pinned_;
};

}  // namespace toroid::import::onnx

// What may be asked of each output of a program: most have one right value, random ones a range, factors of a matrix a product.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/compare.h"
#include "graph/graph.h"

namespace toroid::cli {

enum class OutputKind {
  Value,   // one right value
  Random,  // differs from run to run, or was never written: dtype, sizes and range count
  Factor,  // one of several factors of a matrix that are not unique: their product counts
};

struct OutputRule {
  OutputKind kind = OutputKind::Value;
  const graph::Node* producer = nullptr;  // of a random or factor output
  size_t result = 0;
  bool direct = true;  // not seen through transposes and copies
};

class VerifyRules {
 public:
  // graph: makes the program's, where a result is not the expected one: then it matters of which kind it is.
  explicit VerifyRules(std::function<std::unique_ptr<graph::Graph>()> graph) : make_(std::move(graph)) {}

  // What is wrong with output `index`; nothing when it is right. `got` are all outputs that are returned.
  std::optional<std::string> check(size_t index, std::span<const Tensor> inputs, std::span<const Tensor> got, const Tensor& expected,
                                   const Tolerance& tolerance) const;

 private:
  std::optional<std::string> check_product(size_t index, std::span<const Tensor> inputs, std::span<const Tensor> got,
                                           const Tolerance& tolerance) const;

  void make() const;
  const std::function<std::unique_ptr<graph::Graph>()> make_;
  mutable std::unique_ptr<graph::Graph> graph_;  // functional; null: not needed so far
  mutable std::vector<OutputRule> rules_;        // one an output that is returned
};

}  // namespace toroid::cli

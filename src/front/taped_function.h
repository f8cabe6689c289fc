// Results of compiled functions on the tape: the gradients of a call are one program, compiled when they are first asked for. It computes
// again what it needs of the function's values from its inputs.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "front/backend.h"

namespace toroid::front {

// Whether the tape remembers a call on these tensors now.
bool is_remembered(std::span<const Tensor> tensors);

class TapedFunction {
 public:
  // text: of the traced graph.
  TapedFunction(std::string name, const std::string& text, Backend backend, BackendOptions options);

  // The function's results. operands: what the graph's inputs stand for, in their order; program: runs the function on them, and writes
  // those that it writes. A function that draws random numbers is run operation by operation. UserError where it would write to a leaf that
  // requires gradients.
  std::vector<Tensor> call(std::span<const Tensor> operands, const std::function<std::vector<Tensor>()>& program);

 private:
  class Gradients;
  std::shared_ptr<Gradients> gradients(const std::vector<bool>& wanted);

  const std::string name_;
  const Backend backend_;
  const BackendOptions options_;
  std::unique_ptr<graph::Graph> graph_;  // functional; all inputs come from the caller, and what it writes are outputs behind the others
  std::unique_ptr<graph::Graph> as_called_;     // of a function that draws random numbers; else null
  std::vector<std::optional<size_t>> written_;  // by output: the input whose new contents it is
  std::string place_;

  std::mutex mutex_;
  std::map<std::vector<bool>, std::shared_ptr<Gradients>> gradients_;  // by wanted input
};

}  // namespace toroid::front

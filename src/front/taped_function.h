// Results of compiled functions on the tape: the gradients of a call are one program, compiled when they are first asked for. It computes
// again what it needs of the function's values from its inputs.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "autograd/tape/node.h"
#include "front/backend.h"

namespace toroid::front {

// Whether the tape remembers a call on these tensors now. Where no tensor of the process has asked for gradients yet, it looks at none.
bool is_remembered(std::span<const Tensor> tensors);
// The inputs that a traced graph writes to, by index.
std::vector<size_t> written_inputs(const graph::Graph& g);
// Notes that these tensors, by index, were written; see WriteCount.
void note_writes(std::span<const Tensor> tensors, std::span<const size_t> written);

class TapedFunction {
 public:
  // text: of the traced graph.
  TapedFunction(std::string name, std::string text, Backend backend, BackendOptions options)
      : name_(std::move(name)), text_(std::move(text)), backend_(std::move(backend)), options_(std::move(options)) {}

  // The function's results. operands: what the graph's inputs stand for, in their order; program: runs the function on them, and writes
  // those that it writes. A function that draws random numbers is run operation by operation. UserError where it would write to a leaf that
  // requires gradients.
  std::vector<Tensor> call(std::span<const Tensor> operands, const std::function<std::vector<Tensor>()>& program);

 private:
  class Gradients;
  void read();
  std::vector<Tensor> one_by_one(std::span<const Tensor> operands) const;
  std::shared_ptr<Gradients> gradients(const std::vector<bool>& wanted, std::span<const Tensor> operands);
  void set_results(const std::shared_ptr<autograd::Node>& node, std::span<const Tensor> results, std::span<const Tensor> operands) const;

  const std::string name_, text_;
  const Backend backend_;
  const BackendOptions options_;
  std::once_flag once_;
  // Read from the text when they are first needed. Inputs come from the caller.
  std::unique_ptr<graph::Graph> graph_;         // functional: what it writes are outputs behind the others
  std::unique_ptr<graph::Graph> as_called_;     // of a function that draws random numbers; else null
  std::vector<std::optional<size_t>> written_;  // by output of graph_: the input whose new contents it is
  std::string place_;

  std::mutex mutex_;
  std::map<std::vector<bool>, std::shared_ptr<Gradients>> gradients_;  // by wanted input
};

}  // namespace toroid::front

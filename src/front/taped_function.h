// Results of compiled functions on the tape. A remembered call is one node: its forward pass gives what its backward pass takes.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "autograd/tape/node.h"
#include "front/taped_passes.h"

namespace toroid::front {

// Whether the tape remembers a call on these tensors now. Where no tensor of the process has asked for gradients yet, it looks at none.
bool is_remembered(std::span<const Tensor> tensors);
// The inputs that a traced graph writes to, by index.
std::vector<size_t> written_inputs(const graph::Graph& g);
// Notes that these tensors, by index, were written; see WriteCount.
void note_writes(std::span<const Tensor> tensors, std::span<const size_t> written);

class TapedFunction {
 public:
  // text: of the traced graph; symbols: its sizes that vary, with the hints that the text leaves out.
  TapedFunction(std::string name, std::string text, std::vector<graph::Symbol> symbols, Backend backend, BackendOptions options)
      : name_(std::move(name)),
        text_(std::move(text)),
        symbols_(std::move(symbols)),
        backend_(std::move(backend)),
        options_(std::move(options)) {}

  // The function's results. operands: what the graph's inputs stand for, in their order; those that it writes are written. program: runs
  // the function on them without gradients; taken where it has none. UserError where it would write to a leaf that requires gradients.
  std::vector<Tensor> call(std::span<const Tensor> operands, const std::function<std::vector<Tensor>()>& program);

  // For people: of each set of inputs whose gradients were wanted, what is saved for them, and why.
  std::vector<std::string> reports() const;

 private:
  void read();
  std::shared_ptr<TapedPasses> passes(const std::vector<bool>& wanted, std::span<const Tensor> operands);
  void set_results(const std::shared_ptr<autograd::Node>& node, const TapedPasses& made, std::span<const Tensor> results,
                   std::span<const Tensor> operands) const;
  bool writes(size_t operand) const;

  const std::string name_, text_;
  const std::vector<graph::Symbol> symbols_;
  const Backend backend_;
  const BackendOptions options_;
  std::once_flag once_;
  // Read from the text when they are first needed. Inputs come from the caller.
  std::unique_ptr<graph::Graph> graph_;         // functional: what it writes are outputs behind the others
  std::vector<std::optional<size_t>> written_;  // by output of graph_: the input whose new contents it is
  std::vector<bool> keeps_history_;             // by output of graph_: it is written within a NoGrad, so that the input's gradient stays
  std::string place_;

  mutable std::mutex mutex_;
  std::map<std::vector<bool>, std::shared_ptr<TapedPasses>> passes_;  // by wanted input
};

}  // namespace toroid::front

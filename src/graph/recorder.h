// A dispatcher that appends what is called to a graph. Tracing, importing and passes build graphs with it.
#pragma once

#include <map>

#include "graph/call_key.h"
#include "graph/graph.h"

namespace toroid::graph {

class Recorder : public Dispatcher {
 public:
  // `graph` outlives the recorder. `hint` gives the size that a symbol had in the inputs at hand; without it a relation that is not
  // known is taken to hold for "==" between sizes that must agree, or as for a large size, and recorded as a guard.
  explicit Recorder(Graph& graph) : graph_(graph) {}

  // A call that ends with an error leaves no requirement behind. What was decided stays a guard, so that who catches the error goes on in a
  // way that is for sizes at which the operation fails.
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override;
  bool decide(const sym::Relation& r) override;
  // Where the hints tell all sizes, they must satisfy r: else UserError with the message, and a guard that r does not hold. Where they do
  // not tell, and for other sizes, r becomes a guard.
  void require(const sym::Relation& r, const std::string& error) override;
  int64_t specialize(const Expr& e) override;
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override;
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }

  // The tensor that stands for a value of the graph, and back. value_of turns a concrete tensor into a constant input.
  static Tensor proxy(Value* v);
  Value* value_of(const Tensor& t);

  // Hints: value of a symbol for deciding relations that are not known; the graph keeps it.
  void set_hint(const std::string& symbol, int64_t value);
  // Text put into `where` of the nodes recorded from now on; empty: the caller's source line.
  void set_where(std::string where) { where_ = std::move(where); }
  // What is recorded from now on takes the place of a node: its line, its checkpoint.
  void stand_in_for(const Node& n) {
    where_ = n.where;
    checkpoint_ = n.checkpoint;
  }
  // Composite operations are recorded whole (default) or as what they are made of.
  void set_expand_composites(bool expand) { expand_ = expand; }

  // Puts the number that a size is at hand, which becomes a guard, in its place. False: no argument is that size, or nobody knows it.
  bool fix_number(CallArgs& args, const Expr& size);

  Graph& graph() { return graph_; }

 private:
  std::vector<Tensor> record(const ops::Op& op, const CallArgs& args, const std::source_location& where);
  void forget_call(size_t guards, size_t symbols);
  std::vector<TensorType> result_types(const ops::Op& op, const CallArgs& args);
  std::vector<TensorType> inferred_types(const ops::Op& op, const CallArgs& args);
  // The number in this graph of the checkpoint that a call of op is in; 0: none.
  int checkpoint_of(const ops::Op& op);
  // Makes what has been required since there were so many guards errors of a call of op.
  void name_requirements(size_t since, const ops::Op& op, const std::string& place);

  Graph& graph_;
  std::map<std::string, int64_t> hints_;
  std::map<const Storage*, std::vector<Value*>> constants_;
  std::vector<size_t> required_;  // guards of graph_ that require() added, in order
  std::string where_;
  int checkpoint_ = 0;                        // of the nodes that are recorded, outside of checkpoints that are open
  std::map<uint64_t, int> open_checkpoints_;  // their numbers here, by those of the process
  bool expand_ = false;
  // The types of the results of calls without open sizes; shared with the recorders of composites' parts.
  std::shared_ptr<ByCall<std::vector<TensorType>>> types_ = std::make_shared<ByCall<std::vector<TensorType>>>();
};

}  // namespace toroid::graph

// Building the graph after a pass: walks the old one and records the new one.
#pragma once

#include <set>
#include <unordered_map>

#include "graph/recorder.h"

namespace toroid::graph {

class Rebuild {
 public:
  // Starts the new graph with the inputs, symbols and guards of the old one. Until finish(), operations called on tensors of this
  // thread are recorded into it.
  explicit Rebuild(const Graph& old);

  Recorder& recorder() { return recorder_; }
  Graph& graph() { return *graph_; }

  // What stands for an old value; InternalError when it was not set.
  Tensor at(const Value* old) const;
  Value* value_at(const Value* old);
  Tensor at_or_undefined(const Value* old) const { return old ? at(old) : Tensor(); }
  // Lets `t` stand for `old` from now on. Sizes known only at run time that have other symbols in t are renamed in all that follows.
  void set(const Value* old, const Tensor& t);
  CallArgs args(const Node& n) const;
  std::vector<NodeArg> node_args(const Node& n);

  // Appends the node as it is.
  void copy(const Node& n);
  // Records what `fn` makes of the node; its results stand for the node's.
  template <class F>
  void replace(const Node& n, F&& fn) {
    recorder_.stand_in_for(n);
    std::vector<Tensor> results = fn();
    for (size_t i = 0; i < n.results.size(); ++i) set(n.results[i], results.at(i));
  }

  // Adds the outputs and drops symbols that nothing uses any more.
  std::unique_ptr<Graph> finish();
  // For passes that write the outputs themselves.
  std::unique_ptr<Graph> finish_without_outputs();

 private:
  // A value of the new graph. Its stand-in is made when it is asked for.
  struct Entry {
    bool is_set = false;
    Value* value = nullptr;
    mutable Tensor tensor = {};
  };
  const Entry& entry(const Value* old) const;
  void set_value(const Value* old, Value* value);
  void note_renamed(const Value* old, const std::vector<Expr>& sizes);
  template <class T>
  void rename(Arg<T>& a) const;
  Expr renamed(const Expr& e) const;
  std::shared_ptr<Graph> renamed(std::shared_ptr<Graph> region) const;

  const Graph& old_;
  std::unique_ptr<Graph> graph_;
  Recorder recorder_;
  DispatchScope scope_;
  std::vector<Entry> map_;  // by the number of the old value
  std::unordered_map<std::string, Expr> renamed_;
  std::set<std::string> reserved_;  // symbols of regions: new ones of this graph must not be taken for them
};

}  // namespace toroid::graph

// Turns the nodes of an exported graph into nodes of a graph::Graph.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/recorder.h"
#include "import/sym_values.h"

namespace toroid::import {

// Where our result types differ from those that the file states.
struct TypeFindings {
  std::vector<std::string> mismatches;  // the first few, as text
  size_t count = 0;
};

// UserError that lists every operation of the program, sub-graphs included, that Toroid does not have: how many nodes use it, and
// names like it.
void check_operations(const ExportedGraph& graph, const std::string& source);

class NodeImporter {
 public:
  // Appends to `target`. All of these outlive the importer.
  NodeImporter(graph::Graph& target, const SymValues& symbols, TypeFindings& findings);

  // The value that a tensor name of the outermost exported graph stands for.
  void bind(const std::string& name, graph::Value* value) { outermost_.values[name] = value; }
  graph::Value* value_of(const std::string& name) const { return find(outermost_, name); }

  // Imports the nodes of the outermost graph; its inputs are bound already. Errors name the node.
  void run(const ExportedGraph& graph);

 private:
  // The names of one exported graph. A sub-graph that is inlined has a scope of its own.
  struct Scope {
    const ExportedGraph* graph = nullptr;
    std::unordered_map<std::string, graph::Value*> values;
    std::unordered_map<std::string, graph::Value*> read_numbers;  // numbers read from 0-d tensors
  };

  graph::Value* find(const Scope& scope, const std::string& name) const;
  void import_nodes(Scope& scope);
  void import_node(Scope& scope, const ExportedNode& node);
  void import_call(Scope& scope, const ExportedNode& node);
  void import_assertion(Scope& scope, const ExportedNode& node);
  void import_inlined(Scope& scope, const ExportedNode& node);
  void import_control_flow(Scope& scope, const ExportedNode& node);
  std::shared_ptr<graph::Graph> region(const ExportedGraph& sub, const std::vector<graph::Value*>& operands, const std::string& name);
  void bind_results(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t returns);
  void adopt_symbols(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t symbols_before);
  void check_type(const Scope& scope, const ExportedNode& node, const std::string& name, const graph::Value& value);
  bool may_equal(const Expr& a, const Expr& b) const;

  // Arguments.
  Tensor tensor(const Scope& scope, const std::string& name);
  std::vector<graph::Value*> operand_values(const Scope& scope, const ExportedNode& node, size_t first, size_t last);
  graph::Value* predicate(const Scope& scope, const Argument& arg);
  CallArgs call_args(const Scope& scope, const ExportedNode& node, const ops::Op& op);
  Arg<Tensor> convert(const Scope& scope, const ops::Param& param, const Argument& arg);
  Arg<Tensor> convert_number(const Scope& scope, const ops::Param& param, const Argument& arg);
  Arg<Tensor> convert_list(const Scope& scope, const ops::Param& param, const Argument& arg);
  Expr size(const Scope& scope, const SymIntArg& arg) const;
  Arg<Tensor> named_number(const Scope& scope, const ops::Param& param, const std::string& name);

  graph::Graph& target_;
  const SymValues& symbols_;
  TypeFindings& findings_;
  graph::Recorder recorder_;
  Scope outermost_;
};

}  // namespace toroid::import

// Turns the nodes of an exported graph into nodes of a graph::Graph.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/recorder.h"
#include "import/sym_values.h"
#include "toroid/autocast.h"

namespace toroid::import {

// Where our result types differ from those that the file states.
struct TypeFindings {
  std::vector<std::string> mismatches;  // the first few, as text
  size_t count = 0;
};

// UserError that lists every operation of the program, sub-graphs included, that Toroid does not have: how many nodes use it, and
// names like it.
void check_operations(const ExportedGraph& graph, const std::string& source);

// A target without the prefix that all ATen operations share.
std::string_view short_target(std::string_view target);
// The name of an operation that takes sub-graphs; empty for others.
std::string_view higher_order(std::string_view target);

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
  void import_number(Scope& scope, const ExportedNode& node);
  void import_assertion(Scope& scope, const ExportedNode& node);
  void import_inlined(Scope& scope, const ExportedNode& node);
  void import_control_flow(Scope& scope, const ExportedNode& node);
  std::shared_ptr<graph::Graph> region(const ExportedGraph& sub, const std::vector<graph::Value*>& operands, const std::string& name);
  std::vector<graph::Value*> with_slices(std::vector<graph::Value*> init, const std::vector<graph::Value*>& xs,
                                         const std::vector<graph::Value*>& extra);
  graph::Node* add_scan(std::shared_ptr<graph::Graph> combine, const std::vector<graph::Value*>& init, const std::vector<graph::Value*>& xs,
                        const std::vector<graph::Value*>& extra, const std::string& where);
  std::vector<graph::Value*> running_values(const Scope& scope, const ExportedNode& node, const std::string& where);
  std::unique_ptr<autocast> enter_autocast(const ExportedNode& node);
  void bind_results(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t returns);
  void adopt_symbols(Scope& scope, const ExportedNode& node, const std::vector<graph::Value*>& results, size_t symbols_before);
  void check_type(const Scope& scope, const ExportedNode& node, const std::string& name, const graph::Value& value);
  Expr from_two(const Expr& e) const;
  bool agree(const ExportedNode& node, const std::string& name, size_t d, const Expr& ours, const Expr& stated);
  graph::Value* selected_by_number(Scope& scope, const ExportedNode& node);
  void define_sizes(const Expr& e);
  bool are_defined(const Expr& e) const;

  // Arguments.
  Tensor tensor(const Scope& scope, const std::string& name);
  std::vector<graph::Value*> operand_values(const Scope& scope, const ExportedNode& node, size_t first, size_t last);
  graph::Value* predicate(const Scope& scope, const Argument& arg);
  CallArgs autocast_args(const Scope& scope, const ExportedNode& node, const ops::Op& op, CallArgs args) const;
  const ops::Op* tensor_form(const Scope& scope, const ExportedNode& node, const ops::Op& op) const;
  CallArgs call_args(const Scope& scope, const ExportedNode& node, const ops::Op& op);
  Arg<Tensor> convert(const Scope& scope, const ops::Param& param, const Argument& arg);
  Arg<Tensor> convert_number(const Scope& scope, const ops::Param& param, const Argument& arg);
  Arg<Tensor> convert_list(const Scope& scope, const ops::Param& param, const Argument& arg);
  Expr size(const Scope& scope, const SymIntArg& arg);
  Arg<Tensor> named_number(const Scope& scope, const ops::Param& param, const std::string& name);

  graph::Graph& target_;
  const SymValues& symbols_;
  TypeFindings& findings_;
  graph::Recorder recorder_;
  Scope outermost_;
  std::unordered_map<std::string, graph::Value*> numbers_from_data_;  // by symbol: numbers read from tensors that are no sizes yet
  std::set<std::string> defined_;                                     // sizes that the run tells, and a node of the graph has
  graph::Graph slices_;                                               // holds the stand-ins for slices of what scans run over
};

}  // namespace toroid::import

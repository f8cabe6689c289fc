// Turns the nodes of ONNX graphs into nodes of one graph::Graph: the program, or a region of it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "graph/recorder.h"
#include "import/onnx/known.h"
#include "import/onnx/operators.h"

namespace toroid::import::onnx {

// The names of one ONNX graph or function.
struct Scope {
  const Scope* around = nullptr;  // a sub-graph sees the names of the graph around it
  const OpsetImports* opsets = nullptr;
  std::unordered_map<std::string, Item> values = {};
  // Attributes of the call that a function's nodes refer to. Absent ones are not there.
  std::unordered_map<std::string, const Attribute*> attributes = {};
  int depth = 0;  // functions and inlined graphs around

  // nullptr when there is no such name.
  const Item* find(const std::string& name) const;
  const Attribute* bound(const std::string& name) const;
};

class GraphBuilder {
 public:
  GraphBuilder(graph::Graph& target, std::shared_ptr<const ModelFile> file);

  graph::Graph& graph() { return target_; }
  graph::Recorder& recorder() { return recorder_; }
  KnownValues& known() { return known_; }
  const KnownValues& known() const { return known_; }
  const std::shared_ptr<const ModelFile>& file() const { return file_; }

  // An initializer or constant of the file.
  Tensor constant(const TensorProto& proto) const;
  // Adds initializers and nodes of a graph; the inputs are in the scope already. Errors name the node.
  void run(const GraphProto& graph, Scope& scope);
  // What a name of the scope stands for. UserError when there is no such name, and when it is no tensor.
  const Item& item(const Scope& scope, const std::string& name) const;
  Tensor value(const Scope& scope, const std::string& name) const;

  // The contents of a tensor: of a concrete one at once.
  std::optional<Tensor> contents(const Tensor& t, bool use_offered);
  std::optional<Sizes> integers(const Tensor& t, bool use_offered);

  // An empty region. Of the names around it knows those whose contents are constant, `known`, as constants of its own.
  struct Region {
    std::shared_ptr<graph::Graph> graph;
    std::unique_ptr<GraphBuilder> builder;
    Scope scope;
  };
  Region region(const Scope& around, const std::vector<std::string>& known, const std::string& name);

 private:
  void hold_inputs();
  void import_node(const NodeProto& node, Scope& scope);
  bool import_function(const NodeProto& node, Scope& scope);

  graph::Graph& target_;
  std::shared_ptr<const ModelFile> file_;
  graph::Recorder recorder_;
  KnownValues known_;
  size_t inputs_held_ = 0;
  std::shared_ptr<int64_t> nodes_ = std::make_shared<int64_t>(0);  // imported so far, those of regions included
};

// Names that a sub-graph uses of the graphs around it, in the order of their first use.
std::vector<std::string> free_names(const GraphProto& graph);

// UserError that lists every operator of the model that Toroid does not have.
void check_operators(const ModelFile& file);

// "node "conv1" (Conv)", or by its first output where it has no name.
std::string describe(const NodeProto& node);

}  // namespace toroid::import::onnx

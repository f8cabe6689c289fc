// From an opened ONNX model to a graph.
#pragma once

#include <memory>
#include <span>

#include "graph/graph.h"
#include "import/onnx/tensors.h"

namespace toroid::import::onnx {

// The model as a graph: initializers are parameters, views of the mapped file where alignment allows. Sizes with a name become symbols.
// `inputs`, when given, are contents of the user inputs: where sizes follow from them, the program is made for these contents, and checks
// at each run that it gets the same; and where sizes cannot stay open, they are those of these inputs (log artifact "dynamic"). UserError
// for operators that Toroid does not have (all of them listed) and for what cannot be represented, with the node's name. `for_these` tells
// whether the program is for the given inputs' contents, or their number of dimensions, alone. The tensors of sequences, which have to be
// given, and of optional values are inputs and outputs of the program one after another.
std::unique_ptr<graph::Graph> import_model(std::shared_ptr<const ModelFile> file, std::span<const Item> inputs = {},
                                           bool* for_these = nullptr);

// The graph's inputs without its weights, which older files list as well.
std::vector<const ValueInfo*> user_inputs(const GraphProto& graph);

// UserError when the model takes or returns something else than tensors of types that Toroid has, sequences of them, or optional ones.
void check_values(const ModelFile& file);

}  // namespace toroid::import::onnx

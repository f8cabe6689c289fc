// What other operators with sub-graphs use of control flow.
#pragma once

#include <vector>

#include "import/onnx/operators.h"

namespace toroid::import::onnx {

// The nodes of a sub-graph as part of the graph around. Returns its outputs.
std::vector<Item> inlined(OpCall& c, const GraphProto& proto, const std::vector<Item>& inputs);

}  // namespace toroid::import::onnx

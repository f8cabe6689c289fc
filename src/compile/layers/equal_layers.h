// Graphs of many equal layers are compiled with few: two numbers of them go through passes, lowering and fusion, and where the one program
// says what the other is, it says as well what that of all layers is. So the time that these stages take does not grow with their number,
// and the program is the one that they would have made.
#pragma once

#include <memory>

#include "compile/layers/graph_layers.h"

namespace toroid::compiler {

// What stands for a graph while few of its layers are compiled.
struct EqualLayers {
  std::unique_ptr<graph::Graph> whole;
  GraphLayers layers;
  GraphLayers::Fewer few;  // its graph is on its way through the stages
};

inline constexpr int64_t kFewLayers = 6;
inline constexpr int64_t kLeastLayers = 20;  // that are worth two compiles of few

}  // namespace toroid::compiler

// Graphs of many equal layers are compiled with few: two numbers of them go through passes, lowering and fusion, and where the one program
// says what the other is, it says as well what that of all layers is. So the time that these stages take does not grow with their number,
// and the program is the one that they would have made.
#pragma once

#include <future>
#include <memory>

#include "compile/layers/graph_layers.h"
#include "compile/report.h"
#include "program/program.h"

namespace toroid::compiler {

// What became of the graph with one layer less.
struct OneLess {
  program::Program program;
  CompileReport report = {};
};

// What stands for a graph while few of its layers are compiled.
struct EqualLayers {
  std::unique_ptr<graph::Graph> whole;
  GraphLayers layers;
  // The graph of `few` is on its way through the stages, and so is, by a thread of its own, that with one layer less.
  GraphLayers::Fewer few, one_less = {};
  std::future<OneLess> made = {};
};

inline constexpr int64_t kFewLayers = 6;
inline constexpr int64_t kLeastLayers = 20;  // that are worth two compiles of few

}  // namespace toroid::compiler

// The program of a graph with many equal layers, made of those of graphs with few.
#pragma once

#include <optional>
#include <string>

#include "compile/layers/graph_layers.h"
#include "program/program.h"

namespace toroid::compiler {

// A program, and what the inputs of the graph are that it was made of.
struct OfFewer {
  const program::Program& program;
  const GraphLayers::Fewer& graph;
  int64_t layers;
};

// The program of `whole`, whose layers are `layers`: that of `few`, with the layers that it still has repeated. Nothing where its layers
// are no longer equal, or where the program of one layer fewer is not what follows for so many from that of `few`: then what passes made of
// a layer depends on their number. why: gets the reason.
std::optional<program::Program> program_of_layers(const OfFewer& few, const OfFewer& fewer, const graph::Graph& whole,
                                                  const GraphLayers& layers, std::string& why);

}  // namespace toroid::compiler

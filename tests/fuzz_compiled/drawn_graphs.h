// The random graphs that the tests of this folder draw, by their seeds.
#pragma once

#include "graph/random_graph.h"

namespace toroid::fuzz {

// Of graphs that are compiled and run: seeds from 1 on.
graph::RandomGraphOptions options_of(uint64_t seed);
// Of graphs whose programs are looked at step by step: seeds from 1 on, for GPUs from kFirstOfGpus on.
graph::RandomGraphOptions options_of_program(uint64_t seed);
inline constexpr uint64_t kFirstOfGpus = 1001;
// A graph with the gradients of all its float inputs, of one in eight the gradients of such a graph; nullptr where an operation has no
// gradient, or no input is a float.
std::unique_ptr<graph::Graph> joint_graph(uint64_t seed);

}  // namespace toroid::fuzz

// What decides what a compile makes, part by part: the key of a program that is kept on disk.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "compile/setup.h"
#include "graph/graph.h"

namespace toroid::compiler {

struct ProgramKey {
  std::string subject;  // whose program it is, for people: the path of a model, the name of a function; no part of the key
  std::vector<std::pair<std::string, std::string>> parts = {};  // name and value

  void add(std::string name, std::string value) { parts.emplace_back(std::move(name), std::move(value)); }
  Hash128 hash() const;
};

// The parts that every program has: versions, the target, the options that decide.
ProgramKey key_of(std::string subject, const Setup& setup);
// Adds those of a graph: its text, the usual sizes, the elements of what it is compiled for (constants, with the option freezing all that
// it is bound to), and which of its inputs share memory.
void add_graph(ProgramKey& key, const graph::Graph& g, const Setup& setup);

// Of dtype, sizes, strides and elements.
Hash128 hash_of(const Tensor& t);

// The parts in which two keys differ, in words: "the option isa was auto, is avx2; the part \"graph\" is another". Empty: in none.
std::string difference(const ProgramKey& was, const ProgramKey& now);

// Why programs that are compiled so are not kept; empty where they are.
std::string refusal_to_keep(const Setup& setup);
// bound: by input of the graph, the tensor that the program runs on; empty: a model's own, which are kept with it.
std::string refusal_to_keep(const graph::Graph& g, const Device& device, std::span<const Tensor> bound);

}  // namespace toroid::compiler

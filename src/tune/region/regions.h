// The parts of a program that are tuned by themselves.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "exec/run/sizes.h"
#include "program/program.h"
#include "tune/region/choice.h"

namespace toroid::tune {

// What a choice node may be fused with, seen from its edges. Numbers are positions in the program.
struct Boundary {
  std::vector<size_t> first_nodes, last_nodes;       // that read what comes from outside; that make what goes out
  std::vector<int> fusable_inputs, fusable_outputs;  // buffers; into which, and out of which, loops can be fused

  bool can_fuse_prologue(const program::Node& before) const;
  bool can_fuse_epilogue(const program::Node& after) const;
};
// Of a program whose inputs and outputs are its edge: a region, or an alternative of a program::Open. An input is fusable when nobody
// writes it and everyone who reads it is a loop, or a product that has it as its left operand; an output when one node makes it, in one
// go, is no library call, no sort and no call of other code, and nobody within reads it back.
Boundary boundary_of(const program::Program& p);

struct Region {
  program::Program program;          // as program::region() gives it
  std::vector<int> numbers;          // of its nodes in the program that it is part of
  std::vector<size_t> choice_nodes;  // positions here: products, convolutions, attention, sorts, calls with alternatives
  std::string label;                 // of the choice nodes with their sizes, for people: "mm [1024x768x768]"
  std::vector<std::string> labels;   // of all nodes
  exec::Symbols sizes;               // that it is timed at, of those that it leaves open
  bool sizes_seen = true;            // a call has had them; else the program may never run at them, and need not be able to
  Hash128 key;                       // of the program and these sizes
  std::string refusal;               // why it is not tuned; empty when it is
  Choice rewriting;                  // where there is one, it alone is compared with the default
};

// The region of these nodes of a lowered program (positions, ascending).
Region region_of(const program::Program& lowered, const std::vector<size_t>& nodes);

// Of a region's text and, where that leaves sizes open, of what they may be and are timed at.
Hash128 key_of(const program::Program& region, const exec::Symbols& sizes);

// lowered: its nodes numbered by their places. scheduled: what is made of it without tuning. A region is what shares launches with a choice
// node there; around a program::Open also what could, up to `depth` loops before and behind.
std::vector<Region> find_regions(const program::Program& lowered, const program::Program& scheduled, int depth);

// Sums of two products (sched/mm_plus_mm.h) with all that shares launches with them in `scheduled`: whether one product takes their place
// is decided before regions are, as it changes which there are.
std::vector<Region> find_sums_of_products(const program::Program& lowered, const program::Program& scheduled);

// The node of a scheduled program that does the work of a choice node of the lowered one, or how many nodes there are.
size_t place_of(const program::Program& scheduled, size_t choice_node);

// Sets of a region's nodes that might share a launch with choice node `c`, at most `depth` others each, by these kinds of fusion; the set
// of c alone is the first, smaller ones before larger ones, and there are at most kMostFusionSets. Whether a set is legal, scheduling says.
constexpr size_t kMostFusionSets = 128;
struct FusionKinds {
  bool epilogue = true, prologue = true, cross_subgraph = true;
};
std::vector<std::vector<size_t>> fusion_sets(const program::Program& region, size_t c, int depth, const FusionKinds& kinds);
// Pairs of a lowered program's nodes (for Program::apart) that share a launch of `scheduled` by a kind of fusion that is off: a choice node
// with a loop that reads its results, or what is made of them (epilogue), with a loop that makes its operands (prologue), or with another
// choice node (cross-subgraph).
std::vector<std::pair<int, int>> unwanted_fusion(const program::Program& lowered, const program::Program& scheduled,
                                                 const FusionKinds& kinds);

}  // namespace toroid::tune

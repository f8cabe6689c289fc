// A way to compute a region of a program: how its choice nodes are computed, and what is not fused with them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.h"

namespace toroid::tune {

// Nodes are named by their number in the lowered region (program::Node::parts). The empty choice is what is done without tuning.
//
// A node may have several, which are taken in their order: first one of those that lay operands out anew, then how the rest is computed.
// A way is a template's configuration, or one of
//   cublaslt(algo=k), cudnn(algo=k), onednn()     a library, whose heuristics' k-th proposal
//   decompose_k(splits=s), ...                    a rewriting of the program: the rows of sched/rewrites.cpp
//   alternative NAME()                            one of the programs of a program::Open; for sizes in a range of it alone:
//                                                 alternative NAME(from=a,to=b)
struct Choice {
  std::vector<std::pair<int, program::Config>> ways;
  std::vector<std::pair<int, int>> apart;  // see program::Program::apart

  bool operator==(const Choice&) const = default;
};

// "0: gemm_wgmma(block_m=128); apart 0-1, 0-2"; "default" for the empty one. And back: UserError for what is no such text.
std::string to_string(const Choice& d);
Choice parse_choice(std::string_view text);

// The lowered program with the choice made; numbers[i] is the program's number of the region's node i. Open nodes that it says nothing
// about become their first alternative. UserError where the program has no such node, or the node no such way.
program::Program apply(program::Program p, const Choice& d, const std::vector<int>& numbers);
// `numbers` of a region by itself.
std::vector<int> own_numbers(const program::Program& region);

}  // namespace toroid::tune

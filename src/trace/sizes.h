// Sizes of traced inputs: which of them are symbols, and what the guards of a trace say about those.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace toroid::trace {

// How one dimension of an argument enters a trace.
struct SizePolicy {
  bool dynamic = false;                  // a symbol instead of the number, unless the size is 0 or 1 and min is not
  bool marked = false;                   // by mark_dynamic: making it a fixed number is an error
  int64_t min = 2, max = sym::kInf - 1;  // min is below 2 of marked sizes alone
};

// What is known of a symbol of a trace.
struct SymbolOrigin {
  int64_t hint = 0;
  SizePolicy policy;
  std::string what;  // "size of dimension 0 of input 1 (x)"
};
using Origins = std::map<std::string, SymbolOrigin>;

// An error of a call with what the open sizes are that it names: "...; s1 is 4 (size of dimension 1 of input 0)". Empty: it names none.
std::string with_sizes(std::string_view error, const Origins& origins);

// An open size that the function has made a number.
struct FixedSize {
  std::string what;  // as SymbolOrigin
  std::string why;   // "slice.Tensor (m.cpp:7) requires s0 == 4"
};

// Applies the guards that fix a symbol or make two symbols equal by rewriting the graph, and drops those that always hold. `places` says
// for each guard which source line made it. Returns what was fixed. UserError when a marked dimension would be fixed, or its range
// narrowed.
std::vector<FixedSize> settle_guards(graph::Graph& g, Origins origins, const std::vector<std::string>& places);

}  // namespace toroid::trace

// What tests of passes have in common: a pass by its name, and what is left of a graph as text.
#pragma once

#include <memory>
#include <string>

#include "graph/pass.h"

namespace toroid::graph {

// The nodes and the return line, without the types.
inline std::string body(const Graph& g) {
  std::string out;
  for (auto& n : g.nodes) {
    for (auto* r : n->results) out += (r == n->results[0] ? "" : ", ") + r->name;
    out += " = " + n->op->name;
    for (auto& a : n->args) out += " " + to_string(a);
    out += "\n";
  }
  out += "return";
  for (auto& o : g.outputs) out += " " + (o.value ? o.value->name : to_string(o.literal));
  return out;
}

inline std::unique_ptr<Graph> run(const char* pass, const Graph& g) {
  auto after = find_pass(pass).run(g);
  if (after) verify(*after, std::string("after ") + pass);
  return after;
}

}  // namespace toroid::graph

#include "program/effects.h"

#include <algorithm>

namespace toroid::program {
namespace {

bool draws(const graph::Graph& g) {
  return std::any_of(g.inputs.begin(), g.inputs.end(), [](auto& in) { return in.kind == graph::InputKind::Random; }) ||
         std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) {
           return n->op->random || std::any_of(n->regions.begin(), n->regions.end(), [](auto& r) { return draws(*r); });
         });
}

}  // namespace

bool draws(const Node& n) {
  const auto* call = std::get_if<Extern>(&n.problem);
  return call && (call->op->random || std::any_of(call->blocks.begin(), call->blocks.end(), [](auto& b) { return draws(*b); }));
}

}  // namespace toroid::program

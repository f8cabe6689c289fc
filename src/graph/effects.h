// What nodes do besides giving results. It is ordered: nodes with effects stay, as often as they are there and in their order.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace toroid::graph {

enum class Effect : uint8_t {
  Writes = 1 << 0,  // memory of an operand, until the functionalize pass
  Draws = 1 << 1,   // moves the stream of random numbers on for those after it
  Checks = 1 << 2,  // may end the run with an error, or say something of sizes
  Meets = 1 << 3,   // the other ranks of a group, which do the same
};

class Effects {
 public:
  constexpr Effects() = default;
  constexpr Effects(Effect e) : bits_(static_cast<uint8_t>(e)) {}
  constexpr bool any() const { return bits_ != 0; }
  constexpr bool has(Effect e) const { return (bits_ & static_cast<uint8_t>(e)) != 0; }
  constexpr Effects& operator|=(Effects o) {
    bits_ = static_cast<uint8_t>(bits_ | o.bits_);
    return *this;
  }
  bool operator==(const Effects&) const = default;

 private:
  uint8_t bits_ = 0;
};

// Of one operation, by its row. Another class of effects is a trait of rows, an enumerator, and a line here.
inline Effects effects_of(const ops::Op& op) {
  Effects out;
  if (is_mutating(op)) out |= Effect::Writes;
  if (op.random) out |= Effect::Draws;
  if (op.effect) out |= Effect::Checks;
  if (op.collective) out |= Effect::Meets;
  return out;
}
// Of a node, with those of all nodes in its regions.
Effects effects_of(const Node& n);

// Whether its results follow from its operands alone, and nothing else does: such a node may be computed when compiling, shared with an
// equal one, or left out. Nodes with regions are none: how often they run is theirs to say.
inline bool is_pure(const Node& n) { return n.regions.empty() && !effects_of(*n.op).any(); }

}  // namespace toroid::graph

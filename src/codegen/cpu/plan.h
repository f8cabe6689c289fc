// How a loop node becomes a CPU kernel: which variable the lanes run along, what a task is, what each pass computes.
#pragma once

#include <string>
#include <vector>

#include "codegen/simplify.h"

namespace toroid::codegen {

// One walk over the reduction variables. Steps are numbers into the plan's body, in order.
struct PassPlan {
  std::vector<int> reduces;  // folded here
  std::vector<int> stores;   // of values that vary over the reduction
  std::vector<int> checks;   // the same, that nobody reads
  std::vector<int> steps;    // varying values computed here
  std::vector<int> reads;    // varying values taken from the row scratch instead
  std::vector<int> keeps;    // those of `steps` that a later pass takes from the row scratch
  int unroll = 1;            // copies of the vector body, each with accumulators of its own
  bool empty() const { return reduces.empty() && stores.empty() && checks.empty(); }
};

struct KernelPlan {
  // The node with variables of one class merged or split so that addresses are as simple as possible, and without variables of extent 1.
  loop::Domain domain;
  loop::Body body;

  int lanes = 1;   // 1: plain scalar code
  int inner = -1;  // position in domain.vars of the innermost loop's variable, along which the lanes run; -1: no loop at all
  int tile = -1;   // space variable that runs in blocks of `lanes`, whose loads in `staged` are transposed in registers
  std::vector<int> staged;
  int weave = -1;  // short space variable along which the stores run on; along the inner one they are its extent apart. All of its points
                   // are computed together, and vectors of each are woven into runs of memory
  bool overlaps = false;       // the last vector along the inner variable overlaps the one before; otherwise the rest goes one by one
  std::vector<int> outer;      // the other space variables, in nominal order
  std::vector<int> reduction;  // the other reduction variables, in nominal order
  int64_t chunk = 0;           // inner elements of a task when a space variable is innermost; 0: all
  bool crossed = false;        // the reduction loops run around the inner one; scans keep their carries in the row scratch
  int64_t group = 1;           // consecutive outer points of a task
  bool serial = false;
  Expr tasks = 1;

  std::vector<bool> varies;    // over the reduction
  std::vector<bool> on_inner;  // the value differs between points of the inner variable
  std::vector<bool> on_tile;   // or of the tile or weave variable
  std::vector<int> pass;
  std::vector<PassPlan> passes;  // [p - 1]; none without reductions
  std::vector<int> scratch;      // steps that are kept in the row scratch; crossed: scans, whose carries are
  std::vector<Expr> scratch_at;  // their offsets in bytes, and the end

  bool inner_reduces() const { return inner >= 0 && domain.vars[static_cast<size_t>(inner)].reduction; }
  const loop::Statement& step(int k) const { return body.steps[static_cast<size_t>(k)]; }
  Expr inner_symbol() const { return inner < 0 ? Expr(0) : domain.vars[static_cast<size_t>(inner)].symbol; }
};

struct PlanOptions {
  bool widen = true;      // allow vectors of two registers
  bool one_task = false;  // all points
};
// `lanes`: 1 for plain scalar code.
KernelPlan make_plan(const loop::Domain& d, const loop::Body& b, int lanes, const PlanOptions& options = {});
std::string to_string(const KernelPlan& p);

// Can two points of the domain address one element? False only when it is proved that they cannot.
bool may_collide(const loop::Domain& d, const loop::Statement& store, bool over_reduction);

}  // namespace toroid::codegen

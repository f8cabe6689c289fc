#include "sched/write_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "program/uses.h"
#include "sched/in_place.h"

namespace toroid::sched {
namespace {

using program::Node;
using program::Program;
using program::ProgramInput;
using program::ProgramOutput;
using program::Uses;

std::vector<Expr> row_major(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

bool is_row_major(const ProgramInput& in) {
  const std::vector<Expr> want = row_major(in.type.sizes);
  for (size_t d = 0; d < in.type.strides.size(); ++d)
    if (!(in.type.sizes[d] == Expr(1)) && !(in.type.strides[d] == want[d])) return false;
  return true;
}

// Whether the result may be computed into the input's memory.
bool may_lie_there(const Program& p, const Uses& uses, const ProgramOutput& o) {
  const ProgramInput& in = p.inputs[static_cast<size_t>(o.mutates)];
  if (in.type.dtype != o.type.dtype || in.type.sizes != o.type.sizes || !is_row_major(in)) return false;
  const auto &writers = uses.writers(o.buffer), &readers = uses.readers(in.buffer);
  if (writers.empty() || !uses.writers(in.buffer).empty()) return false;
  return std::all_of(std::lower_bound(readers.begin(), readers.end(), writers[0]), readers.end(),
                     [&](size_t i) { return i == writers[0] && writers.size() == 1 && may_write_over(p.nodes[i], in.buffer, o.buffer); });
}

// A loop that copies the result. Its number among the parts: none, as no node of the lowered program is part of it.
Node copy_back(const Program& p, const ProgramOutput& o) {
  const ProgramInput& in = p.inputs[static_cast<size_t>(o.mutates)];
  const std::vector<Expr> from = row_major(o.type.sizes), to = in.type.strides.empty() ? from : in.type.strides;
  Node n;
  Expr source = 0, target = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    const Expr i = sym::loop_symbol(fmt::format("i{}", d), o.type.sizes[d]);
    n.domain.vars.push_back({i, false});
    source = source + from[d] * i;
    target = target + to[d] * i;
  }
  loop::BodyBuilder b(n.body);
  b.store(in.buffer, o.type.dtype, target, b.load(o.buffer, o.type.dtype, source));
  n.origins = {p.buffers[static_cast<size_t>(o.buffer)].name};
  n.where = o.where;
  return n;
}

}  // namespace

int write_back(Program& p) {
  int changed = 0;
  std::vector<Node> copies;
  Uses uses(p);
  std::map<int, int> results;  // how many outputs are of a buffer
  for (auto& o : p.outputs) ++results[o.buffer];
  for (ProgramOutput& o : p.outputs) {
    if (o.mutates < 0 || o.buffer < 0) continue;
    auto& result = p.buffers[static_cast<size_t>(o.buffer)];
    const int target = p.inputs[static_cast<size_t>(o.mutates)].buffer;
    if (o.buffer == target || p.buffers[static_cast<size_t>(target)].kind != loop::BufferKind::Input) continue;
    const bool is_shared = results[o.buffer] > 1;
    if (!is_shared && may_lie_there(p, uses, o)) {
      uses.renumber(p, o.buffer, target);
    } else if (is_complex(o.type.dtype)) {
      continue;  // which loops do not move; the executor does
    } else {
      copies.push_back(copy_back(p, o));
    }
    if (!is_shared) result.kind = loop::BufferKind::Temporary;
    --results[o.buffer];
    o.buffer = -1;
    ++changed;
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(p.nodes));
  return changed;
}

}  // namespace toroid::sched

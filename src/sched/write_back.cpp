#include "sched/write_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "program/region.h"
#include "sched/in_place.h"

namespace toroid::sched {
namespace {

using program::Node;
using program::Program;
using program::ProgramInput;
using program::ProgramOutput;

bool contains(const std::vector<int>& list, int x) { return std::find(list.begin(), list.end(), x) != list.end(); }

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
bool may_lie_there(const Program& p, const ProgramOutput& o) {
  const ProgramInput& in = p.inputs[static_cast<size_t>(o.mutates)];
  if (in.type.dtype != o.type.dtype || in.type.sizes != o.type.sizes || !is_row_major(in)) return false;
  size_t first = p.nodes.size(), writers = 0;
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const std::vector<int> written = program::writes(p.nodes[i]);
    if (contains(written, in.buffer)) return false;
    if (!contains(written, o.buffer)) continue;
    ++writers;
    first = std::min(first, i);
  }
  for (size_t i = first; i < p.nodes.size(); ++i) {
    if (!contains(program::reads(p.nodes[i]), in.buffer)) continue;
    if (i != first || writers > 1 || !may_write_over(p.nodes[i], in.buffer, o.buffer)) return false;
  }
  return writers > 0;
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
  for (ProgramOutput& o : p.outputs) {
    if (o.mutates < 0 || o.buffer < 0) continue;
    auto& result = p.buffers[static_cast<size_t>(o.buffer)];
    const int target = p.inputs[static_cast<size_t>(o.mutates)].buffer;
    if (o.buffer == target || p.buffers[static_cast<size_t>(target)].kind != loop::BufferKind::Input) continue;
    const bool is_shared =
        std::any_of(p.outputs.begin(), p.outputs.end(), [&](auto& other) { return &other != &o && other.buffer == o.buffer; });
    if (!is_shared && may_lie_there(p, o)) {
      for (Node& n : p.nodes) program::renumber_buffers(n, [&](int b) { return b == o.buffer ? target : b; });
    } else if (is_complex(o.type.dtype)) {
      continue;  // which loops do not move; the executor does
    } else {
      copies.push_back(copy_back(p, o));
    }
    if (!is_shared) result.kind = loop::BufferKind::Temporary;
    o.buffer = -1;
    ++changed;
  }
  std::move(copies.begin(), copies.end(), std::back_inserter(p.nodes));
  return changed;
}

}  // namespace toroid::sched

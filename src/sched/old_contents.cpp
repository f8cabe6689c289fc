#include "sched/old_contents.h"

#include <fmt/format.h>

#include "program/users_calls.h"
#include "sched/passes.h"

namespace toroid::sched {

using program::Extern;
using program::Node;

namespace {

Node copy(const Extern::View& from, const Extern::View& to, const Node& call) {
  Node n;
  Expr source = from.memory.offset, target = to.memory.offset;
  for (size_t d = 0; d < from.sizes.size(); ++d) {
    const Expr i = sym::loop_symbol(fmt::format("i{}", d), from.sizes[d]);
    n.domain.vars.push_back({i, false});
    source = source + from.memory.strides[d] * i;
    target = target + to.memory.strides[d] * i;
  }
  loop::BodyBuilder b(n.body);
  b.store(to.memory.buffer, to.memory.dtype, target, b.load(from.memory.buffer, from.memory.dtype, source));
  n.origins = call.origins;
  n.where = call.where;
  n.pass = call.pass;
  return n;
}

}  // namespace

int bring_old_contents(program::Program& p) {
  int copies = 0;
  std::vector<Node> nodes;
  for (Node& n : p.nodes) {
    if (auto* call = std::get_if<Extern>(&n.problem); call && (program::is_users_kernel(*call) || program::is_users_function(*call)))
      for (auto& [input, output] : program::written_operands(*call)) {
        Extern::View &from = call->inputs[input], &to = call->outputs[output];
        if (from.memory.buffer == to.memory.buffer) continue;
        nodes.push_back(copy(from, to, n));
        from = to;
        ++copies;
      }
    nodes.push_back(std::move(n));
  }
  p.nodes = std::move(nodes);
  return copies;
}

bool run_old_contents(program::Program& p, target::PassContext&) { return bring_old_contents(p) > 0; }

}  // namespace toroid::sched

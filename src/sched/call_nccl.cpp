#include "sched/call_nccl.h"

#include "base/check.h"
#include "program/points.h"
#include "sched/split_epilogue.h"

namespace toroid::sched {

using distributed::Kind;
using program::Meeting;

std::string call_nccl_refusal(const program::Node& meeting) {
  const auto* m = std::get_if<Meeting>(&meeting.problem);
  if (!m) return "it is no collective between GPUs";
  return m->product ? "a product is part of it" : "";
}

bool nccl_has_the_same_bits(const Meeting& m) { return m.kind == Kind::AllGather || (m.op == distributed::ReduceOp::Sum && m.ranks == 2); }

void call_nccl(program::Program& p, size_t meeting) {
  const Meeting m = std::get<Meeting>(p.nodes[meeting].problem);
  leave_sums(p, meeting, m.input.dtype);
  program::Node& node = p.nodes[meeting];
  const int out = program::plain_result(node);
  TOROID_CHECK(out >= 0, "{} does more than to store its result", program::label(node));
  program::Collective c;
  c.kind = m.kind, c.op = m.op, c.group = m.group;
  if (m.kind != Kind::AllReduce) c.ranks = m.ranks;
  c.count = program::product(m.kind == Kind::AllGather ? program::input_sizes(m) : m.sizes);
  c.input = {m.input.buffer, m.input.dtype, m.input.offset, {1}};
  c.output = {out, m.input.dtype, 0, {1}};
  node.problem = std::move(c);
  node.config = {};
  node.domain = {}, node.body = {};
}

}  // namespace toroid::sched

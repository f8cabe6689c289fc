#include "sched/bring.h"

#include "program/points.h"
#include "sched/joins.h"

namespace toroid::sched {
namespace {

using program::Gemm;
using program::Meeting;
using program::Node;
using program::Program;
using program::Uses;

// Templates of GPUs, as configurations name them.
constexpr const char* kForm = "gemv_all_reduce";

// Whether they were chosen to be computed by templates that do the same apart, or by that of both.
bool have_forms(const Node& product, const Node& meeting) {
  const auto is = [](const Node& n, std::string_view apart) {
    return n.config.empty() || n.config.form == apart || n.config.form == kForm;
  };
  return is(product, "gemv") && is(meeting, "all_reduce_inline");
}

// What the meeting of the product's result becomes.
Node joined(const Node& product, const Node& meeting) {
  Node out = meeting;
  auto& m = std::get<Meeting>(out.problem);
  m.product = std::get<Gemm>(product.problem);
  m.input = {-1, m.input.dtype, 0, {}};
  out.producer = product.producer;
  if (meeting.config.form != kForm) out.config = product.config;
  if (!out.config.empty()) out.config.form = kForm;
  out.after_meeting = product.after_meeting;
  program::take_over(out, product, true);
  return out;
}

}  // namespace

Program bring_products(Program p, const target::Target& target, FusionReport* report) {
  Joins joins(p, report);
  const Uses& uses = joins.uses();
  for (size_t i = 0; i < p.nodes.size(); ++i) {
    const auto* g = std::get_if<Gemm>(&p.nodes[i].problem);
    if (!g || g->b2 || p.nodes[i].is_library()) continue;
    const int between = program::plain_result(p.nodes[i]);
    if (between < 0 || p.buffers[static_cast<size_t>(between)].kind != loop::BufferKind::Temporary) continue;
    const size_t j = uses.only_reader(between, i);
    const auto* m = j == Uses::kNone ? nullptr : std::get_if<Meeting>(&p.nodes[j].problem);
    if (!m || m->product || m->kind != distributed::Kind::AllReduce || m->input.buffer != between || !(m->input.offset == Expr(0)))
      continue;
    std::string reason;
    if (!program::may_join(p, p.nodes[i], p.nodes[j]))
      reason = "they were chosen to stay apart";
    else if (!have_forms(p.nodes[i], p.nodes[j]))
      reason = "one of them has a template that does not go with the other's";
    else if (uses.is_touched_between(i, j))
      reason = "something between the two touches their memory";
    else if (!(program::product(m->sizes) == program::product(points(*g))))
      reason = "the ranks meet for a part of it";
    Node whole = joined(p.nodes[i], p.nodes[j]);
    if (reason.empty()) reason = target.bringing_refusal(whole);
    if (reason.empty())
      joins.join(i, j, std::move(whole));
    else
      joins.miss(i, j, std::move(reason));
  }
  joins.finish();
  return p;
}

}  // namespace toroid::sched

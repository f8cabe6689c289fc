#include "sched/passes.h"

#include "program/inline.h"
#include "sched/absorb.h"
#include "sched/bring.h"
#include "sched/factor_sums.h"
#include "sched/foreach.h"
#include "sched/join_columns.h"
#include "sched/layout.h"
#include "sched/overlap_collectives.h"
#include "sched/pair.h"
#include "sched/pieces.h"
#include "sched/recompute.h"
#include "sched/reuse.h"
#include "sched/rows_and_columns.h"
#include "sched/share.h"
#include "sched/split.h"
#include "sched/sum_columns.h"
#include "sched/write_back.h"

namespace toroid::sched {
namespace {

// What passes that join or cut nodes do: whether there are more or fewer of them then.
template <class Pass>
bool changes_nodes(program::Program& p, const Pass& pass) {
  const size_t before = p.nodes.size();
  p = pass(std::move(p));
  return p.nodes.size() != before;
}

// See fuse().
int dividing_workers(const target::Target& target) { return target.facts().device.is_cuda() ? target.facts().workers : 0; }

}  // namespace

bool run_inline_defaults(program::Program& p, target::PassContext& context) {
  const size_t before = p.nodes.size();
  const bool open = std::any_of(p.nodes.begin(), p.nodes.end(), [](auto& n) { return n.is_open(); });
  p = program::inline_defaults(std::move(p), context.report.choices);
  return open || p.nodes.size() != before;
}

bool run_fuse(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return fuse(std::move(q), &context.report.fusion, dividing_workers(context.target)); });
}

bool run_fuse_rests(program::Program& p, target::PassContext& context) {
  return context.parted &&
         changes_nodes(p, [&](program::Program q) { return fuse(std::move(q), nullptr, dividing_workers(context.target)); });
}

bool run_factor_sums(program::Program& p, target::PassContext&) { return factor_sums(p); }

bool run_recompute(program::Program& p, target::PassContext& context) {
  const auto lines = recompute(p);
  context.report.choices.insert(context.report.choices.end(), lines.begin(), lines.end());
  if (lines.empty()) return false;
  p = fuse(std::move(p), nullptr, dividing_workers(context.target));  // stores that are gone kept loops apart
  return true;
}

bool run_sum_columns(program::Program& p, target::PassContext& context) {
  const size_t before = p.buffers.size();
  const auto lines = sum_columns(p, context.target);
  context.report.choices.insert(context.report.choices.end(), lines.begin(), lines.end());
  return p.buffers.size() != before;
}

bool run_rows_and_columns(program::Program& p, target::PassContext& context) {
  const size_t before = p.buffers.size();
  const auto lines = rows_and_columns(p, context.target);
  context.report.choices.insert(context.report.choices.end(), lines.begin(), lines.end());
  return p.buffers.size() != before;
}

bool run_join_columns(program::Program& p, target::PassContext& context) {
  const auto lines = join_columns(p);
  context.report.choices.insert(context.report.choices.end(), lines.begin(), lines.end());
  return !lines.empty();
}

bool run_absorb_producers(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return absorb_producers(std::move(q), context.target, &context.report.fusion); });
}

bool run_pair_products(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return pair_products(std::move(q), context.target, &context.report.fusion); });
}

bool run_bring_products(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return bring_products(std::move(q), context.target, &context.report.fusion); });
}

bool run_overlap_products(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return overlap_products(std::move(q), context.target, &context.report.fusion); });
}

bool run_split_reductions(program::Program& p, target::PassContext& context) {
  const int threads = context.target.facts().workers;
  return changes_nodes(p, [&](program::Program q) { return split_reductions(std::move(q), threads, &context.report.fusion); });
}

bool run_share_launches(program::Program& p, target::PassContext&) { return changes_nodes(p, share_launches); }

bool run_foreach(program::Program& p, target::PassContext& context) {
  return changes_nodes(p, [&](program::Program q) { return join_updates(std::move(q), context.target); });
}

bool run_write_back(program::Program& p, target::PassContext&) { return write_back(p) > 0; }

bool run_reuse(program::Program& p, target::PassContext&) { return reuse_temporaries(p) > 0; }

bool run_overlap_collectives(program::Program& p, target::PassContext&) { return overlap_collectives(p); }

bool run_pad_products(program::Program& p, target::PassContext& context) {
  const size_t before = p.buffers.size();
  for (auto& line : pad_for_gpu(p)) context.report.choices.push_back(std::move(line));
  return p.buffers.size() != before;
}

}  // namespace toroid::sched

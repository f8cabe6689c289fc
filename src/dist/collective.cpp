#include "dist/collective.h"

#include <fmt/format.h>

#include "base/check.h"

namespace toroid::distributed {
namespace {

bool reduces(Kind k) { return k == Kind::AllReduce || k == Kind::ReduceScatter; }

std::string said(const Collective& c) { return to_string(c) + (c.where.empty() ? "" : " at " + c.where); }

}  // namespace

std::string_view name_of(Kind k) { return kKindNames[static_cast<size_t>(k)]; }

std::string_view name_of(ReduceOp op) { return kReduceOpNames[static_cast<size_t>(op)]; }

ReduceOp reduce_op_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kReduceOpNames); ++i)
    if (kReduceOpNames[i] == name) return static_cast<ReduceOp>(i);
  fail<UserError>("\"{}\" is no reduction of collectives: expected sum, avg, min, max or product", name);
}

std::string to_string(const Collective& c) {
  if (c.kind == Kind::Barrier) return "barrier";
  std::string about = reduces(c.kind) ? fmt::format("({})", name_of(c.op)) : "";
  if (c.kind == Kind::Broadcast) about = fmt::format("(from rank {})", c.root);
  if (c.kind != Kind::AllToAll) return fmt::format("{}{} of {}[{}]", name_of(c.kind), about, name_of(c.dtype), c.count);
  return fmt::format("{} of {}, giving [{}], taking [{}]", name_of(c.kind), name_of(c.dtype), fmt::join(c.in_splits, ", "),
                     fmt::join(c.out_splits, ", "));
}

bool alike(const Collective& a, const Collective& b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.count == b.count && a.root == b.root && (!reduces(a.kind) || a.op == b.op);
}

namespace {

std::string differ(int rank_a, const Collective& a, int rank_b, const Collective& b) {
  return fmt::format("rank {} called {}, rank {} {}", rank_b, said(b), rank_a, said(a));
}

// Empty where the receiver takes what it is given.
std::string split_differs(int from, const Collective& giver, int to, const Collective& taker) {
  const int64_t given = giver.in_splits[static_cast<size_t>(to)], taken = taker.out_splits[static_cast<size_t>(from)];
  if (given == taken) return "";
  return fmt::format("rank {} gives rank {} {} elements, which takes {}: {}, and {}", from, to, given, taken, said(giver), said(taker));
}

}  // namespace

std::string mismatch(int rank_a, const Collective& a, int rank_b, const Collective& b) {
  if (!alike(a, b)) return differ(rank_a, a, rank_b, b);
  if (a.kind != Kind::AllToAll) return "";
  if (std::string why = split_differs(rank_a, a, rank_b, b); !why.empty()) return why;
  return split_differs(rank_b, b, rank_a, a);
}

std::string mismatch(const std::vector<const Collective*>& calls) {
  for (size_t r = 1; r < calls.size(); ++r)
    if (!alike(*calls[0], *calls[r])) return differ(0, *calls[0], static_cast<int>(r), *calls[r]);
  if (calls[0]->kind != Kind::AllToAll) return "";
  for (size_t r = 0; r < calls.size(); ++r)
    if (calls[r]->in_splits.size() != calls.size() || calls[r]->out_splits.size() != calls.size())
      return fmt::format("rank {} called {}: expected {} numbers in each list, one a rank", r, said(*calls[r]), calls.size());
  for (size_t to = 0; to < calls.size(); ++to)
    for (size_t from = 0; from < calls.size(); ++from)
      if (std::string why = split_differs(static_cast<int>(from), *calls[from], static_cast<int>(to), *calls[to]); !why.empty()) return why;
  return "";
}

}  // namespace toroid::distributed

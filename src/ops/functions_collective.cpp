#include "dist/group.h"
#include "ops/call_errors.h"
#include "ops/function_arguments.h"
#include "toroid/collectives.h"

namespace toroid::distributed {
namespace {

using ops::call1;
using ops::arguments::exprs;

Tensor call(const char* name, CallArgs args, const Where& where) {
  return call1(fmt::format("_c10d_functional.{}", name), std::move(args), where);
}

Expr elements_of(const Receive& r) {
  Expr n = 1;
  for (auto& s : exprs(r.sizes)) n = n * s;
  return n;
}

Expr ranks_of(std::string_view group) { return current_world().group(group).size(); }

}  // namespace

Tensor all_reduce(const Tensor& x, std::string_view op, std::string_view group, Where where) {
  return call("all_reduce", {x, std::string(op), std::string(group)}, where);
}

Tensor all_gather(const Tensor& x, std::string_view group, Where where) {
  return call("all_gather_into_tensor", {x, ranks_of(group), std::string(group)}, where);
}

Tensor reduce_scatter(const Tensor& x, std::string_view op, std::string_view group, Where where) {
  return call("reduce_scatter_tensor", {x, std::string(op), ranks_of(group), std::string(group)}, where);
}

Tensor all_to_all(const Tensor& x, const SizeList& taken, const SizeList& given, std::string_view group, Where where) {
  return call("all_to_all_single", {x, exprs(taken), exprs(given), std::string(group)}, where);
}

std::vector<Tensor> batch_send_recv(const std::vector<Send>& sends, const std::vector<Receive>& receives, DType dtype, const Device& device,
                                    std::string_view group, Where where) {
  const int ranks = current_world().group(group).size();
  const auto check_peer = [&](int peer) {
    TOROID_USER_CHECK(peer >= 0 && peer < ranks, "batch_send_recv: there is no rank {} in the group \"{}\" of {} ranks (called at {})",
                      peer, group, ranks, ops::place_text(where));
  };
  std::vector<std::vector<Tensor>> for_rank(static_cast<size_t>(ranks));
  std::vector<std::vector<size_t>> from_rank(static_cast<size_t>(ranks));
  std::vector<Expr> given(static_cast<size_t>(ranks), 0), taken(static_cast<size_t>(ranks), 0);
  for (auto& s : sends) {
    check_peer(s.peer);
    TOROID_USER_CHECK(s.x.defined(), "batch_send_recv: an undefined tensor is sent to rank {} (called at {})", s.peer,
                      ops::place_text(where));
    TOROID_USER_CHECK(s.x.dtype() == dtype && s.x.device() == device,
                      "batch_send_recv: {} on {} is sent in a batch of {} on {} (called at {})", name_of(s.x.dtype()),
                      to_string(s.x.device()), name_of(dtype), to_string(device), ops::place_text(where));
    for_rank[static_cast<size_t>(s.peer)].push_back(call1("reshape", {s.x, std::vector<Expr>{-1}}, where));
    given[static_cast<size_t>(s.peer)] += for_rank[static_cast<size_t>(s.peer)].back().sym_sizes()[0].expr();
  }
  for (size_t i = 0; i < receives.size(); ++i) {
    check_peer(receives[i].peer);
    from_rank[static_cast<size_t>(receives[i].peer)].push_back(i);
    taken[static_cast<size_t>(receives[i].peer)] += elements_of(receives[i]);
  }
  std::vector<Tensor> all;
  for (auto& list : for_rank) all.insert(all.end(), list.begin(), list.end());
  if (all.empty()) all.push_back(Tensor::empty(std::vector<int64_t>{0}, dtype, device));
  const Tensor x = all.size() == 1 ? all[0] : call1("cat", {all, Expr(0)}, where);
  const Tensor came = call("all_to_all_single", {x, taken, given, std::string(group)}, where);
  std::vector<Tensor> out(receives.size());
  Expr at = 0;
  for (auto& list : from_rank)
    for (const size_t i : list) {
      const Expr end = at + elements_of(receives[i]);
      out[i] = call1("reshape", {call1("slice.Tensor", {came, Expr(0), at, end, Expr(1)}, where), exprs(receives[i].sizes)}, where);
      at = end;
    }
  return out;
}

Tensor broadcast(const Tensor& x, int from, std::string_view group, Where where) {
  return call("broadcast", {x, Expr(from), std::string(group)}, where);
}

void barrier(std::string_view group, Where where) {
  current_world().group(group).run({.kind = Kind::Barrier, .where = ops::place_text(where)});
}

}  // namespace toroid::distributed

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

Tensor broadcast(const Tensor& x, int from, std::string_view group, Where where) {
  return call("broadcast", {x, Expr(from), std::string(group)}, where);
}

void barrier(std::string_view group, Where where) {
  current_world().group(group).run({.kind = Kind::Barrier, .where = ops::place_text(where)});
}

}  // namespace toroid::distributed

#include "graph/passes/trim_rules.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/check.h"
#include "graph/effects.h"

namespace toroid::graph {
namespace {

using Names = std::set<std::string_view>;
using Sizes = std::vector<Expr>;

const NodeArg* arg(const Node& n, const char* name) {
  int i = n.op->schema.find(name);
  return i < 0 ? nullptr : &n.args[static_cast<size_t>(i)];
}
bool is_set(const Node& n, const char* name) {
  const NodeArg* a = arg(n, name);
  return a && std::holds_alternative<bool>(*a) && std::get<bool>(*a);
}
std::optional<int64_t> integer(const NodeArg* a) {
  auto* e = a ? std::get_if<Expr>(a) : nullptr;
  return e ? e->maybe_constant() : std::nullopt;
}

// The node's arguments with its tensors in place of its operands.
CallArgs with_operands(const Node& n, const std::vector<Tensor>& operands) {
  CallArgs out;
  size_t next = 0;
  for (auto& a : n.args) out.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? operands.at(next++) : Tensor(); }));
  return out;
}

std::vector<Tensor> same_operation(const TrimStep& s, const std::vector<Tensor>& operands, TrimBuilder& out) {
  std::vector<TensorType> types;
  std::vector<std::string> names;
  for (size_t i = 0; i < s.results.size(); ++i) {
    types.push_back({s.node.results[i]->type.dtype, lengths(s.results[i]), {}});
    names.push_back(s.node.results[i]->name);
  }
  return out.add(*s.node.op, with_operands(s.node, operands), std::move(types), names);
}

// All results hold the same part.
void unite_results(TrimStep& s) {
  Demand all;
  for (auto& d : s.results) join(all, d);
  for (auto& d : s.results) d = all;
}

// What is read of an operand of `sizes` that is broadcast to dimensions [0, end) of `result`; where their sizes are not known to agree all
// is read of both.
Demand broadcast_operand(const Sizes& sizes, Demand& result, size_t end) {
  Demand need{true, {}};
  TOROID_CHECK(sizes.size() <= end, "an operand of {} dimensions is broadcast to {}", sizes.size(), end);
  for (size_t d = 0; d < sizes.size(); ++d) {
    Selection& s = result.dims[end - sizes.size() + d];
    const Expr all = extent(s);
    if (!(sizes[d] == Expr(1)) && !(sizes[d] == all)) s = all_of(all);
    need.dims.push_back(sizes[d] == all ? s : all_of(sizes[d]));
  }
  return need;
}

bool follow_pointwise(TrimStep& s) {
  if (s.results.size() != 1) return false;
  Demand& r = s.results[0];
  // Twice: what one operand needs whole the others must not leave out.
  for (int pass = 0; pass < 2; ++pass) {
    s.needs.clear();
    for (auto* v : s.operands) {
      if (v->type.sizes.size() > r.dims.size()) return false;
      s.needs.push_back(broadcast_operand(v->type.sizes, r, r.dims.size()));
    }
  }
  return true;
}

bool follow_reshape(TrimStep& s) {
  s.needs = {through_reshape(s.operands[0]->type.sizes, s.results[0])};
  return true;
}
std::vector<Tensor> emit_reshape(const TrimStep& s, const std::vector<Tensor>& operands, TrimBuilder& out) {
  return {out.reshaped(operands[0], lengths(s.results[0]))};
}

// Where dimension by dimension of a view's operand its elements come from.
struct Source {
  enum Kind { Fixed, Along, Reversed } kind = Fixed;
  size_t dim = 0;  // of the result
  Expr at;         // position of the result's element 0
};
std::optional<std::vector<Source>> sources(const Node& n, size_t result) {
  Sizes index;
  for (size_t d = 0; d < n.results[result]->type.sizes.size(); ++d) index.push_back(sym::loop_symbol("i" + std::to_string(d)));
  auto types = type_args(n);
  std::vector<Source> out;
  std::set<size_t> seen;
  for (auto& e : n.op->index_map(ops::TypeReader(*n.op, types), result, index)) {
    Source s{Source::Fixed, 0, e};
    for (size_t d = 0; d < index.size(); ++d) {
      if (!sym::depends_on(e, index[d])) continue;
      auto c = sym::linear_coefficient(e, index[d]);
      if (s.kind != Source::Fixed || !c || !(*c == Expr(1) || *c == Expr(-1)) || !seen.insert(d).second) return std::nullopt;
      s = *c == Expr(1) ? Source{Source::Along, d, e - index[d]} : Source{Source::Reversed, d, e + index[d]};
    }
    out.push_back(s);
  }
  return out;
}

// Permutations, slices, selections, reversals, expansions and whatever else takes each dimension of its operand by itself.
bool follow_view(TrimStep& s) {
  if (s.operands.size() != 1) return false;  // one that names another tensor for its place in the order
  const Sizes& sizes = s.operands[0]->type.sizes;
  Demand together;
  for (size_t i = 0; i < s.results.size(); ++i) {
    auto from = sources(s.node, i);
    if (!from) return false;
    if (!s.results[i].used) continue;
    Demand need{true, {}};
    for (size_t d = 0; d < sizes.size(); ++d) {
      const Source& source = (*from)[d];
      if (source.kind == Source::Fixed) {
        need.dims.push_back({{sizes[d], source.at, 1}});
        continue;
      }
      Selection& r = s.results[i].dims[source.dim];
      const Expr& all = s.node.results[i]->type.sizes[source.dim];
      const bool moved = source.kind == Source::Reversed || !(source.at == Expr(0)) || !(all == sizes[d]);
      if (r.size() > 1 && moved) r = all_of(all);
      if (r.size() > 1)
        need.dims.push_back(r);
      else if (source.kind == Source::Along)
        need.dims.push_back({{sizes[d], source.at + r[0].start, r[0].length}});
      else
        need.dims.push_back({{sizes[d], source.at - r[0].start - r[0].length + 1, r[0].length}});
    }
    join(together, need);
  }
  s.needs = {together};
  return true;
}
// The operand holds what all results read.
std::vector<Tensor> emit_view(const TrimStep& s, const std::vector<Tensor>& operands, TrimBuilder& out) {
  std::vector<Tensor> made;
  for (size_t i = 0; i < s.results.size(); ++i) {
    made.emplace_back();
    if (!s.results[i].used) continue;
    TrimStep one{s.node, s.results, s.operands, {}};
    for (size_t k = 0; k < one.results.size(); ++k) one.results[k].used = k == i;
    TOROID_CHECK(follow_view(one), "{} is followed once and not again", s.node.op->name);
    Tensor t = out.cut(operands[0], s.needs[0], one.needs[0]);
    const auto from = *sources(s.node, i);
    const DType dtype = t.dtype();
    Sizes now = lengths(one.needs[0]), want = lengths(s.results[i]), reversed, order, placed(want.size(), 1);
    std::vector<size_t> source_of(want.size(), from.size());
    for (size_t d = 0; d < from.size(); ++d) {
      if (from[d].kind == Source::Reversed) reversed.push_back(static_cast<int64_t>(d));
      if (from[d].kind != Source::Fixed) source_of[from[d].dim] = d;
    }
    if (!reversed.empty()) t = out.add("flip", {t, reversed}, dtype, now);
    std::vector<size_t> places;
    for (size_t d = 0; d < want.size(); ++d)
      if (source_of[d] < from.size()) places.push_back(source_of[d]), placed[d] = now[source_of[d]];
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d].kind == Source::Fixed) places.insert(std::upper_bound(places.begin(), places.end(), d), d);
    if (!std::is_sorted(places.begin(), places.end())) {
      Sizes moved;
      for (size_t d : places) order.push_back(static_cast<int64_t>(d)), moved.push_back(now[d]);
      t = out.add("permute", {t, order}, dtype, moved);
    }
    t = out.reshaped(t, placed);
    if (!(placed == want)) t = out.add("expand", {t, want, false}, dtype, want);
    made.back() = t;
  }
  return made;
}

// Of operations along one dimension, or some: the others.
bool follow_along(TrimStep& s, const std::vector<bool>& along) {
  unite_results(s);
  Demand need{true, {}};
  const Sizes& sizes = s.operands[0]->type.sizes;
  Demand& r = s.results[0];
  const bool keeps = r.dims.size() == sizes.size();
  size_t next = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (along[d]) {
      need.dims.push_back(all_of(sizes[d]));
      if (keeps) r.dims[next] = all_of(s.node.results[0]->type.sizes[next]), ++next;
    } else {
      need.dims.push_back(r.dims[next++]);
    }
  }
  for (auto& other : s.results) other = r;
  s.needs = {need};
  return true;
}

bool follow_reduction(TrimStep& s) {
  const size_t rank = s.operands[0]->type.sizes.size();
  const NodeArg* dim = arg(s.node, "dim");
  std::vector<int64_t> dims;
  if (auto one = integer(dim)) dims = {*one};
  if (auto* list = dim ? std::get_if<std::vector<Expr>>(dim) : nullptr)
    for (auto& e : *list) dims.push_back(e.constant());
  std::vector<bool> along(rank, dims.empty());
  for (int64_t d : dims)
    if (rank) along[static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(rank) : d)] = true;
  return follow_along(s, along);
}

bool follow_scan(TrimStep& s) {
  const size_t rank = s.operands[0]->type.sizes.size();
  auto dim = integer(arg(s.node, "dim"));
  if (!dim || rank == 0 || s.operands.size() != 1) return false;
  std::vector<bool> along(rank);
  along[static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim)] = true;
  return follow_along(s, along);
}

// Rows of the left operand, and batches.
bool follow_product(TrimStep& s) {
  const Sizes &a = s.operands[0]->type.sizes, &b = s.operands[1]->type.sizes;
  Demand& r = s.results[0];
  r.dims.back() = all_of(b.back());
  Demand left{true, r.dims}, right = whole(s.operands[1]->type);
  left.dims.back() = all_of(a.back());
  if (a.size() == 3) {
    if (!(a[0] == b[0])) r.dims[0] = left.dims[0] = all_of(a[0]);
    right.dims[0] = left.dims[0];
  }
  s.needs = {left, right};
  return true;
}

bool follow_index(TrimStep& s) {
  auto& indices = std::get<std::vector<Value*>>(s.node.args[1]);
  std::vector<size_t> given;
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i]) given.push_back(i);
  if (given.empty() || given.back() - given[0] + 1 != given.size()) return false;
  size_t joint = 0;  // dimensions of the indices together
  for (size_t i : given) {
    if (!is_int(indices[i]->type.dtype) || indices[i]->type.dtype == DType::U8) return false;
    joint = std::max(joint, indices[i]->type.sizes.size());
  }
  const Sizes& sizes = s.operands[0]->type.sizes;
  const size_t first = given[0];
  Demand& r = s.results[0];
  if (sizes.size() - given.size() + joint != r.dims.size()) return false;
  for (int pass = 0; pass < 2; ++pass) {
    s.needs = {whole(s.operands[0]->type)};
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d < first || d >= first + given.size()) s.needs[0].dims[d] = r.dims[d < first ? d : d - given.size() + joint];
    for (size_t i : given) s.needs.push_back(broadcast_operand(indices[i]->type.sizes, r, first + joint));
  }
  return true;
}

// Along the dimension that is joined nothing is left out.
bool follow_cat(TrimStep& s) {
  auto dim = integer(arg(s.node, "dim"));
  Demand& r = s.results[0];
  if (!dim) return false;
  const size_t at = static_cast<size_t>(*dim < 0 ? *dim + static_cast<int64_t>(r.dims.size()) : *dim);
  r.dims[at] = all_of(s.node.results[0]->type.sizes[at]);
  for (auto* v : s.operands) {
    if (v->type.sizes.size() != r.dims.size()) return false;
    for (size_t d = 0; d < r.dims.size(); ++d)
      if (d != at && !(v->type.sizes[d] == s.node.results[0]->type.sizes[d])) return false;
    Demand need = r;
    need.dims[at] = all_of(v->type.sizes[at]);
    s.needs.push_back(need);
  }
  return true;
}

bool follow_full(TrimStep&) { return true; }
std::vector<Tensor> emit_full(const TrimStep& s, const std::vector<Tensor>&, TrimBuilder& out) {
  CallArgs args = with_operands(s.node, {});
  args[0] = lengths(s.results[0]);
  return out.add(*s.node.op, std::move(args), {{s.node.results[0]->type.dtype, lengths(s.results[0]), {}}}, {s.node.results[0]->name});
}

// The queries whose keys end with their own position, as numbers: [from, from + count) see the keys before from + count at most.
struct Causal {
  bool is_set = false;
  bool ends = false;    // the last of them sees no more keys than that, and there are more
  bool masked = false;  // they do not see the same
};
Causal causal_of(const TrimStep& s) {
  const Selection& rows = s.results[0].dims[s.results[0].dims.size() - 2];
  const Sizes& k = s.operands[1]->type.sizes;
  Causal c;
  c.is_set = is_set(s.node, "is_causal") && !is_whole(rows);
  if (!c.is_set) return c;
  const Expr end = rows[0].start + rows[0].length, &keys = k[k.size() - 2];
  auto all = sym::known({sym::Rel::Ge, end, keys});
  c.ends = all && !*all;
  c.masked = !all || !(rows[0].length == Expr(1));
  return c;
}

// The rows of queries and mask; all keys and values, but for those that come after the last row where attention is causal.
bool follow_attention(TrimStep& s) {
  Demand& r = s.results[0];
  const size_t rank = r.dims.size();
  auto* dropout = arg(s.node, "dropout_p");
  const bool drops = dropout && std::holds_alternative<double>(*dropout) && std::get<double>(*dropout) > 0;
  if (rank < 2 || drops) return false;
  for (size_t i = 0; i < 3; ++i)
    if (s.operands[i]->type.sizes.size() != rank) return false;
  const Sizes& q = s.operands[0]->type.sizes;
  r.dims[rank - 1] = all_of(s.operands[2]->type.sizes[rank - 1]);
  if (!(q[rank - 2] == s.node.results[0]->type.sizes[rank - 2])) return false;
  if (rank >= 3 && is_set(s.node, "enable_gqa")) r.dims[rank - 3] = all_of(s.node.results[0]->type.sizes[rank - 3]);
  if (is_set(s.node, "is_causal") && r.dims[rank - 2].size() > 1) r.dims[rank - 2] = all_of(q[rank - 2]);
  for (int pass = 0; pass < 2; ++pass) {
    s.needs.clear();
    for (size_t i = 0; i < 3; ++i) {
      const Sizes& sizes = s.operands[i]->type.sizes;
      Demand outer = broadcast_operand(Sizes(sizes.begin(), sizes.end() - 2), r, rank - 2);
      outer.dims.push_back(i == 0 ? r.dims[rank - 2] : all_of(sizes[rank - 2]));
      outer.dims.push_back(all_of(sizes[rank - 1]));
      s.needs.push_back(std::move(outer));
    }
    if (s.operands.size() == 4) {
      const Sizes& sizes = s.operands[3]->type.sizes;
      if (sizes.empty() || sizes.size() > rank) return false;
      s.needs.push_back(broadcast_operand(Sizes(sizes.begin(), sizes.end() - 1), r, rank - 1));
      s.needs.back().dims.push_back(all_of(sizes.back()));
    }
  }
  if (Causal c = causal_of(s); c.ends)
    for (size_t i = 1; i < 3; ++i) {
      const Factor& rows = r.dims[rank - 2][0];
      s.needs[i].dims[rank - 2] = {{s.operands[i]->type.sizes[rank - 2], 0, rows.start + rows.length}};
    }
  return true;
}
std::vector<Tensor> emit_attention(const TrimStep& s, const std::vector<Tensor>& operands, TrimBuilder& out) {
  CallArgs args = with_operands(s.node, operands);
  const size_t rank = s.results[0].dims.size();
  if (Causal c = causal_of(s); c.is_set) {
    args[static_cast<size_t>(s.node.op->schema.find("is_causal"))] = false;
    if (c.masked) {
      const Factor& rows = s.results[0].dims[rank - 2][0];
      const Expr keys = length(s.needs[1].dims[rank - 2]);
      Tensor row = out.add("prims.iota", {rows.length, rows.start, Expr(1), DType::I64}, DType::I64, {rows.length});
      Tensor key = out.add("prims.iota", {keys, Expr(0), Expr(1), DType::I64}, DType::I64, {keys});
      row = out.reshaped(row, {rows.length, 1});
      args[static_cast<size_t>(s.node.op->schema.find("attn_mask"))] = out.add("ge.Tensor", {row, key}, DType::Bool, {rows.length, keys});
    }
  }
  return out.add(*s.node.op, std::move(args), {{s.node.results[0]->type.dtype, lengths(s.results[0]), {}}}, {s.node.results[0]->name});
}

bool is_reshape(const ops::Op& op) {
  static const Names& names = *new Names{"view",    "view_copy",   "_unsafe_view", "reshape",   "flatten.using_ints", "unflatten.int",
                                         "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "_reshape_alias"};
  return names.count(op.name) > 0;
}

}  // namespace

const TrimRule* trim_rule(const Node& n) {
  static const TrimRule pointwise{follow_pointwise, same_operation}, reshape{follow_reshape, emit_reshape, true},
      view{follow_view, emit_view, true, true}, reduction{follow_reduction, same_operation}, scan{follow_scan, same_operation},
      product{follow_product, same_operation}, index{follow_index, same_operation}, cat{follow_cat, same_operation},
      full{follow_full, emit_full, true}, attention{follow_attention, emit_attention};
  static const Names& scans = *new Names{"cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "sort.stable", "topk"};
  static const Names& products = *new Names{"mm", "bmm", "mm.dtype", "bmm.dtype", "_int_mm"};
  const ops::Op& op = *n.op;
  if (!is_pure(n)) return nullptr;
  if (op.name == "scaled_dot_product_attention") return &attention;
  if (op.decompose) return nullptr;
  if (is_reshape(op)) return &reshape;
  if (op.index_map) return &view;
  if (op.formula) return &pointwise;
  if (op.reduce) return &reduction;
  if (scans.count(op.name)) return &scan;
  if (products.count(op.name)) return &product;
  if (op.name == "index.Tensor") return &index;
  if (op.name == "cat") return &cat;
  if (op.name == "full") return &full;
  return nullptr;
}

Tensor TrimBuilder::add(const char* op, CallArgs args, DType dtype, std::vector<Expr> sizes) {
  const ops::Op& row = ops::get(op);
  return add(row, ops::complete(row, std::move(args)), {{dtype, std::move(sizes), {}}}, {})[0];
}

std::vector<Tensor> TrimBuilder::add(const ops::Op& op, CallArgs args, std::vector<TensorType> types,
                                     const std::vector<std::string>& names) {
  std::vector<NodeArg> node_args;
  for (auto& a : args) node_args.push_back(map_arg<Value*>(a, [&](const Tensor& t) { return recorder_.value_of(t); }));
  Node* n = recorder_.graph().add_node(op, std::move(node_args), std::move(types), where_, names);
  std::vector<Tensor> out;
  for (auto* r : n->results) out.push_back(recorder_.proxy(r));
  return out;
}

Tensor TrimBuilder::reshaped(const Tensor& t, const std::vector<Expr>& sizes) {
  return recorder_.value_of(t)->type.sizes == sizes ? t : add("view", {t, sizes}, t.dtype(), sizes);
}

Tensor TrimBuilder::cut(Tensor t, const Demand& have, const Demand& need) {
  if (have == need) return t;
  Sizes now, want = lengths(need);
  struct Range {
    size_t dim;
    Expr start, length;
  };
  std::vector<Range> ranges;
  for (size_t d = 0; d < need.dims.size(); ++d) {
    const bool all = is_whole(have.dims[d]);
    for (size_t i = 0; i < need.dims[d].size(); ++i) {
      const Factor& f = need.dims[d][i];
      const Factor held = all ? Factor{f.extent, 0, f.extent} : have.dims[d].at(i);
      if (!(held == f)) ranges.push_back({now.size(), f.start - held.start, f.length});
      now.push_back(held.length);
    }
  }
  t = reshaped(t, now);
  for (auto& r : ranges) {
    now[r.dim] = r.length;
    t = add("narrow", {t, Expr(static_cast<int64_t>(r.dim)), r.start, r.length}, t.dtype(), now);
  }
  return reshaped(t, want);
}

}  // namespace toroid::graph

// Indexing, scatters, concatenation and padding.
#include <algorithm>

#include "base/check.h"
#include "base/mutants.h"
#include "lower/lowering.h"

namespace toroid::lower {

using loop::BodyBuilder;
using loop::StoreMode;

namespace {

// Reads an element under the condition that its index is one.
S read_inside(BodyBuilder& b, const Lazy& from, const Index& at, const std::optional<S>& inside) {
  if (!inside) return from.at(b, at);
  b.push_mask(*inside);
  const S value = from.at(b, at);
  b.pop_mask();
  return value;
}

const graph::Value* operand(const graph::Node& n, std::string_view name) {
  int i = n.op->schema.find(name);
  TOROID_CHECK(i >= 0, "{} has no parameter {}", n.op->name, name);
  return std::get<graph::Value*>(n.args[static_cast<size_t>(i)]);
}

// Advanced indexing: which dimensions are indexed by tensors, and where the broadcast index dimensions stand in the result.
struct Advanced {
  std::vector<const Lazy*> tensors;  // per dimension of self; nullptr: kept whole
  std::vector<IndexCheck> checks;    // of each
  std::vector<Expr> index_sizes;     // of the broadcast index tensors
  size_t front = 0;                  // position of the index dimensions in the result
  size_t rank = 0;                   // of self
};

std::optional<Advanced> analyse(Lowering& l, const graph::Node& n, size_t self_rank) {
  int at = n.op->schema.find("indices");
  Advanced a;
  a.rank = self_rank;
  auto* list = std::get_if<std::vector<graph::Value*>>(&n.args[static_cast<size_t>(at)]);
  if (!list) return std::nullopt;
  std::vector<size_t> positions;
  for (auto* v : *list) {
    if (v && (is_bool(v->type.dtype) || v->type.dtype == DType::U8))
      return std::nullopt;  // masks select a data-dependent number of elements
    const size_t d = a.tensors.size();
    const IndexSite site{std::string(ops::plain_name(*n.op)), n.where, static_cast<int64_t>(d), true};
    a.checks.push_back(v && d < self_rank ? l.check_of(v, site, operand(n, "self")->type.sizes[d]) : IndexCheck{});
    if (v) positions.push_back(d);
    a.tensors.push_back(v ? &l.value(v) : nullptr);
  }
  a.tensors.resize(self_rank, nullptr);
  if (positions.empty()) return std::nullopt;
  for (size_t p : positions) {
    const auto& s = a.tensors[p]->sizes;
    if (s.size() > a.index_sizes.size()) a.index_sizes.insert(a.index_sizes.begin(), s.size() - a.index_sizes.size(), Expr(1));
    for (size_t d = 0; d < s.size(); ++d) {
      Expr& x = a.index_sizes[a.index_sizes.size() - s.size() + d];
      if (x == Expr(1)) x = s[d];
    }
  }
  bool adjacent = positions.back() - positions.front() + 1 == positions.size();
  a.front = adjacent && !mutant(Mutant::IndexFront) ? positions.front() : 0;
  return a;
}

// Where an index of the (gathered) result is in self, and under what condition.
struct Picked {
  Index at;
  std::optional<S> inside;
};
// Whether nothing has that index: a load there needs the condition. A place in a dimension that has one is some element of it.
bool may_be_empty(const std::optional<S>& inside, const Expr& extent) { return inside && !sym::known_ge(extent, 1); }

// stores: the condition is that of all checks, not only of those into dimensions that may be empty.
Picked self_index(const Advanced& a, const std::vector<Lazy>& tensors, const std::vector<Expr>& self_sizes, BodyBuilder& b,
                  const Index& index, bool stores) {
  Index at(index.begin() + static_cast<long>(a.front), index.begin() + static_cast<long>(a.front + a.index_sizes.size()));
  Index kept(index.begin(), index.begin() + static_cast<long>(a.front));
  kept.insert(kept.end(), index.begin() + static_cast<long>(a.front + a.index_sizes.size()), index.end());
  Picked out;
  size_t next_kept = 0, next_tensor = 0;
  for (size_t d = 0; d < a.rank; ++d) {
    if (!a.tensors[d]) {
      out.at.push_back(kept.at(next_kept++));
      continue;
    }
    const Lazy& t = tensors[next_tensor++];
    Index ti;
    size_t lead = at.size() - t.sizes.size();
    for (size_t k = 0; k < t.sizes.size(); ++k) ti.push_back(t.sizes[k] == Expr(1) ? Expr(0) : at[lead + k]);
    const CheckedIndex found = checked_index(b, t.at(b, ti), self_sizes[d], a.checks[d]);
    out.at.push_back(found.at);
    if (stores ? found.inside.has_value() : may_be_empty(found.inside, self_sizes[d]))
      out.inside = out.inside ? *out.inside & *found.inside : *found.inside;
  }
  return out;
}

std::vector<Lazy> copies(const Advanced& a) {
  std::vector<Lazy> out;
  for (auto* t : a.tensors)
    if (t) out.push_back(*t);
  return out;
}

bool has_zero(const std::vector<Expr>& sizes) { return std::find(sizes.begin(), sizes.end(), Expr(0)) != sizes.end(); }

// What an update that writes nothing makes of its first operand.
void keep_self(Lowering& l, const graph::Node& n) { l.define(n.results[0], l.value(std::get<graph::Value*>(n.args[0]))); }

// A node's domain over the given sizes, with the index over it.
Index make_domain(Lowering& l, program::Node& node, const std::vector<Expr>& sizes) {
  Index index;
  for (auto& s : sizes) {
    index.push_back(l.fresh_var(s, false));
    if (!index.back().is_const()) node.domain.vars.push_back({index.back(), false});
  }
  return index;
}

// Whether so little is read of a large value that it is read at once: who reads it later would hold all of the value until then.
bool picks_few(const graph::Value& source, const graph::Value& result) {
  constexpr int64_t kLarge = int64_t{64} << 20, kShare = 1024;
  const auto from = source.type.numel().maybe_constant(), to = result.type.numel().maybe_constant();
  return source.producer && from && to && *from * static_cast<int64_t>(size_of(source.type.dtype)) >= kLarge && *to * kShare <= *from;
}

}  // namespace

void lower_index(Lowering& l, const graph::Node& n) {
  const graph::Value* source = operand(n, "self");
  auto a = analyse(l, n, source->type.sizes.size());
  if (!a) return l.lower_extern(n);
  Lazy self = l.value(source);
  if (!self.place && self.work > 4) l.realize(source), self = l.value(source);
  Lazy out;
  out.dtype = self.dtype;
  out.sizes = n.results[0]->type.sizes;
  out.work = self.work;
  out.loads = self.loads;
  for (auto& t : copies(*a)) {
    out.work += t.work + 2;
    out.loads += t.loads;
  }
  out.at = [self, a = *a, tensors = copies(*a)](BodyBuilder& b, const Index& index) {
    const Picked from = self_index(a, tensors, self.sizes, b, index, false);
    return read_inside(b, self, from.at, from.inside);
  };
  l.define(n.results[0], std::move(out));
  if (picks_few(*source, *n.results[0])) l.realize(n.results[0]);
}

void lower_gather(Lowering& l, const graph::Node& n) {
  const graph::Value* source = operand(n, "self");
  const graph::Value* indices = operand(n, "index");
  auto types = graph::type_args(n);
  int64_t rank = static_cast<int64_t>(source->type.sizes.size());
  if (rank == 0) return l.lower_extern(n);
  size_t dim = static_cast<size_t>(ops::normal_dim(*n.op, ops::TypeReader(*n.op, types).integer("dim"), rank));
  Lazy self = l.value(source), where = l.value(indices);
  Lazy out;
  out.dtype = self.dtype;
  out.sizes = n.results[0]->type.sizes;
  out.work = self.work + where.work + 2;
  out.loads = self.loads + where.loads;
  if (mutant(Mutant::GatherDimension)) dim = self.sizes.size() - 1;
  const IndexCheck check =
      l.check_of(indices, {std::string(ops::plain_name(*n.op)), n.where, static_cast<int64_t>(dim), false}, self.sizes[dim]);
  out.at = [self, where, dim, check](BodyBuilder& b, const Index& index) {
    const CheckedIndex found = checked_index(b, where.at(b, index), self.sizes[dim], check);
    Index at = index;
    at[dim] = found.at;
    return read_inside(b, self, at, may_be_empty(found.inside, self.sizes[dim]) ? found.inside : std::nullopt);
  };
  l.define(n.results[0], std::move(out));
  if (picks_few(*source, *n.results[0])) l.realize(n.results[0]);
}

namespace {

// A few cheap parts of one size are chosen between where they are read (rotating half of a head): which part is then a question about a
// loop variable, not about single elements. True when it was done.
bool choose_between_parts(Lowering& l, const graph::Node& n, const std::vector<graph::Value*>& list, size_t dim) {
  constexpr size_t kMostParts = 4;
  Expr each = list[0]->type.sizes[dim];
  int work = 0;
  for (auto* v : list) {
    const Lazy& part = l.value(v);
    if (!each.is_const() || each.constant() % 8 != 0 || part.sizes.size() != n.results[0]->type.sizes.size() ||
        !(part.sizes[dim] == each) || part.dtype != n.results[0]->type.dtype || part.over_template)
      return false;
    work += part.work + part.loads;
  }
  if (!l.options().composes() || list.size() > kMostParts || work > l.facts().spare_operations || each.constant() == 0 ||
      is_complex(l.value(list[0]).dtype))
    return false;
  std::vector<Lazy> parts;
  Lazy out;
  out.loads = 0;
  for (auto* v : list) {
    parts.push_back(l.value(v));
    out.loads += parts.back().loads;
  }
  out.dtype = parts[0].dtype;
  out.sizes = n.results[0]->type.sizes;
  out.work = work + static_cast<int>(list.size());
  out.at = [parts, dim, each](BodyBuilder& b, const Index& index) {
    Index at = index;
    at[dim] = sym::mod(index[dim], each);
    Expr which = sym::floor_div(index[dim], each);
    std::optional<S> chosen;
    for (size_t p = 0; p < parts.size(); ++p) {
      S here = b.index(which) == static_cast<double>(p);
      b.push_mask(here);
      S v = parts[p].at(b, at);
      b.pop_mask();
      chosen = chosen ? select(here, v, *chosen) : v;
    }
    return *chosen;
  };
  l.define(n.results[0], std::move(out));
  return true;
}

}  // namespace

void lower_cat(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  const TensorType& type = n.results[0]->type;
  auto list = std::get<std::vector<graph::Value*>>(n.args[0]);
  // Parts without elements add nothing; among them are f32[0]s, which join with tensors of any rank.
  std::erase_if(list, [](auto* v) { return has_zero(v->type.sizes); });
  size_t dim = static_cast<size_t>(ops::normal_dim(*n.op, reader.integer("dim"), type.dim()));
  if (choose_between_parts(l, n, list, dim)) return;
  Place p = l.allocate_like(n.results[0], l.value(list[0]));
  Expr at = 0;
  for (auto* v : list) {
    Lazy part = l.value(v);
    Place slice = p;
    slice.offset = at * p.strides[dim];
    l.fill(slice, type.dtype, part.sizes, part.at, n.results[0]);
    at = at + part.sizes[dim];
  }
  l.define(n.results[0], l.at_place(type, p));
}

void lower_interleave(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  const ops::TypeReader reader(*n.op, types);
  const TensorType& type = n.results[0]->type;
  const auto& parts = std::get<std::vector<graph::Value*>>(n.args[0]);
  const int64_t rows = reader.integer("rows"), columns = reader.integer("columns");
  const Place whole = l.allocate_like(n.results[0], l.value(parts[0]));
  for (size_t i = 0; i < parts.size(); ++i) {
    const Lazy part = l.value(parts[i]);
    const auto at = static_cast<int64_t>(i);
    Place pixels = whole;
    pixels.offset = Expr(at / columns) * whole.strides[2] + Expr(at % columns) * whole.strides[3];
    pixels.strides[2] = Expr(rows) * whole.strides[2];
    pixels.strides[3] = Expr(columns) * whole.strides[3];
    l.fill(pixels, type.dtype, part.sizes, part.at, n.results[0]);
  }
  l.define(n.results[0], l.at_place(type, whole));
}

void lower_pad(Lowering& l, const graph::Node& n) {
  const graph::Value* source = operand(n, "self");
  auto types = std::make_shared<std::vector<Arg<const TensorType*>>>(graph::type_args(n));
  ops::TypeReader reader(*n.op, *types);
  std::vector<Expr> pad = reader.exprs("pad");
  Number value = reader.number("value");
  // An epilogue can finish a template's result, but not pad it.
  if (l.value(source).over_template) l.realize(source);
  Lazy self = l.value(source);
  std::vector<Expr> before(self.sizes.size(), 0);
  for (size_t i = 0; 2 * i < pad.size(); ++i) before[self.sizes.size() - 1 - i] = pad[2 * i];
  Lazy out;
  out.dtype = self.dtype;
  out.sizes = n.results[0]->type.sizes;
  out.work = self.work + 2;
  out.loads = self.loads;
  out.at = [self, before, value, padded = out.sizes](BodyBuilder& b, const Index& index) {
    Index at;
    std::optional<S> inside;
    auto require = [&](S c) { inside = inside ? *inside & c : c; };
    for (size_t d = 0; d < index.size(); ++d) {
      Expr i = index[d] - before[d];
      at.push_back(i);
      if (!sym::known_ge(i, 0) && !mutant(Mutant::PadLowerMask)) require(b.index(i) >= 0.0);
      if (!sym::known_lt(i, self.sizes[d])) require(b.is_below(i, self.sizes[d] + (mutant(Mutant::PadOffByOne) ? 1 : 0)));
    }
    if (!inside) return self.at(b, at);
    b.push_mask(*inside);
    S v = self.at(b, at);
    b.pop_mask();
    return select(*inside, v, b.constant(v.dtype, value));
  };
  l.define(n.results[0], std::move(out));
}

void lower_index_put(Lowering& l, const graph::Node& n) {
  const graph::Value* self = operand(n, "self");
  const graph::Value* values = operand(n, "values");
  auto types = graph::type_args(n);
  bool accumulate = ops::TypeReader(*n.op, types).flag("accumulate");
  auto a = analyse(l, n, self->type.sizes.size());
  if (!a || (accumulate && is_bool(self->type.dtype))) return l.lower_extern(n);
  std::vector<Expr> sizes;  // of the region that is written, as gathering it would give
  for (size_t d = 0; d < a->rank; ++d)
    if (!a->tensors[d]) sizes.push_back(self->type.sizes[d]);
  sizes.insert(sizes.begin() + static_cast<long>(a->front), a->index_sizes.begin(), a->index_sizes.end());
  if (has_zero(sizes)) return keep_self(l, n);
  Place p = l.place_for_update(n);
  Lazy v = l.value(values);
  program::Node node;
  Index index = make_domain(l, node, sizes);
  BodyBuilder b(node.body);
  Index vi;
  size_t lead = index.size() - v.sizes.size();
  for (size_t d = 0; d < v.sizes.size(); ++d) vi.push_back(v.sizes[d] == Expr(1) ? Expr(0) : index[d + lead]);
  const Picked to = self_index(*a, copies(*a), self->type.sizes, b, index, true);
  b.store(p.buffer, self->type.dtype, flat_index(p, to.at), v.at(b, vi),
          accumulate && !mutant(Mutant::PutSets) ? StoreMode::Add : StoreMode::Set, to.inside ? to.inside->id : -1);
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
  l.define(n.results[0], l.at_place(n.results[0]->type, p));
}

void lower_scatter(Lowering& l, const graph::Node& n) {
  const graph::Value* self = operand(n, "self");
  const graph::Value* indices = operand(n, "index");
  auto types = graph::type_args(n);
  if (has_zero(indices->type.sizes)) return keep_self(l, n);  // of any rank
  if (self->type.sizes.empty() || indices->type.sizes.empty() || is_bool(self->type.dtype)) return l.lower_extern(n);
  size_t dim = static_cast<size_t>(ops::normal_dim(*n.op, ops::TypeReader(*n.op, types).integer("dim"), self->type.dim()));
  Place p = l.place_for_update(n);
  Lazy where = l.value(indices), from = l.value(operand(n, "src"));
  program::Node node;
  Index index = make_domain(l, node, indices->type.sizes);
  BodyBuilder b(node.body);
  Index at = index;
  const IndexCheck check =
      l.check_of(indices, {std::string(ops::plain_name(*n.op)), n.where, static_cast<int64_t>(dim), false}, self->type.sizes[dim]);
  const CheckedIndex found = checked_index(b, where.at(b, index), self->type.sizes[dim], check);
  at[dim] = found.at;
  b.store(p.buffer, self->type.dtype, flat_index(p, at), from.at(b, index),
          n.op->name == "scatter_add" && !mutant(Mutant::ScatterSets) ? StoreMode::Add : StoreMode::Set,
          found.inside ? found.inside->id : -1);
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
  l.define(n.results[0], l.at_place(n.results[0]->type, p));
}

// slice_scatter and select_scatter write through the index map of their view, where the memory may be written in place; elsewhere they
// are selections between two tensors, which fuse.
void lower_view_scatter(Lowering& l, const graph::Node& n) {
  const graph::Value* self = std::get<graph::Value*>(n.args[0]);
  if (!l.is_inplace(n) || !l.value(self).place) return l.lower_composite(n);
  const ops::Op& view = ops::get(n.op->name == "slice_scatter" ? "slice.Tensor" : "select.int");
  auto types = graph::type_args(n);
  types.erase(types.begin() + 1);  // the source
  Place p = l.place_for_update(n);
  Lazy from = l.value(std::get<graph::Value*>(n.args[1]));
  program::Node node;
  Index index = make_domain(l, node, from.sizes);
  BodyBuilder b(node.body);
  b.store(p.buffer, self->type.dtype, flat_index(p, view.index_map(ops::TypeReader(view, types), 0, index)), from.at(b, index));
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
  l.define(n.results[0], l.at_place(n.results[0]->type, p));
}

}  // namespace toroid::lower

// Scans as loops, those of long rows by log(sum(exp)) as problems, sorts and selections of the largest elements as sort problems.
#include <algorithm>

#include "base/check.h"
#include "lower/lowering.h"

namespace toroid::lower {

using loop::BodyBuilder;
using loop::Reduction;

namespace {

// What a scan's results are, in order.
const std::vector<Reduction>& folds_of(const std::string& name) {
  static const std::map<std::string, std::vector<Reduction>>& folds =
      *new std::map<std::string, std::vector<Reduction>>{{"cumsum", {Reduction::Sum}},
                                                         {"cumprod", {Reduction::Prod}},
                                                         {"cummax", {Reduction::Max, Reduction::ArgMax}},
                                                         {"cummin", {Reduction::Min, Reduction::ArgMin}},
                                                         {"logcumsumexp", {Reduction::LogSumExp}}};
  return folds.at(name);
}

// The dtype that a scan folds in.
DType folded_type(Reduction fold, DType input, DType result) {
  bool compares = fold != Reduction::Sum && fold != Reduction::Prod;
  DType t = ops::compute_type(compares ? input : result);
  return !compares && is_bool(t) ? DType::I64 : t;
}

size_t dimension(const graph::Node& n, size_t rank) {
  auto types = graph::type_args(n);
  return static_cast<size_t>(ops::normal_dim(*n.op, ops::TypeReader(*n.op, types).integer("dim"), static_cast<int64_t>(rank)));
}

// Rows of one element: the elements themselves, through `element`, or their positions, all 0.
void define_single(Lowering& l, const graph::Value* v, const Lazy& input, DType element, bool position) {
  Lazy out = input;
  out.place.reset();
  out.dtype = v->type.dtype;
  out.sizes = v->type.sizes;
  out.at = [input, element, position, result = ops::compute_type(v->type.dtype)](BodyBuilder& b, const Index& at) {
    return position ? b.constant(DType::I64, Number::of(int64_t{0})) : cast(cast(input.at(b, at), element), result);
  };
  l.define(v, std::move(out));
}

// Whether rows along `dim` are better sorted after they have been laid out one after the other: where neighbours are far apart, each
// access to one misses the cache, and there are several of each.
bool needs_rows(const Place& p, const std::vector<Expr>& sizes, size_t dim) {
  constexpr int64_t kFitsCache = 1 << 16;  // elements
  Expr elements = 1;
  for (auto& s : sizes) elements = elements * s;
  return !(p.strides[dim] == Expr(1)) && !(elements.is_const() && elements.constant() <= kFitsCache);
}

// The same with dimension `dim` last.
template <class T>
std::vector<T> turned(std::vector<T> list, size_t dim) {
  std::rotate(list.begin() + static_cast<long>(dim), list.begin() + static_cast<long>(dim) + 1, list.end());
  return list;
}

// Memory in which dimension `dim` runs fastest.
Place allocate_rows(Lowering& l, const graph::Value* v, size_t dim) {
  Place p = l.allocate(v->name, v->type);
  p.strides = dense_strides(turned(v->type.sizes, dim));
  std::rotate(p.strides.begin() + static_cast<long>(dim), p.strides.end() - 1, p.strides.end());
  return p;
}

// The scan of a long row by log(sum(exp)) as a problem: whether it is one depends on the row's length alone, never on threads.
std::optional<program::Scan> long_scan(Lowering& l, const graph::Value* source, Reduction fold, size_t dim) {
  const auto& sizes = source->type.sizes;
  if (fold != Reduction::LogSumExp || !sizes[dim].is_const() || sizes[dim].constant() < 2 * program::kScanPiece) return std::nullopt;
  const Lazy input = l.value(source);
  if (input.place ? !(input.place->strides[dim] == Expr(1)) : dim + 1 != sizes.size()) return std::nullopt;
  program::Scan scan;
  scan.length = sizes[dim];
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != dim) scan.rows.push_back(sizes[d]);
  scan.input.dtype = source->type.dtype;
  return l.takes(scan) ? std::optional(scan) : std::nullopt;
}

// With dimension `dim` last.
program::Operand along(const Place& p, DType dtype, size_t dim) { return {p.buffer, dtype, p.offset, turned(p.strides, dim)}; }

void lower_long_scan(Lowering& l, const graph::Node& n, program::Scan scan, size_t dim) {
  const auto* source = std::get<graph::Value*>(n.args[0]);
  const graph::Value* result = n.results[0];
  scan.input = along(l.strided(source), source->type.dtype, dim);
  const auto sizes = program::joined(scan.rows, {program::pieces(scan)});
  const int between = l.program().new_buffer("totals", DType::F64, program::product(sizes), loop::BufferKind::Temporary);
  scan.totals = {between, DType::F64, 0, dense_strides(sizes)};
  program::Node totals, rows;
  scan.part = program::ScanPart::Totals;
  totals.problem = scan;
  l.append(std::move(totals), result);
  const Place p = l.allocate(result->name, result->type);
  scan.part = program::ScanPart::Rows;
  scan.values = along(p, result->type.dtype, dim);
  rows.problem = std::move(scan);
  l.append(std::move(rows), result);
  l.define(result, l.at_place(result->type, p));
}

}  // namespace

void lower_scan(Lowering& l, const graph::Node& n) {
  const Lazy input = l.value(std::get<graph::Value*>(n.args[0]));
  const std::vector<Reduction>& folds = folds_of(n.op->name);
  if (folds[0] == Reduction::LogSumExp && !is_float(input.dtype)) return l.lower_extern(n);
  const size_t dim = dimension(n, input.sizes.size());
  const bool single = input.sizes.empty() || input.sizes[dim] == Expr(1);
  auto scan = single ? std::nullopt : long_scan(l, std::get<graph::Value*>(n.args[0]), folds[0], dim);
  if (scan) return lower_long_scan(l, n, std::move(*scan), dim);
  program::Node node;
  Index index;
  for (size_t d = 0; d < input.sizes.size() && !single; ++d) {
    index.push_back(l.fresh_var(input.sizes[d], d == dim));
    if (!index.back().is_const()) node.domain.vars.push_back({index.back(), d == dim});
  }
  BodyBuilder b(node.body);
  for (size_t r = 0; r < folds.size(); ++r) {
    const graph::Value* v = n.results[r];
    const DType result = v->type.dtype, element = folded_type(folds[r], input.dtype, result);
    const bool position = folds[r] == Reduction::ArgMax || folds[r] == Reduction::ArgMin;
    if (single) {
      define_single(l, v, input, element, position);
      continue;
    }
    Place p = l.allocate_like(v, input);
    if (l.uses(v) > 0) b.store(p.buffer, result, flat_index(p, index), b.scan(folds[r], cast(input.at(b, index), element)));
    l.define(v, l.at_place(v->type, p));
  }
  if (single) return;
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
}

void lower_sort(Lowering& l, const graph::Node& n) {
  const graph::Value* source = std::get<graph::Value*>(n.args[0]);
  const auto& sizes = source->type.sizes;
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  program::Sort sort;
  sort.descending = n.op->schema.find("largest") >= 0 ? reader.flag("largest") : reader.flag("descending");
  const size_t dim = dimension(n, sizes.size());
  if (sizes.empty() || sizes[dim] == Expr(1)) {
    const Lazy input = l.value(source);
    for (size_t r = 0; r < 2; ++r) define_single(l, n.results[r], input, ops::compute_type(input.dtype), r == 1);
    return;
  }
  sort.length = sizes[dim];
  sort.count = n.results[0]->type.sizes[dim];
  auto operand = [&](const Place& p, DType dtype) {
    program::Operand o{p.buffer, dtype, p.offset, {}};
    for (size_t d = 0; d < sizes.size(); ++d)
      if (d != dim) o.strides.push_back(p.strides[d]);
    o.strides.push_back(p.strides[dim]);
    return o;
  };
  for (size_t d = 0; d < sizes.size(); ++d)
    if (d != dim) sort.rows.push_back(sizes[d]);
  sort.keys.dtype = source->type.dtype;
  if (!l.takes(sort)) return l.lower_extern(n);
  Place keys = l.strided(source);
  const bool rows = needs_rows(keys, sizes, dim);
  if (rows) {
    keys = allocate_rows(l, source, dim);
    const Lazy input = l.value(source);
    const Place rows_first{keys.buffer, 0, turned(keys.strides, dim)};
    auto element = [&](BodyBuilder& b, Index index) {  // in the order of memory
      std::rotate(index.begin() + static_cast<long>(dim), index.end() - 1, index.end());
      return input.at(b, index);
    };
    l.fill(rows_first, input.dtype, turned(sizes, dim), element, source);
  }
  sort.keys = operand(keys, source->type.dtype);
  program::Operand* outputs[] = {&sort.values, &sort.positions};
  for (size_t r = 0; r < 2; ++r) {
    const graph::Value* v = n.results[r];
    Place p = rows ? allocate_rows(l, v, dim) : l.allocate(v->name, v->type);
    if (l.uses(v) > 0) *outputs[r] = operand(p, v->type.dtype);
    l.define(v, l.at_place(v->type, p));
  }
  program::Node node;
  node.problem = std::move(sort);
  l.append(std::move(node), n.results[0]);
}

}  // namespace toroid::lower

#include "graph/passes/demand.h"

#include <algorithm>

#include "ops/equal_runs.h"

namespace toroid::graph {

Expr extent(const Selection& s) {
  Expr n = 1;
  for (auto& f : s) n = n * f.extent;
  return n;
}

namespace {

bool is_one(const Expr& e) { return e == Expr(1); }

// Known numbers that do not reach over a multiple of `inner`: the range of each of the two factors.
std::optional<std::pair<Factor, Factor>> split(const Factor& f, const Expr& outer, const Expr& inner) {
  if (f.is_whole()) return std::pair(Factor{outer, 0, outer}, Factor{inner, 0, inner});
  if (!f.start.is_const() || !f.length.is_const() || !inner.is_const() || inner.constant() <= 0) return std::nullopt;
  const int64_t n = inner.constant(), start = f.start.constant(), length = f.length.constant();
  if (start % n == 0 && length % n == 0) return std::pair(Factor{outer, start / n, length / n}, Factor{inner, 0, inner});
  if (start / n != (start + length - 1) / n) return std::nullopt;
  return std::pair(Factor{outer, start / n, 1}, Factor{inner, start % n, length});
}

// Joins factors that are one range together.
Selection merged(const Selection& s) {
  Selection out;
  for (auto& f : s) {
    if (is_one(f.extent) && s.size() > 1) continue;
    if (!out.empty() && f.is_whole()) {
      Factor& outer = out.back();
      outer = {outer.extent * f.extent, outer.start * f.extent, outer.length * f.extent};
    } else {
      out.push_back(f);
    }
  }
  return out.empty() ? all_of(1) : out;
}

// The factors dealt out to dimensions of the given sizes; nothing where one would have to be cut at no whole position.
std::optional<std::vector<Selection>> dealt(std::vector<Factor> factors, const std::vector<Expr>& sizes) {
  std::vector<Selection> out;
  size_t next = 0;
  for (auto& size : sizes) {
    Selection s;
    Expr have = 1;
    while (!(have == size)) {
      if (next == factors.size()) return std::nullopt;
      Factor f = factors[next];
      // The factor, or as much of it as completes the size.
      Expr needed = sym::floor_div(size, have);
      if (!(have * needed == size)) return std::nullopt;
      if (!sym::known_multiple(needed, f.extent)) {
        Expr rest = sym::floor_div(f.extent, needed);
        if (!(needed * rest == f.extent)) return std::nullopt;
        auto parts = split(f, needed, rest);
        if (!parts) return std::nullopt;
        f = parts->first;
        factors[next] = parts->second;
      } else {
        ++next;
      }
      have = have * f.extent;
      s.push_back(f);
    }
    out.push_back(merged(s));
  }
  if (next < factors.size()) return std::nullopt;
  return out;
}

}  // namespace

Demand whole(const TensorType& t) {
  Demand d{true, {}};
  for (auto& e : t.sizes) d.dims.push_back(all_of(e));
  return d;
}

bool is_whole(const Demand& d) {
  return std::all_of(d.dims.begin(), d.dims.end(), [](const Selection& s) { return is_whole(s); });
}

Expr length(const Selection& s) {
  Expr n = 1;
  for (auto& f : s) n = n * f.length;
  return n;
}

std::vector<Expr> lengths(const Demand& d) {
  std::vector<Expr> out;
  for (auto& s : d.dims) out.push_back(length(s));
  return out;
}

namespace {

Selection joined(const Selection& a, const Selection& b) {
  if (a == b) return a;
  Selection out;
  for (size_t i = 0; i < a.size() && a.size() == b.size(); ++i) {
    const Factor &x = a[i], &y = b[i];
    if (!(x.extent == y.extent)) return all_of(extent(a));
    if (x == y) {
      out.push_back(x);
      continue;
    }
    for (auto* e : {&x.start, &x.length, &y.start, &y.length})
      if (!e->is_const()) return all_of(extent(a));
    const int64_t from = std::min(x.start.constant(), y.start.constant());
    const int64_t to = std::max(x.start.constant() + x.length.constant(), y.start.constant() + y.length.constant());
    out.push_back({x.extent, from, to - from});
  }
  return out.size() == a.size() ? out : all_of(extent(a));
}

bool is_worth_it(const Factor& f) {
  if (f.length.is_const() && f.length.constant() <= 0) return false;
  auto half = sym::known({sym::Rel::Le, f.length * Expr(2), f.extent});
  return half ? *half : f.length.is_const() && !f.extent.is_const();
}

}  // namespace

void join(Demand& d, const Demand& more) {
  if (!more.used) return;
  if (!d.used) {
    d = more;
    return;
  }
  for (size_t i = 0; i < d.dims.size(); ++i) d.dims[i] = joined(d.dims[i], more.dims[i]);
}

void widen(Demand& d) {
  for (auto& s : d.dims) {
    for (auto& f : s)
      if (!f.is_whole() && !is_worth_it(f)) f = {f.extent, 0, f.extent};
    if (std::all_of(s.begin(), s.end(), [](const Factor& f) { return f.is_whole(); })) s = all_of(extent(s));
  }
}

Demand through_reshape(const std::vector<Expr>& sizes, Demand& result) {
  Demand operand{true, {}};
  for (auto& e : sizes) operand.dims.push_back(all_of(e));
  if (is_whole(result)) return operand;
  const auto is_empty = [](const Expr& e) { return e == Expr(0); };
  if (std::any_of(sizes.begin(), sizes.end(), is_empty)) {
    for (auto& s : result.dims) s = all_of(extent(s));
    return operand;
  }
  std::vector<size_t> from, to;  // dimensions that count
  std::vector<Expr> from_sizes, to_sizes;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!is_one(sizes[d])) from.push_back(d), from_sizes.push_back(sizes[d]);
  for (size_t d = 0; d < result.dims.size(); ++d)
    if (const Expr e = extent(result.dims[d]); !is_one(e)) to.push_back(d), to_sizes.push_back(e);
  size_t i = 0, j = 0;
  while (i < from.size() && j < to.size()) {
    const auto [a, b] = ops::equal_runs(std::span(from_sizes).subspan(i), std::span(to_sizes).subspan(j));
    std::vector<Factor> factors;
    const std::vector<Expr> run(from_sizes.begin() + static_cast<long>(i), from_sizes.begin() + static_cast<long>(i + a));
    for (size_t k = 0; k < b; ++k)
      for (auto& f : result.dims[to[j + k]])
        if (!is_one(f.extent)) factors.push_back(f);
    auto selections = dealt(factors, run);
    for (size_t k = 0; k < a && selections; ++k) operand.dims[from[i + k]] = (*selections)[k];
    for (size_t k = 0; k < b && !selections; ++k) result.dims[to[j + k]] = all_of(extent(result.dims[to[j + k]]));
    i += a;
    j += b;
  }
  for (; j < to.size(); ++j) result.dims[to[j]] = all_of(extent(result.dims[to[j]]));
  return operand;
}

}  // namespace toroid::graph

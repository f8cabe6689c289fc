#include "program/points.h"

namespace toroid::program {
namespace {

std::vector<Expr> with(std::vector<Expr> front, std::initializer_list<Expr> back) {
  front.insert(front.end(), back);
  return front;
}

struct Points {
  using Result = std::optional<std::vector<Expr>>;
  Result operator()(const Gemm& g) const { return with(g.batch, {g.m, g.n}); }
  Result operator()(const Convolution& c) const { return std::vector<Expr>{c.n, c.out_channels, c.out_h, c.out_w}; }
  Result operator()(const Attention& a) const { return std::vector<Expr>{a.batch, a.heads, a.queries, a.value_dim}; }
  template <class Other>
  Result operator()(const Other&) const {
    return std::nullopt;
  }
};

struct Views {
  const VisitView& visit;
  bool computes_rows;

  void operator()(std::monostate) const {}
  void operator()(const Gemm& g) const {
    if (!computes_rows) visit(g.a, with(g.batch, {g.m, g.k}), "the left operand");
    visit(g.b, with(g.batch, {g.k, g.n}), "the right operand");
    if (g.b2) visit(*g.b2, with(g.batch, {g.k, g.n}), "the second right operand");
  }
  void operator()(const Convolution& c) const {
    visit(c.input, {c.n, c.in_channels, c.in_h, c.in_w}, "the input");
    visit(c.weight, {c.out_channels, c.in_channels / c.groups, c.kernel_h, c.kernel_w}, "the weight");
  }
  void operator()(const Attention& a) const {
    visit(a.q, {a.batch, a.heads, a.queries, a.head_dim}, "the query");
    visit(a.k, {a.batch, a.kv_heads, a.keys, a.head_dim}, "the key");
    visit(a.v, {a.batch, a.kv_heads, a.keys, a.value_dim}, "the value");
    if (a.mask.buffer >= 0) visit(a.mask, {a.batch, a.heads, a.queries, a.keys}, "the mask");
  }
  void operator()(const Sort& s) const {
    visit(s.keys, with(s.rows, {s.length}), "the keys");
    if (s.values.buffer >= 0) visit(s.values, with(s.rows, {s.count}), "the sorted values");
    if (s.positions.buffer >= 0) visit(s.positions, with(s.rows, {s.count}), "the positions");
  }
  void operator()(const Extern& e) const { views(e.inputs, e.outputs); }
  void operator()(const Open& o) const { views(o.inputs, o.outputs); }

 private:
  void views(const std::vector<Extern::View>& inputs, const std::vector<Extern::View>& outputs) const {
    for (auto& v : inputs) visit(v.memory, v.sizes, "an argument");
    for (auto& v : outputs) visit(v.memory, v.sizes, "a result");
  }
};

}  // namespace

std::optional<std::vector<Expr>> points_of(const Node& n) { return std::visit(Points{}, n.problem); }

void for_each_view(const Node& n, const VisitView& visit) { std::visit(Views{visit, n.producer.has_value()}, n.problem); }

}  // namespace toroid::program

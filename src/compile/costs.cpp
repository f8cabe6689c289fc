#include "compile/costs.h"

#include <map>

namespace toroid::compiler {
namespace {

Expr product(const std::vector<Expr>& factors) {
  Expr n = 1;
  for (auto& f : factors) n *= f;
  return n;
}

class Counter {
 public:
  Counter(const program::Node& node, const program::Program& program) : node_(node), program_(program) {}

  Cost count() {
    std::visit([&](const auto& p) { problem(p); }, node_.problem);
    count(node_.domain, node_.body);
    for (auto& nest : node_.beside) count(nest.domain, nest.body);
    if (node_.producer) {
      count(node_.producer->domain, node_.producer->body);
      touched_.erase(std::get<program::Gemm>(node_.problem).a.buffer);
    }
    for (auto& [buffer, elements] : touched_) {
      const loop::Buffer& b = program_.buffers[static_cast<size_t>(buffer)];
      cost_.bytes += sym::min(elements, b.numel) * static_cast<int64_t>(size_of(b.dtype));
    }
    return cost_;
  }

 private:
  void touch(int buffer, const Expr& elements) {
    if (buffer >= 0) touched_[buffer] += elements;
  }

  void problem(const std::monostate&) {}
  void problem(const program::Gemm& g) {
    Expr batch = product(g.batch);
    touch(g.a.buffer, batch * g.m * g.k);
    touch(g.b.buffer, batch * g.k * g.n);
    if (g.b2) touch(g.b2->buffer, batch * g.k * g.n);
    cost_.flops += batch * g.m * g.n * g.k * (g.b2 ? 4 : 2);
  }
  void problem(const program::Convolution& c) {
    Expr kernel = c.in_channels / c.groups * c.kernel_h * c.kernel_w;
    touch(c.input.buffer, c.n * c.in_channels * c.in_h * c.in_w);
    touch(c.weight.buffer, kernel * c.out_channels);
    cost_.flops += c.n * c.out_channels * c.out_h * c.out_w * kernel * 2;
  }
  void problem(const program::Attention& a) {
    Expr scores = a.batch * a.heads * a.queries * a.keys;
    touch(a.q.buffer, a.batch * a.heads * a.queries * a.head_dim);
    touch(a.k.buffer, a.batch * a.kv_heads * a.keys * a.head_dim);
    touch(a.v.buffer, a.batch * a.kv_heads * a.keys * a.value_dim);
    touch(a.mask.buffer, scores);
    Expr flops = scores * (2 * (a.head_dim + a.value_dim));
    cost_.flops += a.causal ? sym::floor_div(flops, 2) : flops;
  }
  void problem(const program::Sort& s) {
    Expr rows = product(s.rows);
    touch(s.keys.buffer, rows * s.length);
    for (auto* o : {&s.values, &s.positions}) touch(o->buffer, rows * s.count);
  }
  template <class Call>
  void problem(const Call& c) {  // Extern, Open
    for (auto* views : {&c.inputs, &c.outputs})
      for (auto& v : *views) touch(v.memory.buffer, product(v.sizes));
  }

  // Elements that an access reaches: the points of the variables that its index depends on.
  static Expr reach(const loop::Domain& domain, const Expr& index) {
    bool indirect = false;
    sym::for_each_symbol(index, [&](const Expr& s) { indirect = indirect || loop::step_of_symbol(*s.node()) >= 0; });
    Expr n = 1;
    for (auto& v : domain.vars)
      if (indirect || sym::depends_on(index, v.symbol)) n *= v.extent();
    return n;
  }

  void count(const loop::Domain& domain, const loop::Body& body) {
    Expr space = loop::space_size(domain), all = space * loop::reduction_size(domain);
    std::vector<bool> varies = loop::varies_over_reduction(domain, body);
    for (size_t i = 0; i < body.steps.size(); ++i) {
      const loop::Statement& s = body.steps[i];
      bool arithmetic = s.step == loop::Step::Scalar && s.op != ScalarOp::Const && s.op != ScalarOp::Cast && is_float(s.dtype);
      if (arithmetic) cost_.flops += varies[i] ? all : space;
      if ((s.step == loop::Step::Reduce || s.step == loop::Step::Scan) && is_float(s.dtype)) cost_.flops += all;
      if (s.step == loop::Step::Load || s.step == loop::Step::Store) touch(s.buffer, reach(domain, s.index));
    }
  }

  const program::Node& node_;
  const program::Program& program_;
  std::map<int, Expr> touched_;
  Cost cost_;
};

}  // namespace

Cost cost_of(const program::Node& node, const program::Program& program) { return Counter(node, program).count(); }

}  // namespace toroid::compiler

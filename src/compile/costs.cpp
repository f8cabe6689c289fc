#include "compile/costs.h"

#include <map>

#include "program/fields.h"

namespace toroid::compiler {
namespace {

class Counter {
 public:
  Counter(const program::Node& node, const program::Program& program) : node_(node), program_(program) {}

  Cost count() {
    program::visit_operands(node_, [&](const program::Operand& o, program::Use, std::string_view, const auto& extents) {
      touch(o.buffer, [&] { return program::product(extents()); });
    });
    std::visit(
        [&](const auto& p) {
          if constexpr (requires { flops(p); }) cost_.flops += flops(p);
        },
        node_.problem);
    count(node_.domain, node_.body);
    for (auto& nest : node_.beside) count(nest.domain, nest.body);
    if (node_.producer) {
      count(node_.producer->domain, node_.producer->body);
      touched_.erase(program::product_of(node_)->a.buffer);
    }
    for (auto& [buffer, elements] : touched_) {
      const loop::Buffer& b = program_.buffers[static_cast<size_t>(buffer)];
      cost_.bytes += sym::min(elements, b.numel) * static_cast<int64_t>(size_of(b.dtype));
    }
    return cost_;
  }

 private:
  template <class Elements>
  void touch(int buffer, const Elements& elements) {
    if (buffer >= 0) touched_[buffer] += elements();
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
      if (s.step == loop::Step::Load || s.step == loop::Step::Store) touch(s.buffer, [&] { return reach(domain, s.index); });
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

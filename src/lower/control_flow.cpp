// Control flow becomes a call that owns its regions, prepared to be compiled as programs of their own.
#include "graph/control_flow.h"

#include <algorithm>
#include <set>

#include "graph/known_sizes.h"
#include "lower/lowering.h"

namespace toroid::lower {
namespace {

// In every control-flow operation the operands that all runs of its regions read alike; the last inputs of each region.
constexpr size_t kUnchanging = 3;

}  // namespace

Tensor Lowering::constant_of(const graph::Value* v) const {
  for (auto& in : graph_.inputs)
    if (in.value == v && in.kind == graph::InputKind::Constant && in.value->type.strides.empty()) return in.data;
  return {};
}

// A copy of the region that declares what it uses of the sizes around it, knows what is assumed of them there, and the constants among its
// operands.
std::shared_ptr<graph::Graph> Lowering::block_of(const graph::Node& n, const graph::Graph& region) const {
  std::shared_ptr<graph::Graph> block = graph::clone(region);
  std::set<std::string> known;  // sizes that have a value when the region runs
  for (auto& [v, lazy] : values_)
    for (auto& e : v->type.sizes) sym::for_each_symbol(e, [&](const Expr& s) { known.insert(s.node()->name); });
  for (auto& s : graph_.symbols) {
    const std::string& name = s.expr.node()->name;
    if (s.unbacked && !known.count(name)) continue;
    auto declared = std::find_if(block->symbols.begin(), block->symbols.end(), [&](auto& own) { return own.expr.node()->name == name; });
    if (declared == block->symbols.end())
      block->symbols.push_back({s.expr, false, s.hint});
    else
      declared->unbacked = false;
  }
  const auto is_declared = [&](const Expr& e) {
    bool all = true;
    sym::for_each_symbol(e, [&](const Expr& s) { all = all && block->find_symbol(s.node()->name); });
    return all;
  };
  for (auto& g : program_.guards)
    if (is_declared(g.a) && is_declared(g.b) && !graph::states(block->guards, g)) block->guards.push_back(g);
  const auto& unchanging = graph::operands(n.args, kUnchanging);
  std::vector<graph::Input*> given;
  for (auto& in : block->inputs)
    if (in.kind == graph::InputKind::User) given.push_back(&in);
  for (size_t i = 0; i < unchanging.size(); ++i) {
    graph::Input& in = *given[given.size() - unchanging.size() + i];
    if (Tensor data = constant_of(unchanging[i]); data.defined() && in.value->type.strides.empty()) {
      in.kind = graph::InputKind::Constant;
      in.data = data;
    }
  }
  return block;
}

void Lowering::lower_control_flow(const graph::Node& n) {
  program::Extern call;
  call.op = n.op;
  for (auto& r : n.regions) call.blocks.push_back(block_of(n, *r));
  for (size_t i = 0; i < n.args.size(); ++i)
    call.args.push_back(map_arg<int>(n.args[i], [&](graph::Value* v) {
      if (!v || (i == kUnchanging && constant_of(v).defined())) return -1;
      Place p = realize(v, true);
      call.inputs.push_back({{p.buffer, v->type.dtype, p.offset, p.strides}, v->type.sizes});
      return static_cast<int>(call.inputs.size()) - 1;
    }));
  program::Node node;
  for (auto* r : n.results) {
    Place p = allocate(r->name, r->type);
    call.outputs.push_back({{p.buffer, r->type.dtype, 0, p.strides}, r->type.sizes});
    values_[r] = at_place(r->type, p);
    node.origins.push_back(r->name);
  }
  node.where = n.where;
  node.problem = std::move(call);
  append(std::move(node), nullptr);
}

}  // namespace toroid::lower

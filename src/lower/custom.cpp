// Custom operations become calls whose implementations are programs: the operation's own function, and its variants.
#include "graph/custom.h"

#include <algorithm>
#include <deque>

#include "base/check.h"
#include "graph/known_sizes.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "program/inline.h"

namespace toroid::lower {
namespace {

using Types = std::vector<Arg<const TensorType*>>;

// A variant that is left out, and as what it is counted.
struct Refusal {
  ops::CustomEvent event;
  std::string reason;
};

// What a graph must be to take the place of the node.
std::optional<Refusal> refusal_of(const graph::Graph& around, const graph::Node& n, const graph::Graph& g) {
  if (std::string reason = unfit_for_choice(around, g); !reason.empty()) return Refusal{ops::CustomEvent::OtherRefusal, reason};
  for (auto& r : g.guards)
    if (!graph::states(around.guards, r) && !sym::known(r))
      return Refusal{ops::CustomEvent::GuardRefusal, "it holds only where " + sym::to_string(r)};
  for (size_t i = 0; i < n.results.size(); ++i) {
    const TensorType &type = n.results[i]->type, &found = g.outputs[i].value->type;
    bool same = type.dtype == found.dtype && type.sizes.size() == found.sizes.size();
    for (size_t d = 0; same && d < type.sizes.size(); ++d)
      same = type.sizes[d] == found.sizes[d] || graph::states(around.guards, {sym::Rel::Eq, type.sizes[d], found.sizes[d]}) ||
             graph::states(around.guards, {sym::Rel::Eq, found.sizes[d], type.sizes[d]});
    if (!same)
      return Refusal{ops::CustomEvent::TypeRefusal,
                     fmt::format("its result {} is {} where the operation's is {}", i, to_string(found), to_string(type))};
  }
  return std::nullopt;
}

std::vector<CustomOperand> operands_of(const ops::Op& op, const Types& args, const Device& device) {
  std::vector<CustomOperand> out;
  for (size_t i = 0; i < args.size(); ++i)
    map_arg<int>(args[i], [&](const TensorType* t) {
      CustomOperand o{op.schema.params[i].name, t ? t->dtype : DType::F32, {}, device};
      if (t)
        for (auto& s : t->sizes) o.sizes.push_back(s.maybe_constant().value_or(-1));
      out.push_back(std::move(o));
      return 0;
    });
  return out;
}

// The size that decides which alternative runs, where it is open until the run.
void set_ranges(program::Open& open, const CustomTuning& tuning, const graph::Node& n) {
  if (!tuning.dispatch_on || tuning.split_points.empty()) return;
  const auto& by = *tuning.dispatch_on;
  const auto& sizes = std::get<graph::Value*>(n.args[static_cast<size_t>(n.op->schema.find(by.tensor))])->type.sizes;
  const int64_t rank = static_cast<int64_t>(sizes.size()), dim = by.dim < 0 ? by.dim + rank : by.dim;
  TOROID_USER_CHECK(dim >= 0 && dim < rank, "{} ({}): dispatch_on names dimension {} of \"{}\", which has {} dimensions in this call",
                    n.op->name, n.where, by.dim, by.tensor, rank);
  const Expr size = sizes[static_cast<size_t>(dim)];
  if (size.is_const()) return;
  open.size = size;
  open.split_points = tuning.split_points;
  open.top = by.range_upper_bound;
}

// variant == nullptr: the operation's own function, whose guards are the program's already. constants: of each operand, where it is one.
std::variant<program::Alternative, Refusal> alternative(const graph::Graph& around, const graph::Node& n, const CustomOpConfig* variant,
                                                        const Types& types, const std::vector<Tensor>& constants, LowerOptions options) {
  if (variant) options.options = options.options.with(variant->options);
  const graph::VariantScope scope(*n.op);
  auto g = graph::trace_custom(around, *n.op, variant, types);
  for (auto& node : g->nodes) node->where = n.where;
  for (size_t i = 0; i < constants.size(); ++i)
    if (constants[i].defined()) {
      g->inputs[i].kind = graph::InputKind::Constant;
      g->inputs[i].data = constants[i];
    }
  g = graph::run_passes(std::move(g), graph::pipeline({.templates = options.templates()}), nullptr, options.options);
  auto refusal = refusal_of(around, n, *g);
  if (refusal && (variant || refusal->event != ops::CustomEvent::GuardRefusal)) return *refusal;
  program::Alternative out;
  out.name = variant ? variant->name : n.op->name;
  out.program = std::make_shared<const program::Program>(lower(*g, options));
  out.graph = std::move(g);
  if (variant) out.options = variant->options;
  out.key = program::content_key(*out.program, out.options);
  return out;
}

}  // namespace

// Memory for an operand of an alternative. Row-major, or a view whose strides are known when compiling.
program::Extern::View Lowering::custom_operand(const graph::Value* v) {
  Place p = strided(v);
  bool known = true;
  for (size_t d = 0; d < p.strides.size(); ++d)
    known = known && v->type.sizes[d].is_const() && p.strides[d].is_const() && p.strides[d].constant() > 0;
  if (!known && !is_dense(p, v->type.sizes)) p = realize(v, true);
  return {{p.buffer, v->type.dtype, p.offset, p.strides}, v->type.sizes};
}

void Lowering::lower_custom(const graph::Node& n) {
  program::Open open;
  open.name = n.op->name;
  open.op = n.op;
  std::deque<TensorType> held;
  Types types;
  std::vector<Tensor> constants;  // weights are known to the alternatives, and no operands
  for (auto& a : n.args)
    types.push_back(map_arg<const TensorType*>(a, [&](graph::Value* v) -> const TensorType* {
      constants.push_back(constant_of(v));
      if (constants.back().defined()) return &held.emplace_back(v->type);
      open.inputs.push_back(custom_operand(v));
      const auto& memory = open.inputs.back().memory;
      TensorType& type = held.emplace_back(TensorType{v->type.dtype, v->type.sizes, memory.strides});
      if (is_dense({memory.buffer, 0, memory.strides}, type.sizes)) type.strides.clear();
      return &type;
    }));
  auto count = [&](ops::CustomEvent event) { ops::count(*n.op, event); };
  auto own = alternative(graph_, n, nullptr, types, constants, options_);
  if (auto* r = std::get_if<Refusal>(&own)) fail<UserError>("{} ({}): {}", n.op->name, n.where, r->reason);
  open.alternatives.push_back(std::get<program::Alternative>(std::move(own)));
  if (ops::is_tuned(*n.op)) {
    count(ops::CustomEvent::Call);
    count(ops::CustomEvent::Variant);
    for (auto& c : ops::variants_of(*n.op, operands_of(*n.op, types, facts().device))) {
      auto made = [&]() -> std::variant<program::Alternative, Refusal> {
        try {
          return alternative(graph_, n, &c, types, constants, options_);
        } catch (const InternalError&) {
          throw;
        } catch (const std::exception& e) {  // of whatever kind: the variant is the user's code
          return Refusal{ops::CustomEvent::OtherRefusal, e.what()};
        }
      }();
      auto* refusal = std::get_if<Refusal>(&made);
      count(refusal ? refusal->event : ops::CustomEvent::Variant);
      if (refusal)
        open.refused.push_back({c.name, refusal->reason});
      else
        open.alternatives.push_back(std::get<program::Alternative>(std::move(made)));
    }
    set_ranges(open, ops::tuning_of(*n.op), n);
  }
  program::Node node;
  node.where = n.where;
  for (auto* r : n.results) {
    Place p = allocate(r->name, r->type);
    open.outputs.push_back({{p.buffer, r->type.dtype, 0, p.strides}, r->type.sizes});
    values_[r] = at_place(r->type, p);
    values_[r].over_open = open.alternatives.size() > 1;
    node.origins.push_back(r->name);
  }
  node.problem = std::move(open);
  append(std::move(node), nullptr);
}

}  // namespace toroid::lower

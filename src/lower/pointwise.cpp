// Pointwise operations and creation operations: formulas over lazily composed operands.
#include "base/check.h"
#include "base/mutants.h"
#include "lower/lowering.h"
#include "ops/formula_steps.h"
#include "ops/row_text.h"

namespace toroid::lower {

using loop::BodyBuilder;

namespace {

// What one scalar step costs in units of a multiplication.
int work_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::Const:
    case ScalarOp::Input:
    case ScalarOp::Cast:
      return 0;
    case ScalarOp::Div:
    case ScalarOp::Sqrt:
    case ScalarOp::Rsqrt:
      return 4;
    case ScalarOp::RandUniform:
    case ScalarOp::RandNormal:
      return 60;
    default:
      return function_name(op).empty() ? 1 : 16;
  }
}

// Counts the work of a formula.
class WorkCounter : public ScalarBuilder {
 public:
  int emit(const ScalarNode& node) override {
    work += work_of(node.op);
    return next++;
  }
  int work = 0, next = 0;
};

struct PointwiseOperand {
  const Lazy* lazy = nullptr;  // nullptr: a number
  Number number;
  std::optional<Expr> size;  // the number, where it follows from sizes that are open
  bool condition = false;
};

// The index of an operand element under broadcasting.
Index broadcast_index(const Lazy& operand, const Index& index) {
  Index out;
  size_t lead = index.size() - operand.sizes.size();
  for (size_t d = 0; d < operand.sizes.size(); ++d) out.push_back(operand.sizes[d] == Expr(1) ? Expr(0) : index[d + lead]);
  return out;
}

}  // namespace

// A half, product or dear, that is read as a wider dtype alone, and several times so: it is stored as it is, and readers widen what they
// read.
bool widens_dear(const Lowering& l, const graph::Node& n) {
  const auto* source = n.op->name == "_to_copy" ? std::get_if<graph::Value*>(&n.args[0]) : nullptr;
  if (!source || !l.is_read_apart(n.results[0])) return false;
  const Lazy& narrow = l.value(*source);
  if (size_of(n.results[0]->type.dtype) <= size_of(narrow.dtype)) return false;
  return narrow.over_template || (is_half(narrow.dtype) && l.uses(*source) == 1 && Lowering::is_dear(narrow));
}

namespace {

// Formulas read a Scalar when they are written down. One that follows from open sizes is an operand, which the overload of tensors has.
const ops::Op& with_operand(const graph::Node& n) {
  const auto* number = n.args.size() > 1 ? std::get_if<Expr>(&n.args[1]) : nullptr;
  if (!number || number->is_const() || n.op->schema.params[1].type == ops::ParamType::Tensor) return *n.op;
  const ops::Op* other = ops::table().find(ops::base_name(*n.op) + ".Tensor");
  return other && other->formula && other->schema.params.size() == n.args.size() ? *other : *n.op;
}

}  // namespace

void lower_pointwise(Lowering& l, const graph::Node& n) {
  const ops::Op& op = with_operand(n);
  const bool widens = widens_dear(l, n);
  if (widens) l.realize(std::get<graph::Value*>(n.args[0]));
  std::vector<PointwiseOperand> operands;
  uint32_t bit = 1;
  for (size_t i = 0; i < n.args.size(); ++i) {
    if (op.schema.params[i].type != ops::ParamType::Tensor) {
      // Formulas read other arguments as numbers; sizes among them are only known to a run.
      if (auto* e = std::get_if<Expr>(&n.args[i]); e && !e->is_const()) return l.lower_extern(n);
      continue;
    }
    PointwiseOperand o;
    o.condition = op.bool_operands & bit;
    bit <<= 1;
    const auto& a = n.args[i];
    if (auto* v = std::get_if<graph::Value*>(&a))
      o.lazy = &l.value(*v);
    else if (auto* e = std::get_if<Expr>(&a)) {
      if (e->is_const())
        o.number = Number::of(e->constant());
      else
        o.size = *e;
    } else if (auto* d = std::get_if<double>(&a))
      o.number = Number::of(*d);
    else if (auto* t = std::get_if<bool>(&a))
      o.number = Number::of(*t);
    else
      continue;
    operands.push_back(o);
  }
  auto types = std::make_shared<std::vector<Arg<const TensorType*>>>(graph::type_args(n));
  ops::TypeReader reader(op, *types);
  DType promoted = ops::promoted_dtype(reader);
  if (op.promote == ops::Promote::Float && !mutant(Mutant::WrongPromotion)) promoted = ops::float_type(promoted);
  if (op.promote == ops::Promote::Logical) promoted = DType::Bool;
  if ((op.promote == ops::Promote::KeepFirst || op.promote == ops::Promote::Predicate) && !operands.empty() && operands[0].lazy)
    promoted = operands[0].lazy->dtype;
  DType compute = ops::compute_type(promoted);
  DType result = n.results[0]->type.dtype;

  Lazy out;
  out.dtype = result;
  out.sizes = n.results[0]->type.sizes;
  out.loads = 0;
  for (auto& o : operands)
    if (o.lazy) {
      out.work += o.lazy->work;
      out.loads += o.lazy->loads;
      out.over_template = out.over_template || o.lazy->over_template;
      out.over_open = out.over_open || o.lazy->over_open;
    }
  if (widens) out.over_template = false;
  auto formula = [&op, types, compute](std::vector<S> inputs) {
    ops::FormulaCall f(op, *types);
    f.compute = compute;
    f.operands = std::move(inputs);
    return ops::emit_formula(f);
  };
  WorkCounter counter;
  std::vector<S> stand_ins;
  for (auto& o : operands) stand_ins.push_back({&counter, counter.next++, o.condition ? DType::Bool : compute});
  formula(stand_ins);
  out.work += counter.work;
  const IndexCheck check = l.divisor_check(n, compute);
  // Operands are captured by value: realizing one later must not change what was composed.
  std::vector<std::pair<Lazy, PointwiseOperand>> captured;
  for (auto& o : operands) captured.emplace_back(o.lazy ? *o.lazy : Lazy{}, o);
  out.at = [captured = std::move(captured), formula, compute, result, check, divisor = op.divides ? ops::second_operand(op) : -1](
               BodyBuilder& b, const Index& index) {
    std::vector<S> inputs;
    for (auto& [lazy, o] : captured) {
      DType want = o.condition ? DType::Bool : compute;
      if (o.lazy)
        inputs.push_back(cast(lazy.at(b, broadcast_index(lazy, index)), want));
      else
        inputs.push_back(o.size ? cast(b.index(*o.size), want) : b.constant(want, o.number));
    }
    if (check.site >= 0) check_divisor(b, divisor < 0 ? lit(inputs[0], 0) : inputs[static_cast<size_t>(divisor)], check);
    S s = formula(std::move(inputs));
    return cast(s, ops::compute_type(result));
  };
  l.define(n.results[0], std::move(out));
}

void lower_full(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  DType dtype = n.results[0]->type.dtype;
  if (is_complex(dtype)) return l.lower_extern(n);
  const auto& fill = reader.at("fill_value");
  Lazy out;
  out.dtype = dtype;
  out.sizes = n.results[0]->type.sizes;
  out.loads = 0;
  if (auto* e = std::get_if<Expr>(&fill); e && !e->is_const()) {
    out.at = [e = *e, dtype](BodyBuilder& b, const Index&) { return cast(b.index(e), ops::compute_type(dtype)); };
  } else {
    Number v = reader.number("fill_value");
    out.at = [v, dtype](BodyBuilder& b, const Index&) { return b.constant(ops::compute_type(dtype), convert(v, dtype)); };
  }
  l.define(n.results[0], std::move(out));
}

void lower_iota(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  Expr start = reader.expr("start"), step = reader.expr("step");
  Lazy out;
  out.dtype = n.results[0]->type.dtype;
  out.sizes = n.results[0]->type.sizes;
  out.loads = 0;
  out.at = [start, step, dtype = out.dtype](BodyBuilder& b, const Index& index) {
    return cast(b.index(start + step * index[0]), ops::compute_type(dtype));
  };
  l.define(n.results[0], std::move(out));
}

// Element i is number offset + i of the stream that the state names.
void lower_random(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  ScalarOp draw = n.op->name == "prims.rand_uniform.state" ? ScalarOp::RandUniform : ScalarOp::RandNormal;
  Place state = l.strided(std::get<graph::Value*>(n.args[0]));
  Lazy out;
  out.dtype = n.results[0]->type.dtype;
  out.sizes = n.results[0]->type.sizes;
  out.loads = 0;
  out.work = work_of(draw);
  out.at = [state, draw, offset = reader.expr("offset"), stream = reader.integer("stream"), strides = dense_strides(out.sizes)](
               BodyBuilder& b, const Index& index) {
    S seed = b.load(state.buffer, DType::I64, flat_index(state, {Expr(0)}));
    S start = b.load(state.buffer, DType::I64, flat_index(state, {Expr(1)}));
    if (stream != 0) seed = seed + b.constant(DType::I64, Number::of(stream));
    return emit(draw, DType::F32, {seed, start + b.index(offset + flat_index({-1, 0, strides}, index))});
  };
  l.define(n.results[0], std::move(out));
}

// Windows that overlap read their elements several times, which are computed once then; padding around them stays with the windows.
static void realize_below_windows(Lowering& l, const graph::Node& n) {
  constexpr int kCheapWork = 2;
  const graph::Value* source = std::get<graph::Value*>(n.args[0]);
  const graph::Node* pad = source->producer;
  if (pad && pad->op->name == "unfold") return;  // the elements of these were seen to
  const bool padded = pad && pad->op->name == "constant_pad_nd" && !l.value(source).place;
  const graph::Value* of = padded ? std::get<graph::Value*>(pad->args[0]) : source;
  if (l.value(of).place || l.value(of).work <= kCheapWork) return;
  l.realize(of);
  if (padded) lower_pad(l, *pad);
}

// A view that several read, with more elements than what it is a view of, which is dear: that is in memory, and not the view.
static void realize_below_repeats(Lowering& l, const graph::Node& n) {
  if (n.results.size() != 1 || l.uses(n.results[0]) < 2) return;
  std::vector<const graph::Node*> views;
  const graph::Value* of = std::get<graph::Value*>(n.args[0]);
  const auto is_view = [](const graph::Node* p) { return p && p->op->index_map && p->results.size() == 1; };
  for (; is_view(of->producer) && !l.value(of).place; of = std::get<graph::Value*>(of->producer->args[0])) views.push_back(of->producer);
  const auto elements = [](const graph::Value* v) {
    Expr count = 1;
    for (auto& s : v->type.sizes) count = count * s;
    return count.maybe_constant().value_or(0);
  };
  if (!Lowering::is_dear(l.value(of)) || elements(n.results[0]) <= elements(of)) return;
  l.realize(of);
  for (auto v = views.rbegin(); v != views.rend(); ++v) lower_view(l, **v);
}

void lower_view(Lowering& l, const graph::Node& n) {
  const graph::Value* source = std::get<graph::Value*>(n.args[0]);
  if (n.op->name == "unfold") realize_below_windows(l, n);
  realize_below_repeats(l, n);
  Lazy input = l.value(source);
  auto types = std::make_shared<std::vector<Arg<const TensorType*>>>(graph::type_args(n));
  // A template's result that several views share is finished in the template's epilogue, not once a view.
  // So is what windows (of a pooling) see, perhaps several times.
  bool shared = input.over_template && !input.place && (n.results.size() > 1 || n.op->name == "unfold");
  if (shared || is_complex(input.dtype)) l.realize(source), input = l.value(source);
  for (size_t r = 0; r < n.results.size(); ++r) {
    Lazy out;
    out.dtype = n.results[r]->type.dtype;
    out.sizes = n.results[r]->type.sizes;
    out.work = input.work;
    out.loads = input.loads;
    out.over_template = input.over_template;
    const ops::Op* op = n.op;
    out.at = [input, op, types, r](BodyBuilder& b, const Index& index) {
      return input.at(b, op->index_map(ops::TypeReader(*op, *types), r, index));
    };
    if (input.place) {  // a view of memory whose index map is linear is itself a place
      Index index;
      for (auto& s : out.sizes) index.push_back(s == Expr(1) ? Expr(0) : l.fresh_var(s, false));
      Expr flat = flat_index(*input.place, op->index_map(ops::TypeReader(*op, *types), r, index)), rest = flat;
      Place p{input.place->buffer, 0, {}};
      bool linear = true;
      for (auto& i : index) {
        auto c = i.is_const() ? std::optional<Expr>(0) : sym::linear_coefficient(flat, i);
        linear = linear && c;
        if (!c) break;
        p.strides.push_back(*c);
        if (!i.is_const()) rest = rest - *c * i;
      }
      for (auto& i : index) linear = linear && (i.is_const() || !sym::depends_on(rest, i));
      if (linear) {
        p.offset = rest;
        out = l.at_place(n.results[r]->type, p);
        out.over_template = input.over_template;
      }
    }
    l.define(n.results[r], std::move(out));
  }
}

void lower_reduction(Lowering& l, const graph::Node& n) {
  auto types = graph::type_args(n);
  ops::TypeReader reader(*n.op, types);
  const graph::Value* source = reader.op().schema.params.empty() ? nullptr : std::get<graph::Value*>(n.args[0]);
  const Lazy input = l.value(source);
  int64_t rank = static_cast<int64_t>(input.sizes.size());
  std::vector<bool> reduced(static_cast<size_t>(rank), false);
  std::vector<int64_t> dims;
  if (n.op->schema.find("dim") >= 0 && reader.has("dim")) {
    dims = reader.integers("dim");
    for (int64_t d : dims)
      if (rank > 0) reduced[static_cast<size_t>(ops::normal_dim(*n.op, d, rank))] = true;
  }
  if (dims.empty()) std::fill(reduced.begin(), reduced.end(), true);
  DType result = n.results[0]->type.dtype;
  // ReduceKind and loop::Reduction list the same kinds in the same order.
  auto kind = static_cast<loop::Reduction>(*n.op->reduce);
  DType element = kind == loop::Reduction::Any || kind == loop::Reduction::All         ? DType::Bool
                  : kind == loop::Reduction::ArgMax || kind == loop::Reduction::ArgMin ? ops::compute_type(input.dtype)
                                                                                       : ops::compute_type(result);
  for (size_t d = 0; d < reduced.size(); ++d)
    if (auto c = input.sizes[d].maybe_constant(); c && *c == 0) return l.lower_extern(n);

  bool keep = n.results[0]->type.sizes.size() == input.sizes.size();
  bool single = true;  // nothing to fold: every reduced dimension has one element
  for (size_t d = 0; d < reduced.size(); ++d) single = single && (!reduced[d] || input.sizes[d] == Expr(1));
  if (single) {
    Lazy out = input;
    out.place.reset();
    out.dtype = result;
    out.sizes = n.results[0]->type.sizes;
    out.at = [input, reduced, keep, kind, element, result](BodyBuilder& b, const Index& at) {
      Index index;
      size_t next = 0;
      for (bool r : reduced) {
        index.push_back(r ? Expr(0) : at[next]);
        next += !r || keep;
      }
      if (kind == loop::Reduction::ArgMax || kind == loop::Reduction::ArgMin) return b.constant(DType::I64, Number::of(int64_t{0}));
      return cast(cast(input.at(b, index), element), ops::compute_type(result));
    };
    return l.define(n.results[0], std::move(out));
  }

  program::Node node;
  Index index, out_index;
  for (size_t d = 0; d < reduced.size(); ++d) {
    Expr var = l.fresh_var(input.sizes[d], reduced[d]);
    index.push_back(var);
    if (!var.is_const()) node.domain.vars.push_back({var, reduced[d]});
    if (!reduced[d])
      out_index.push_back(var);
    else if (keep)
      out_index.push_back(0);
  }
  if (out_index.size() != n.results[0]->type.sizes.size()) out_index.resize(n.results[0]->type.sizes.size(), 0);
  Place p = l.allocate_reduced(n.results[0], input, reduced);
  BodyBuilder b(node.body);
  S v = b.reduce(kind, cast(input.at(b, index), element));
  b.store(p.buffer, result, flat_index(p, out_index), v);
  loop::eliminate_dead(node.body);
  l.append(std::move(node), n.results[0]);
  l.define(n.results[0], l.at_place(n.results[0]->type, p));
}

}  // namespace toroid::lower

#include "lower/lowering.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/mutants.h"
#include "graph/inplace.h"
#include "graph/recorder.h"
#include "graph/requirements.h"
#include "ops/cuda_kernels.h"
#include "ops/custom.h"
#include "ops/opaque.h"
#include "program/dead_code.h"

namespace toroid::lower {

using loop::BodyBuilder;

Expr flat_index(const Place& p, const Index& index) {
  Expr e = mutant(Mutant::DroppedOffset) ? Expr(0) : p.offset;
  for (size_t d = 0; d < index.size(); ++d) e = e + index[d] * p.strides[d];
  return e;
}

std::vector<Expr> dense_strides(const std::vector<Expr>& sizes) {
  std::vector<Expr> strides(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * sizes[mutant(Mutant::WrongStride) ? d - 1 : d];
  return strides;
}

std::vector<Expr> strides_of(const TensorType& type) { return type.strides.empty() ? dense_strides(type.sizes) : type.strides; }

Expr extent_of(const TensorType& type) {
  const std::vector<Expr> strides = strides_of(type);
  Expr last = 0;
  for (size_t d = 0; d < strides.size(); ++d) last = last + (type.sizes[d] - 1) * strides[d];
  return last + 1;
}

bool is_dense(const Place& p, const std::vector<Expr>& sizes) {
  if (mutant(Mutant::AlwaysDense)) return true;
  auto want = dense_strides(sizes);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != Expr(1) && p.strides[d] != want[d]) return false;
  return true;
}

namespace {
// Loops only move complex numbers, and move a c64 as its eight bytes.
DType memory_type(DType t) { return t == DType::C64 ? DType::I64 : t; }

// How far an address moves with a variable, on average where it is divided (as through views that split or merge dimensions); 0 where that
// is not known.
int64_t mean_step(const Expr& address, const Expr& variable) {
  if (const auto c = sym::linear_coefficient(address, variable)) return c->maybe_constant().value_or(0);
  const Expr& extent = variable.node()->extent;
  bool known = extent.is_const() && extent.constant() > 1;
  sym::for_each_symbol(address, [&](const Expr& s) { known = known && s.node()->has_extent; });
  if (!known) return 0;
  auto at = [&](int64_t value) {
    return sym::evaluate(address, [&](const sym::Node& s) { return sym::same_symbol(s, *variable.node()) ? value : 0; });
  };
  return (at(extent.constant() - 1) - at(0)) / (extent.constant() - 1);
}
}  // namespace

Lowering::Lowering(const graph::Graph& g, const LowerOptions& options) : graph_(g), options_(options) {
  program_.name = g.name;
  program_.symbols = g.symbols;
  program_.guards = graph::all_guards(g);
  program_.nodes.reserve(g.nodes.size()), program_.buffers.reserve(g.values.size());
  for (auto* map : {&uses_, &last_use_}) map->reserve(g.values.size());
  values_.reserve(g.values.size());
  int position = 0;
  for (auto& n : g.nodes) {
    ++position;
    graph::for_each_operand(*n, [&](const graph::Value* v) {
      ++uses_[v];
      last_use_[v] = position;
    });
  }
  for (auto& o : g.outputs)
    if (o.value) {
      ++uses_[o.value];
      last_use_[o.value] = position + 1;
    }
  for (auto& chain : graph::inplace_chains(g))
    if (!g.inputs[chain.input].data.defined() || g.inputs[chain.input].kind != graph::InputKind::Constant)
      inplace_.insert(chain.writes.begin(), chain.writes.end());
}

int Lowering::uses(const graph::Value* v) const {
  auto it = uses_.find(v);
  return it == uses_.end() ? 0 : it->second;
}

bool Lowering::is_read_apart(const graph::Value* v) const {
  if (uses(v) != 1) return uses(v) > 1;
  const auto last = static_cast<size_t>(last_use_.at(v));
  return last <= graph_.nodes.size() && graph_.nodes[last - 1]->results.size() > 1;
}

Expr Lowering::fresh_var(const Expr& extent, bool reduction) { return extent == Expr(1) ? Expr(0) : fresh_symbol(extent, reduction); }

Expr Lowering::fresh_symbol(const Expr& extent, bool reduction) {
  return sym::loop_symbol((reduction ? "r" : "i") + std::to_string(vars_++), extent);
}

Lazy Lowering::at_place(const TensorType& type, Place place) {
  Lazy lazy;
  lazy.dtype = type.dtype;
  lazy.sizes = type.sizes;
  lazy.place = place;
  lazy.at = [place, dtype = type.dtype](BodyBuilder& b, const Index& index) {
    S s = b.load(place.buffer, memory_type(dtype), flat_index(place, index));
    return is_complex(dtype) ? s : cast(s, ops::compute_type(dtype));
  };
  return lazy;
}

Lazy Lowering::nothing(const TensorType& type) {
  Lazy lazy;
  lazy.dtype = type.dtype;
  lazy.sizes = type.sizes;
  lazy.loads = 0;
  const DType t = is_complex(type.dtype) ? memory_type(type.dtype) : ops::compute_type(type.dtype);
  lazy.at = [t](BodyBuilder& b, const Index&) { return b.constant(t, Number::of(int64_t{0})); };
  return lazy;
}

Place Lowering::allocate(const std::string& name, const TensorType& type) {
  Place p;
  p.buffer = program_.new_buffer(name, type.dtype, type.numel(), loop::BufferKind::Temporary);
  p.strides = dense_strides(type.sizes);
  return p;
}

Place Lowering::allocate_like(const graph::Value* v, const Lazy& lazy) {
  Place p = allocate(v->name, v->type);
  if (lazy.sizes.size() < 2 || lazy.sizes.size() != v->type.sizes.size()) return p;
  loop::Body body;
  BodyBuilder b(body);
  Index index;
  for (auto& s : lazy.sizes) index.push_back(fresh_var(s, false));
  lazy.at(b, index);
  for (auto& s : body.steps) {
    if (s.step != loop::Step::Load) continue;
    std::vector<std::pair<int64_t, size_t>> order;  // stride of the load along each dimension
    for (size_t d = 0; d < index.size(); ++d) {
      if (index[d].is_const()) continue;
      const int64_t step = mean_step(s.index, index[d]);
      if (step > 0) order.emplace_back(step, d);
    }
    size_t extended = static_cast<size_t>(std::count_if(index.begin(), index.end(), [](const Expr& e) { return !e.is_const(); }));
    if (order.size() != extended) continue;  // a broadcast operand says nothing
    std::stable_sort(order.begin(), order.end(), [](auto& x, auto& y) { return x.first > y.first; });
    Expr step = 1;
    for (size_t d = 0; d < index.size(); ++d)
      if (index[d].is_const() && !(v->type.sizes[d] == Expr(1))) return p;
    for (size_t k = order.size(); k-- > 0;) {
      p.strides[order[k].second] = step;
      step = step * v->type.sizes[order[k].second];
    }
    return p;
  }
  return p;
}

Place Lowering::allocate_reduced(const graph::Value* v, const Lazy& input, const std::vector<bool>& reduced) {
  Lazy kept;  // the input as if each reduced dimension had one element
  kept.dtype = input.dtype;
  bool keep = v->type.sizes.size() == input.sizes.size();
  for (size_t d = 0; d < reduced.size(); ++d)
    if (!reduced[d] || keep) kept.sizes.push_back(reduced[d] ? Expr(1) : input.sizes[d]);
  kept.at = [&input, &reduced, keep](BodyBuilder& b, const Index& at) {
    Index index;
    size_t next = 0;
    for (bool r : reduced) {
      index.push_back(r ? Expr(0) : at[next]);
      next += !r || keep;
    }
    return input.at(b, index);
  };
  return allocate_like(v, kept);
}

program::Node& Lowering::append(program::Node node, const graph::Value* origin) {
  if (origin) node.origins.push_back(origin->name);
  if (origin && origin->producer) {
    node.where = origin->producer->where;
    node.pass = origin->producer->pass;
  }
  program_.nodes.push_back(std::move(node));
  return program_.nodes.back();
}

void Lowering::fill(const Place& place, DType dtype, const std::vector<Expr>& sizes, const Element& element, const graph::Value* origin) {
  program::Node node;
  Index index;
  for (auto& s : sizes) {
    index.push_back(fresh_var(s, false));
    if (!index.back().is_const()) node.domain.vars.push_back({index.back(), false});
  }
  BodyBuilder b(node.body);
  b.store(place.buffer, memory_type(dtype), flat_index(place, index), element(b, index));
  loop::eliminate_dead(node.body);
  append(std::move(node), origin);
}

int Lowering::shared_buffer(const graph::Value* of, const std::string& what, const std::function<int()>& make) {
  const auto known = shared_buffers_.find({of, what});
  return known != shared_buffers_.end() ? known->second : shared_buffers_[{of, what}] = make();
}

bool Lowering::divides(const Lazy& lazy) {
  loop::Body body;
  BodyBuilder b(body);
  Index index;
  for (auto& s : lazy.sizes) index.push_back(fresh_var(s, false));
  lazy.at(b, index);
  for (auto& s : body.steps)
    for (auto& i : index)
      if (s.step == loop::Step::Load && !i.is_const() && !sym::linear_coefficient(s.index, i)) return true;
  return false;
}

Place Lowering::realize(const graph::Value* v, bool dense) {
  Lazy& lazy = values_.at(v);
  if (lazy.place && (!dense || is_dense(*lazy.place, lazy.sizes))) return *lazy.place;
  TOROID_USER_CHECK(lazy.dtype != DType::C128 || lazy.place, "{}: views of c128 tensors that are not in memory are not supported", v->name);
  // Phases of a template's result (transposed convolutions): first each to its place, then to another order, which tiles of memory are for.
  if (dense && !lazy.place && lazy.over_template && divides(lazy)) {
    const Place own = realize(v);
    if (is_dense(own, lazy.sizes)) return own;
  }
  Place p = dense ? allocate(v->name, v->type) : allocate_like(v, lazy);
  fill(p, lazy.dtype, lazy.sizes, lazy.at, v);
  if (!lazy.place) lazy = at_place(v->type, p);
  return p;
}

Place Lowering::strided(const graph::Value* v) {
  const Lazy& lazy = values_.at(v);
  if (lazy.place) return *lazy.place;
  // Ask for the element at symbolic indices: when it is one load at a linear index, the value is a strided view of that buffer.
  loop::Body body;
  BodyBuilder b(body);
  Index index;
  for (auto& s : lazy.sizes) index.push_back(s == Expr(1) ? Expr(0) : fresh_var(s, false));
  S s = lazy.at(b, index);
  const loop::Statement* st = &body.steps[static_cast<size_t>(s.id)];
  if (st->step == loop::Step::Scalar && st->op == ScalarOp::Cast && body.steps.size() == 2) st = &body.steps[0];
  if (st->step == loop::Step::Load && st->mask < 0 && st->dtype == lazy.dtype && body.steps.size() <= 2) {
    Place p;
    p.buffer = st->buffer;
    Expr rest = st->index;
    for (auto& i : index) {
      auto c = i.is_const() ? std::optional<Expr>(0) : sym::linear_coefficient(st->index, i);
      if (!c) return realize(v);
      p.strides.push_back(*c);
      if (!i.is_const()) rest = rest - *c * i;
    }
    for (auto& i : index)
      if (!i.is_const() && sym::depends_on(rest, i)) return realize(v);
    bool indirect = false;
    sym::for_each_symbol(rest, [&](const Expr& e) { indirect = indirect || loop::step_of_symbol(*e.node()) >= 0; });
    if (indirect) return realize(v);
    p.offset = rest;
    return p;
  }
  return realize(v);
}

// Numbers that an epilogue quantizes take less memory than what they are made of: they are stored, also where one reader could do that.
static bool is_quantized(const graph::Value* v) {
  const bool casts = v->producer && v->producer->op->name == "_to_copy" && std::holds_alternative<graph::Value*>(v->producer->args[0]);
  return casts && (v->type.dtype == DType::I8 || v->type.dtype == DType::U8) &&
         size_of(std::get<graph::Value*>(v->producer->args[0])->type.dtype) > 1;
}

bool Lowering::is_dear(const Lazy& lazy) {
  constexpr int kCheapWork = 4, kCheapLoads = 2;
  return !lazy.place && (lazy.work > kCheapWork || lazy.loads > kCheapLoads || lazy.over_template);
}

void Lowering::define(const graph::Value* v, Lazy lazy) {
  constexpr int kMaxInlineLoads = 12, kMaxInlineWork = 200;
  const bool again = uses(v) > 1 && is_dear(lazy);
  bool too_big = !lazy.place && (lazy.loads > kMaxInlineLoads || lazy.work > kMaxInlineWork);
  const bool over_open = lazy.over_open, quantized = !lazy.place && lazy.over_template && is_quantized(v);
  values_[v] = std::move(lazy);
  if (again || too_big || over_open || quantized || !options_.composes()) realize(v);
  values_.at(v).over_open = over_open;
}

void Lowering::lower_inputs() {
  for (auto& in : graph_.inputs) {
    auto kind = in.data.defined() && in.kind == graph::InputKind::Constant ? loop::BufferKind::Constant : loop::BufferKind::Input;
    Place p;
    p.strides = strides_of(in.value->type);
    p.buffer = program_.new_buffer(in.name, in.value->type.dtype, extent_of(in.value->type), kind);
    program_.inputs.push_back({p.buffer, in.value->type, in.kind, in.data, in.name});
    if (in.kind == graph::InputKind::Random) program_.inputs.back().draws = in.draws;
    values_[in.value] = at_place(in.value->type, p);
  }
}

bool Lowering::is_input_memory(const Place& p, size_t input) const {
  const TensorType& type = graph_.inputs[input].value->type;
  auto want = type.strides.empty() ? dense_strides(type.sizes) : type.strides;
  bool same = p.buffer == program_.inputs[input].buffer && p.offset == Expr(0) && p.strides.size() == want.size();
  for (size_t d = 0; same && d < want.size(); ++d) same = type.sizes[d] == Expr(1) || p.strides[d] == want[d];
  return same;
}

void Lowering::lower_outputs() {
  std::set<const graph::Value*> seen;
  for (auto& o : graph_.outputs) {
    program::ProgramOutput out;
    out.mutates = o.mutates;
    out.literal = o.literal;
    if (o.value) {
      if (o.value->producer) out.where = o.value->producer->where;
      out.type = o.value->type;
      out.type.strides.clear();
      const Lazy& lazy = values_.at(o.value);
      bool in_place = o.mutates >= 0 && lazy.place && is_input_memory(*lazy.place, static_cast<size_t>(o.mutates));
      if (!in_place) {
        Place p = realize(o.value, true);
        auto& buffer = program_.buffers[static_cast<size_t>(p.buffer)];
        bool shared = buffer.kind != loop::BufferKind::Temporary || !(p.offset == Expr(0)) || !(buffer.numel == o.value->type.numel());
        if (!mutant(Mutant::MissingAlias) &&
            (shared || seen.count(o.value))) {  // an input's memory or part of a larger buffer: the result needs its own
          Place own = allocate(o.value->name, out.type);
          Lazy from = values_.at(o.value);
          fill(own, from.dtype, from.sizes, from.at, o.value);
          p = own;
        }
        seen.insert(o.value);
        out.buffer = p.buffer;
        program_.buffers[static_cast<size_t>(p.buffer)].kind = loop::BufferKind::Output;
      }
    }
    program_.outputs.push_back(std::move(out));
  }
}

// Memory that begins with the value.
Place Lowering::row_major(const graph::Value* v) {
  const Place there = realize(v, true);
  if (there.offset == Expr(0)) return there;
  const Place own = allocate(v->name, v->type);
  const Lazy& lazy = values_.at(v);
  fill(own, lazy.dtype, lazy.sizes, lazy.at, v);
  return own;
}

// Row-major, perhaps within the memory of other values.
Place Lowering::dense(const graph::Value* v) {
  const Place there = strided(v);
  return is_dense(there, v->type.sizes) ? there : realize(v, true);
}

Place Lowering::operand_of_call(const graph::Node& call, const graph::Value* v) {
  if (facts().device.is_cuda() && ops::has_cuda_kernel(*call.op)) return row_major(v);
  if (facts().device.is_cuda() && ops::has_cuda_function(*call.op) && !ops::takes_strides(*call.op)) return dense(v);
  return strided(v);
}

void Lowering::lower_extern(const graph::Node& n) {
  TOROID_USER_CHECK(n.op->kernel || n.op->formula || n.op->index_map || n.op->decompose,
                    "{} ({}): this operation is not supported by the compiler", n.op->name, n.where);
  program::Extern call;
  call.op = n.op;
  auto add = [&](const graph::Value* v) {
    if (!v) return -1;
    const Place p = operand_of_call(n, v);
    call.inputs.push_back({{p.buffer, v->type.dtype, p.offset, p.strides}, v->type.sizes});
    return static_cast<int>(call.inputs.size()) - 1;
  };
  for (auto& a : n.args) call.args.push_back(map_arg<int>(a, [&](graph::Value* v) { return add(v); }));
  program::Node node;
  for (auto* r : n.results) {
    Place p = allocate(r->name, r->type);
    call.outputs.push_back({{p.buffer, r->type.dtype, 0, p.strides}, r->type.sizes});
    for (auto& s : r->type.sizes)
      if (s.kind() == sym::Kind::Symbol)
        if (auto* known = graph_.find_symbol(s.node()->name); known && known->unbacked) call.fresh_symbols.push_back(s);
    values_[r] = at_place(r->type, p);
    node.origins.push_back(r->name);
  }
  node.where = n.where;
  node.problem = std::move(call);
  append(std::move(node), nullptr);
}

void Lowering::settle_readers(int buffer, const graph::Value* except) {
  std::vector<const graph::Value*> readers;
  if (mutant(Mutant::UnsettledReaders)) return;
  for (auto& [v, lazy] : values_) {
    auto use = last_use_.find(v);
    if (v == except || use == last_use_.end() || use->second < position_) continue;
    if (auto it = stand_ins_.find(except); it != stand_ins_.end() && it->second == v) continue;
    bool reads = lazy.place && lazy.place->buffer == buffer;
    if (!lazy.place) {
      loop::Body body;
      BodyBuilder b(body);
      Index index;
      for (auto& s : lazy.sizes) index.push_back(fresh_var(s, false));
      lazy.at(b, index);
      for (auto& s : body.steps) reads = reads || (s.step == loop::Step::Load && s.buffer == buffer);
    }
    if (reads) readers.push_back(v);
  }
  // By name: the same graph gives the same program wherever its values lie in memory.
  std::sort(readers.begin(), readers.end(), [](auto* a, auto* b) { return a->name < b->name; });
  for (auto* v : readers) {
    Lazy from = values_.at(v);
    Place p = allocate(v->name, v->type);
    fill(p, from.dtype, from.sizes, from.at, v);
    values_[v] = at_place(v->type, p);
  }
}

Place Lowering::place_for_update(const graph::Node& n) {
  const graph::Value* self = std::get<graph::Value*>(n.args[0]);
  const Lazy& lazy = values_.at(self);
  if ((is_inplace(n) || mutant(Mutant::AlwaysInPlace)) && lazy.place) {
    Place p = *lazy.place;
    settle_readers(p.buffer, self);
    return p;
  }
  Place p = allocate(n.results[0]->name, n.results[0]->type);
  Lazy from = lazy;
  fill(p, from.dtype, from.sizes, from.at, n.results[0]);
  return p;
}

void Lowering::lower_composite(const graph::Node& n) {
  graph::Graph parts;
  parts.symbols = graph_.symbols;
  parts.guards = program_.guards;  // whether two sizes are equal is answered as it was when the graph was made
  graph::Recorder recorder(parts);
  recorder.set_expand_composites(true);
  recorder.set_where(n.where);
  std::map<const graph::Value*, Tensor> stand_ins;
  CallArgs args;
  for (auto& a : n.args)
    args.push_back(map_arg<Tensor>(a, [&](graph::Value* v) -> Tensor {
      if (!v) return {};
      Tensor& t = stand_ins[v];
      if (!t.defined()) t = recorder.proxy(parts.add_input(v->type, graph::InputKind::User, v->name));
      return t;
    }));
  std::vector<Tensor> results;
  {
    DispatchScope scope(recorder);
    results = n.op->decompose(ops::CallReader(*n.op, args));
  }
  program_.guards = parts.guards;  // and what is decided only here holds for the runs of this program
  for (auto& p : parts.nodes) p->pass = n.pass;
  for (auto& p : parts.nodes)
    graph::for_each_operand(*p, [&](const graph::Value* v) {
      ++uses_[v];
      last_use_[v] = position_;
    });
  for (auto& [v, t] : stand_ins) {
    values_[recorder.value_of(t)] = values_.at(v);
    auto outer = stand_ins_.find(v);
    stand_ins_[recorder.value_of(t)] = outer == stand_ins_.end() ? v : outer->second;
  }
  for (auto& in : parts.inputs)
    if (in.data.defined()) TOROID_CHECK(false, "the decomposition of {} captures a tensor", n.op->name);
  for (auto& p : parts.nodes) {
    if (is_inplace(n) && p->op->name == "index_put" &&
        std::get<graph::Value*>(p->args[0]) == recorder.value_of(stand_ins.at(std::get<graph::Value*>(n.args[0]))))
      inplace_.insert(p.get());
    lower_node(*p);
  }
  for (size_t i = 0; i < n.results.size(); ++i) define(n.results[i], values_.at(recorder.value_of(results.at(i))));
  parts_.push_back(std::make_unique<graph::Graph>(std::move(parts)));
}

// Results without elements need no rule, and rules need not know them: where there is nothing to compute, operations allow operands that do
// not fit otherwise (ranks that differ, indices into nothing).
bool Lowering::lower_empty(const graph::Node& n) {
  auto names = [](const TensorType& type, const Expr& size) {
    return std::find(type.sizes.begin(), type.sizes.end(), size) != type.sizes.end();
  };
  auto given = [&](const Expr& size) {  // else the run learns the size from this operation
    const auto* known = size.kind() == sym::Kind::Symbol ? graph_.find_symbol(size.node()->name) : nullptr;
    bool found = !known || !known->unbacked;
    graph::for_each_operand(n, [&](const graph::Value* v) { found = found || names(v->type, size); });
    return found;
  };
  for (auto* r : n.results) {
    const auto& sizes = r->type.sizes;
    if (!names(r->type, 0) || r->type.dtype == DType::C128 || !std::all_of(sizes.begin(), sizes.end(), given)) return false;
  }
  for (auto* r : n.results) values_[r] = nothing(r->type);
  return true;
}

void Lowering::lower_node(const graph::Node& n) {
  if (ops::is_custom(*n.op)) return lower_custom(n);
  bool complex = false;
  graph::for_each_operand(n, [&](const graph::Value* v) { complex = complex || is_complex(v->type.dtype); });
  for (auto* r : n.results) complex = complex || is_complex(r->type.dtype);
  if (!n.regions.empty()) return lower_control_flow(n);
  if (n.op->effect && n.results.empty()) return lower_extern(n);
  if (n.op->collective) return lower_collective(n);
  if (!n.op->effect && !n.results.empty() && lower_empty(n)) return;
  if (complex && !n.op->index_map) return lower_extern(n);
  if (Rule rule = find_rule(n.op->name)) return rule(*this, n);
  if (n.op->formula) return lower_pointwise(*this, n);
  if (n.op->index_map) return lower_view(*this, n);
  if (n.op->reduce) return lower_reduction(*this, n);
  if (n.op->decompose) return lower_composite(n);
  lower_extern(n);
}

program::Program Lowering::run() {
  lower_inputs();
  for (auto& n : graph_.nodes) {
    ++position_;
    lower_node(*n);
  }
  lower_outputs();
  program::eliminate_dead(program_);
  for (size_t i = 0; i < program_.nodes.size(); ++i) program_.nodes[i].parts = {static_cast<int>(i)};
  return std::move(program_);
}

program::Program lower(const graph::Graph& g, const LowerOptions& options) { return Lowering(g, options).run(); }

}  // namespace toroid::lower

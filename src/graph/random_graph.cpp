#include "graph/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/check.h"
#include "graph/bind.h"
#include "graph/passes/passes.h"
#include "graph/random_generator.h"

namespace toroid::graph {

namespace {

// Multiples of grain up to bound are values of the dtype, whole sums of them included.
bool fits(DType t, double bound, double grain) {
  switch (t) {
    case DType::Bool:
      return bound <= 1;
    case DType::U8:
      return bound <= 100 && grain >= 1;
    case DType::I32:
    case DType::I64:
      return bound <= 1e8 && grain >= 1;
    case DType::BF16:
      return bound / grain <= 128;
    case DType::F16:
      return bound / grain <= 1024 && bound < 30000;
    case DType::F32:
      return bound / grain <= 4e6;
    default:
      return bound / grain <= 1e12;
  }
}

}  // namespace

RandomGenerator::RandomGenerator(uint64_t seed, const RandomGraphOptions& options)
    : options_(options),
      random_(seed * 0x9E3779B97F4A7C15ull + 1),
      names_(seed + 1),
      graph_(std::make_unique<Graph>()),
      recorder_(*graph_) {
  using G = RandomGenerator;
  // A family stands as often as it takes for the rarest of its operations to come up in one graph of a hundred.
  families_ = {&G::unary,     &G::unary,   &G::unary,   &G::unary,        &G::unary_exact,  &G::unary_exact, &G::binary,
               &G::binary,    &G::integer, &G::integer, &G::compare,      &G::compare,      &G::choose,      &G::casts,
               &G::reduce,    &G::reduce,  &G::reduce,  &G::reduce_exact, &G::reduce_exact, &G::softmax,     &G::norm,
               &G::norm,      &G::view,    &G::view,    &G::strided_view, &G::rearrange,    &G::rearrange,   &G::join,
               &G::pad,       &G::pad,     &G::index,   &G::index,        &G::index,        &G::scatter,     &G::scatter,
               &G::scan,      &G::order,   &G::product, &G::product,      &G::product,      &G::convolution, &G::pool,
               &G::attention, &G::create};
  if (options.in_place)
    families_.insert(families_.end(), {&G::in_place, &G::in_place, &G::in_place, &G::in_place, &G::in_place, &G::in_place, &G::in_place,
                                       &G::in_place_part, &G::in_place_part});
  if (options.control_flow) families_.insert(families_.end(), 12, &G::control);
  if (options.complex_numbers) families_.insert(families_.end(), 2, &G::complex_numbers);
  if (options.data_dependent && chance(6)) families_.insert(families_.end(), {&G::data_dependent, &G::data_dependent});
  if (options.special_values && chance(4)) wild_ = true, families_.insert(families_.end(), 12, &G::special);
}

std::unique_ptr<Graph> RandomGenerator::run() {
  graph_->name = "random";
  if (options_.degenerate) sizes_.push_back(0);
  if (options_.dynamic_sizes && chance(2)) sizes_.push_back(new_size(options_.degenerate ? 0 : 2));
  if (chance(4)) sizes_.push_back(one_of<Expr>({16, 17, 33, 64}));
  DispatchScope scope(recorder_);
  for (int64_t i = 0, n = 1 + pick(3); i < n; ++i) {
    Exprs sizes;
    for (int64_t d = 0, rank = options_.degenerate ? pick(4) : 1 + pick(3); d < rank; ++d) sizes.push_back(one_of(sizes_));
    pool_.push_back(fresh_input(dtype(), sizes));
  }
  // An input whose size is the symbol alone, so that each symbol has a value.
  for (size_t i = 0, n = graph_->symbols.size(); i < n; ++i) pool_.push_back(fresh_input(DType::F32, {graph_->symbols[i].expr}));
  for (int tries = 0; static_cast<int>(graph_->nodes.size()) < options_.nodes && tries < options_.nodes * 20; ++tries) attempt();
  auto output = [&](const Tensor& t) { graph_->outputs.push_back({recorder_.value_of(chance(4) ? a_row_of(t) : t), {}, -1}); };
  for (int64_t i = 0, n = 1 + pick(3); i < n; ++i) output(any().t);
  output(pool_.back().t);
  for (auto& t : last_) output(t);
  if (options_.bad_indices) {  // last, so that nothing writes to what is read, and whole, so that nothing leaves the index out
    families_ = {&RandomGenerator::bad_index};
    const size_t before = pool_.size();
    for (int tries = 0; pool_.size() == before && tries < 50; ++tries) attempt();
    for (size_t i = before; i < pool_.size(); ++i) graph_->outputs.push_back({recorder_.value_of(pool_[i].t), {}, -1});
  }
  return std::move(graph_);
}

std::string RandomGenerator::name() {
  static const std::vector<std::string> names = {"i0",  "i1",   "i2",     "r0",   "r1",    "r2",    "v0",       "v1",  "v3",   "u0",
                                                 "s0",  "part", "within", "half", "pixel", "copy0", "n0",       "n1",  "b0",   "m",
                                                 "e",   "max",  "params", "bufs", "int",   "for",   "none",     "f32", "dim0", "size0",
                                                 "idx", "",     " ",      "a-b",  "größe", "x * 2", "*/ '\\\n", "x0",  "%0"};
  return names[names_() % names.size()];
}

Expr RandomGenerator::new_size(int64_t least) {
  std::string own = name();
  while (graph_->find_symbol(own)) own += "_";
  const Expr e = sym::symbol(own, least, 16);
  graph_->symbols.push_back({e, false});
  return e;
}

// One position of each of some dimensions, so that passes have something to leave out.
Tensor RandomGenerator::a_row_of(Tensor t) {
  bool open = false;  // sizes that only the run tells
  for (auto& e : sizes_of(t)) sym::for_each_symbol(e, [&](const Expr& s) { open = open || graph_->find_symbol(s.node()->name)->unbacked; });
  if (open) return t;
  for (int64_t d = 0; d < t.dim(); ++d) {
    const auto size = sizes_of(t)[static_cast<size_t>(d)].maybe_constant();
    if (!size || *size < 2 || chance(2)) continue;
    const int64_t at = pick(*size);
    t = ops::call1("slice.Tensor", {t, Expr(d), Expr(at), Expr(at + 1)});
  }
  return t;
}

// What an operation refuses is left out again, together with the inputs, symbols and guards that it asked for.
void RandomGenerator::attempt() {
  size_t nodes = graph_->nodes.size(), guards = graph_->guards.size(), inputs = graph_->inputs.size(), symbols = graph_->symbols.size(),
         pooled = pool_.size(), last = last_.size();
  try {
    auto made = (this->*one_of(families_))();
    bool fine = !(is_region_ && graph_->inputs.size() > inputs);
    for (size_t i = guards; i < graph_->guards.size(); ++i)  // most sizes satisfy what is no equation
      fine = fine && graph_->guards[i].is_requirement() && graph_->guards[i].rel != sym::Rel::Eq;
    for (auto& d : made) fine = fine && d.t.defined() && d.t.dim() <= 5;
    for (auto& d : made)
      if (auto n = numel(sizes_of(d.t)).maybe_constant()) fine = fine && *n <= 20000;
    // A write may want a view before it to be decided, which open sizes refuse.
    if (fine && std::any_of(graph_->nodes.begin() + static_cast<std::ptrdiff_t>(nodes), graph_->nodes.end(),
                            [](auto& n) { return is_mutating(*n->op); }))
      functionalize(*graph_);
    if (fine) {
      pool_.insert(pool_.end(), made.begin(), made.end());
      return;
    }
  } catch (const UserError&) {
  }
  graph_->guards.resize(guards);
  graph_->nodes.resize(nodes);  // nothing but this attempt reads them
  graph_->inputs.resize(inputs);
  graph_->symbols.resize(symbols);
  pool_.resize(pooled);
  last_.resize(last);
  drop_lost_values();
}

void RandomGenerator::drop_lost_values() {
  std::set<const Value*> kept;
  for (auto& in : graph_->inputs) kept.insert(in.value);
  for (auto& n : graph_->nodes) kept.insert(n->results.begin(), n->results.end());
  graph_->keep_values(kept);
}

DType RandomGenerator::dtype() {
  static const std::vector<DType>& kinds = *new std::vector<DType>{DType::F32,  DType::F32, DType::F32, DType::F32, DType::F64, DType::F16,
                                                                   DType::BF16, DType::I64, DType::I32, DType::U8,  DType::Bool};
  const DType t = options_.mixed_dtypes ? one_of(kinds) : DType::F32;
  return options_.doubles && is_float(t) ? DType::F64 : t;
}

DType RandomGenerator::float_dtype() {
  DType t = dtype();
  return is_float(t) ? t : DType::F32;
}

Drawn RandomGenerator::fresh_input(DType t, const Exprs& sizes, InputKind kind) {
  if (options_.doubles && is_float(t)) t = DType::F64;
  bool wild = wild_ && kind == InputKind::User && is_float(t) && chance(2);
  std::string name = kind == InputKind::Parameter ? "weight" : wild ? "wild" : "x";
  name += std::to_string(graph_->inputs.size());
  Value* v = graph_->add_input({t, sizes, {}}, kind, kind == InputKind::User && !wild && names_() % 2 ? this->name() : name);
  graph_->inputs.back().name = v->name;
  if (kind == InputKind::Parameter) fill_parameters(*graph_);
  Drawn d = exact(recorder_.proxy(v), is_bool(t) ? 1 : 2, is_float(t) ? 0.125 : 1, wild);
  d.writable = kind == InputKind::User;
  return d;
}

RandomGenerator::Exprs RandomGenerator::sizes_of(const Tensor& t) {
  Exprs out;
  for (auto& s : t.sym_sizes()) out.push_back(s.expr());
  return out;
}

Expr RandomGenerator::numel(const Exprs& sizes) {
  Expr n = 1;
  for (auto& s : sizes) n = n * s;
  return n;
}

RandomGenerator::Exprs RandomGenerator::some_dims(int64_t rank) {
  Exprs dims;
  for (int64_t d = 0; d < rank; ++d)
    if (chance(2)) dims.push_back(chance(3) ? d - rank : d);
  if (dims.empty() && !(options_.degenerate && chance(8))) dims.push_back(some_dim(rank));
  return dims;
}

Drawn RandomGenerator::rough(Tensor t, bool wild) {
  Drawn d{.t = std::move(t)};
  d.wild = wild;
  d.group = groups_++;
  return d;
}

Drawn RandomGenerator::exact(Tensor t, double bound, double grain, bool wild) {
  Drawn d = rough(std::move(t), wild);
  if (!is_float(d.t.dtype())) grain = 1;
  d.exact = fits(d.t.dtype(), bound, grain);
  if (!d.exact && !is_float(d.t.dtype())) fail<UserError>("the values might not fit into the dtype");
  d.bound = bound;
  d.grain = grain;
  return d;
}

Drawn RandomGenerator::derived(Tensor t, std::initializer_list<const Drawn*> from, double bound, double grain) {
  bool all = true, wild = false;
  for (auto* d : from) all = all && d->exact, wild = wild || d->wild;
  return all ? exact(std::move(t), bound, grain, wild) : rough(std::move(t), wild);
}

Drawn RandomGenerator::view_of(Tensor t, const Drawn& of, bool writable) {
  Drawn d = of;
  d.t = std::move(t);
  d.writable = of.writable && writable;
  return d;
}

Drawn RandomGenerator::cast_to(const Drawn& x, DType t) {
  if (options_.doubles && is_float(t)) t = DType::F64;
  // A number becomes an integer by a jump, and a huge one or NaN by no rule at all.
  if (!is_float(t) && (!x.exact || (x.wild && !is_bool(t)))) fail<UserError>("only exact numbers become integers");
  if (t == DType::U8 && x.t.dtype() != DType::Bool && x.t.dtype() != DType::U8) fail<UserError>("might be negative");
  return derived(ops::call1("_to_copy", {x.t, t}), {&x}, is_bool(t) ? 1 : x.bound, is_float(t) ? x.grain : 1);
}

Drawn RandomGenerator::as_float(const Drawn& x) { return is_float(x.t.dtype()) ? x : cast_to(x, DType::F32); }

Drawn RandomGenerator::tame(const Drawn& x) { return x.wild ? rough(ops::call1("nan_to_num", {x.t, 0.0, 1.0, -1.0})) : x; }

Drawn RandomGenerator::any_float() { return as_float(any()); }
Drawn RandomGenerator::any_tame() { return tame(any_float()); }

Drawn RandomGenerator::any_exact() {
  for (int i = 0; i < 8; ++i)
    if (const Drawn& d = any(); d.exact) return d;
  fail<UserError>("no exact value was drawn");
}

Drawn RandomGenerator::any_rank(int64_t least, int64_t most) {
  for (int i = 0; i < 8; ++i)
    if (const Drawn& d = any(); d.t.dim() >= least && d.t.dim() <= most) return d;
  fail<UserError>("no value of that rank was drawn");
}

Drawn RandomGenerator::partner(const Drawn& x) {
  auto want = sizes_of(x.t);
  std::vector<const Drawn*> fitting;
  for (auto& d : pool_) {
    auto have = sizes_of(d.t);
    bool fine = true;
    for (size_t k = 0; k < std::min(want.size(), have.size()); ++k) {
      const Expr &a = want[want.size() - 1 - k], &b = have[have.size() - 1 - k];
      fine = fine && (a == b || a == Expr(1) || b == Expr(1));
    }
    if (fine) fitting.push_back(&d);
  }
  return fitting.empty() ? x : *one_of(fitting);
}

Drawn RandomGenerator::bounded(const Drawn& x) {
  const Tensor of = tame(as_float(x)).t;
  return rough(ops::call1(chance(2) ? "tanh" : "sigmoid", {of}));
}

Tensor RandomGenerator::index_into(const Exprs& sizes, const Expr& extent) {
  if (extent == Expr(0) && !(numel(sizes) == Expr(0))) fail<UserError>("nothing can be indexed");
  Tensor raw;
  for (int i = 0; i < 6 && !raw.defined(); ++i)
    if (const Drawn& d = any(); d.exact && !d.wild && sizes_of(d.t) == sizes) raw = cast_to(d, DType::I64).t;
  if (!raw.defined()) {
    Expr n = sizes.empty() ? Expr(1) : sizes.back();
    raw = ops::call1("expand", {ops::call1("add.Tensor", {ops::call1("arange", {n}), static_cast<double>(pick(4))}), sizes});
    if (raw.dtype() != DType::I64) raw = ops::call1("_to_copy", {raw, DType::I64});
  }
  Tensor wrapped = ops::call1("remainder.Scalar", {raw, extent});
  return chance(3) ? ops::call1("sub.Tensor", {wrapped, ops::call1("full", {Exprs{}, extent, DType::I64})}) : wrapped;
}

Tensor RandomGenerator::index_along(const Exprs& sizes, int64_t dim) {
  Exprs own = sizes;
  if (options_.degenerate && chance(3)) {
    if (chance(2)) {  // no index at all may have any rank
      own = {one_of(sizes_), 0, one_of(sizes_)};
      own.resize(static_cast<size_t>(1 + pick(3)));
      if (own.size() == 1) own = {0};
    } else {
      for (size_t d = 0; d < own.size(); ++d) {
        const auto size = own[d].maybe_constant();
        own[d] = static_cast<int64_t>(d) == dim ? one_of(sizes_) : size ? Expr(pick(*size + 1)) : own[d];
      }
    }
  }
  const Expr extent = extent_of(sizes, dim);
  Tensor at = index_into(own, extent);
  return own == sizes ? ops::call1("remainder.Scalar", {at, extent}) : at;
}

Tensor RandomGenerator::mask_of(const Drawn& x) {
  for (int i = 0; i < 6; ++i)
    if (const Drawn& d = any(); d.exact && sizes_of(d.t) == sizes_of(x.t))
      return is_bool(d.t.dtype()) ? d.t : ops::call1("gt.Scalar", {d.t, 0.25});
  if (x.t.dim() == 0) return ops::call1("full", {Exprs{}, true, DType::Bool});
  Tensor line = ops::call1("eq.Scalar", {ops::call1("remainder.Scalar", {ops::call1("arange", {sizes_of(x.t).back()}), Expr(2)}), 0.0});
  return ops::call1("expand", {line, sizes_of(x.t)});
}

// d holds what it held before in one part of its memory, and parts of `result` in the other.
void RandomGenerator::mix(Drawn& d, const Drawn& result) {
  d.wild = d.wild || result.wild;
  d.bound = std::max(d.bound, result.bound);
  d.grain = std::min(d.grain, result.grain);
  d.exact = d.exact && result.exact && fits(d.t.dtype(), d.bound, d.grain);
}

void RandomGenerator::wrote(const Drawn& x, const Drawn& result) {
  for (auto& d : pool_)
    if (d.group == x.group) mix(d, result);
}

std::unique_ptr<Graph> random_graph(uint64_t seed, const RandomGraphOptions& options) { return RandomGenerator(seed, options).run(); }

void fill_parameters(Graph& g) {
  for (auto& in : g.inputs) {
    if (in.kind == InputKind::User || in.data.defined()) continue;
    std::vector<int64_t> sizes;
    for (auto& s : in.value->type.sizes) sizes.push_back(s.constant());
    uint64_t seed = 1469598103934665603ull;
    for (char c : in.name) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    std::mt19937_64 random(seed);
    std::vector<double> values(static_cast<size_t>(product(sizes)));
    for (auto& v : values) v = static_cast<double>(static_cast<int64_t>(random() % 17) - 8) / 8;
    in.data = Tensor::of(values, sizes, in.value->type.dtype);
  }
}

namespace {

// The same elements in other memory: an offset, gaps, and the dimensions in another order.
Tensor scattered(const Tensor& t, std::mt19937_64& random) {
  if (t.dim() == 0 || t.numel() == 0) return t;
  std::vector<size_t> order(static_cast<size_t>(t.dim()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<int64_t> strides(order.size());
  int64_t step = 1 + static_cast<int64_t>(random() % 3), offset = static_cast<int64_t>(random() % 5);
  for (size_t d : order) {
    strides[d] = step;
    step *= t.sizes()[d] + static_cast<int64_t>(random() % 2);
  }
  std::vector<int64_t> extent = {step + offset + 1};
  Tensor memory = Tensor::full(extent, 0, t.dtype());
  Tensor view = memory.as_strided(t.sizes(), strides, offset);
  copy_elements(t, view);
  return view;
}

}  // namespace

std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed, bool strided) {
  std::mt19937_64 random(seed);
  BoundSymbols symbols;
  for (auto& s : g.symbols) {
    if (s.unbacked) continue;
    const sym::Node& n = *s.expr.node();
    symbols.set(n.name, n.lo + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(n.hi - n.lo + 1, 8))));
  }
  std::vector<Tensor> out;
  for (auto& in : g.inputs) {
    if (in.kind != InputKind::User) continue;
    DType t = in.value->type.dtype;
    auto sizes = symbols.values(in.value->type.sizes);
    std::vector<double> values(static_cast<size_t>(product(sizes)));
    for (auto& v : values) {
      auto n = static_cast<int64_t>(random() % 33);
      v = is_bool(t) ? static_cast<double>(n % 2) : t == DType::U8 ? static_cast<double>(n % 3) : static_cast<double>(n - 16) / 8;
      if (!is_float(t)) v = std::floor(v);
      if (in.name.rfind("wild", 0) != 0 || random() % 6) continue;
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      v = n % 3 == 0 ? std::nan("") : n % 3 == 1 ? kInfinity : -kInfinity;
    }
    if (is_bool(t) && in.name.starts_with("bad")) {
      std::fill(values.begin(), values.end(), 0);
      if (!values.empty() && random() % 4) values[random() % values.size()] = 1;
    }
    Tensor made = Tensor::of(values, sizes, t);
    out.push_back(strided && random() % 2 ? scattered(made, random) : made);
  }
  return out;
}

}  // namespace toroid::graph

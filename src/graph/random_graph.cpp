#include "graph/random_graph.h"

#include <algorithm>
#include <random>
#include <set>

#include "base/check.h"
#include "graph/bind.h"
#include "graph/recorder.h"

namespace toroid::graph {
namespace {

using Exprs = std::vector<Expr>;

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : options_(options), random_(seed), graph_(std::make_unique<Graph>()), recorder_(*graph_) {}

  std::unique_ptr<Graph> run() {
    graph_->name = "random";
    if (options_.dynamic_sizes) sizes_.push_back(graph_->new_symbol("s", 2, 16, false));
    DispatchScope scope(recorder_);
    for (int64_t i = 0, n = 1 + pick(3); i < n; ++i) {
      Exprs sizes;
      for (int64_t d = 0, rank = 1 + pick(3); d < rank; ++d) sizes.push_back(one_of(sizes_));
      pool_.push_back(recorder_.proxy(graph_->add_input({dtype(), sizes, {}}, InputKind::User, "x" + std::to_string(i))));
    }
    bind_symbols();
    for (int tries = 0; static_cast<int>(graph_->nodes.size()) < options_.nodes && tries < options_.nodes * 20; ++tries) attempt();
    for (int64_t i = 0, n = 1 + pick(3); i < n; ++i)
      graph_->outputs.push_back(
          {recorder_.value_of(pool_[pool_.size() - 1 - static_cast<size_t>(pick(static_cast<int64_t>(pool_.size())))]), {}, -1});
    graph_->outputs.push_back({recorder_.value_of(pool_.back()), {}, -1});
    return std::move(graph_);
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& one_of(const std::vector<T>& v) {
    return v[static_cast<size_t>(pick(static_cast<int64_t>(v.size())))];
  }
  DType dtype() {
    static const std::vector<DType> kinds = {DType::F32, DType::F32, DType::F32, DType::F64, DType::F16, DType::I64, DType::Bool};
    return options_.mixed_dtypes ? one_of(kinds) : DType::F32;
  }
  // An input whose size is the symbol alone, so that each symbol has a value.
  void bind_symbols() {
    for (auto& s : graph_->symbols)
      pool_.push_back(recorder_.proxy(graph_->add_input({DType::F32, {s.expr}, {}}, InputKind::User, "sized")));
  }

  static Exprs sizes_of(const Tensor& t) {
    Exprs out;
    for (auto& s : t.sym_sizes()) out.push_back(s.expr());
    return out;
  }
  const Tensor& any() { return one_of(pool_); }
  Tensor any_float() {
    const Tensor& t = any();
    return is_float(t.dtype()) ? t : ops::call1("_to_copy", {t, DType::F32});
  }

  // What an operation refuses is left out again, together with the guards that it asked for.
  void attempt() {
    size_t nodes = graph_->nodes.size(), guards = graph_->guards.size();
    try {
      Tensor t = step();
      if (!t.defined()) return;
      if (graph_->guards.size() == guards && t.dim() <= 5) {
        pool_.push_back(t);
        return;
      }
    } catch (const UserError&) {
    }
    graph_->guards.resize(guards);
    // Only nodes made by this attempt go: nothing else reads them.
    graph_->nodes.resize(nodes);
    drop_lost_values();
  }
  void drop_lost_values() {
    std::set<const Value*> kept;
    for (auto& in : graph_->inputs) kept.insert(in.value);
    for (auto& n : graph_->nodes) kept.insert(n->results.begin(), n->results.end());
    std::erase_if(graph_->values, [&](auto& v) { return !kept.count(v.get()); });
    for (size_t i = 0; i < graph_->values.size(); ++i) graph_->values[i]->id = static_cast<int>(i);
  }

  Tensor step() {
    switch (pick(options_.in_place ? 9 : 8)) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
        return reduction();
      case 5:
      case 6:
        return view();
      case 7:
        return pick(2) ? ops::call1("_to_copy", {any(), dtype()}) : product();
      default:
        return in_place();
    }
  }

  Tensor unary() {
    static const std::vector<const char*> names = {"relu", "neg", "abs", "sigmoid", "tanh", "sin", "cos", "square", "sign", "floor"};
    Tensor x = any_float();
    const char* name = one_of(names);
    return ops::call1(name, {name == std::string_view("square") ? ops::call1("tanh", {x}) : x});
  }

  Tensor binary() {
    static const std::vector<const char*> names = {"add.Tensor", "sub.Tensor", "mul.Tensor", "maximum", "minimum"};
    static const std::vector<const char*> compares = {"lt.Tensor", "eq.Tensor", "ge.Tensor"};
    Tensor a = any(), b = any();
    int64_t kind = pick(6);
    if (kind == 0) return ops::call1(one_of(compares), {a, b});
    if (kind == 1) return ops::call1("where.self", {ops::call1("gt.Scalar", {any_float(), 0.25}), a, b});
    if (kind == 2) return ops::call1(pick(2) ? "add.Tensor" : "mul.Tensor", {any_float(), 0.5});
    const char* name = one_of(names);
    if (is_bool(a.dtype()) && is_bool(b.dtype())) b = ops::call1("_to_copy", {b, DType::F32});
    // Products are kept in bounds.
    if (name == std::string_view("mul.Tensor")) a = ops::call1("sigmoid", {any_float()});
    return ops::call1(name, {a, b});
  }

  Tensor reduction() {
    Tensor x = any_float();
    if (x.dim() == 0) return {};
    bool keep = pick(2) != 0;
    Exprs dims;
    for (int64_t d = 0; d < x.dim(); ++d)
      if (pick(2)) dims.push_back(d);
    if (dims.empty()) dims.push_back(pick(x.dim()));
    switch (pick(4)) {
      case 0:
        return ops::call1("sum.dim_IntList", {ops::call1("sigmoid", {x}), dims, keep});
      case 1:
        return ops::call1("mean.dim", {x, dims, keep});
      case 2:
        return ops::call1("amax", {x, dims, keep});
      default:
        return ops::call1("amin", {x, dims, keep});
    }
  }

  Tensor view() {
    const Tensor x = any();
    Exprs sizes = sizes_of(x);
    int64_t rank = x.dim();
    if (pick(5) == 0 || rank == 0) return mark(ops::call1("unsqueeze", {x, Expr(pick(rank + 1))}), x);
    int64_t d = pick(rank);
    switch (pick(7)) {
      case 0: {
        std::vector<int64_t> order(static_cast<size_t>(rank));
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        std::shuffle(order.begin(), order.end(), random_);
        return mark(ops::call1("permute", {x, Exprs(order.begin(), order.end())}), x);
      }
      case 1:
        return is_shared(x) ? Tensor() : mark(ops::call1("reshape", {x, Exprs{x.dim() ? numel(sizes) : Expr(1)}}), x);
      case 2:
        return mark(ops::call1("select.int", {x, Expr(d), Expr(0)}), x);
      case 3:
        return mark(ops::call1("slice.Tensor", {x, Expr(d), Expr(pick(2)), std::monostate{}, Expr(1 + pick(2))}), x);
      case 4: {
        Exprs wide = sizes;
        wide.insert(wide.begin(), one_of(sizes_));
        Tensor t = ops::call1("expand", {x, wide});
        shared_.insert(recorder_.value_of(t)->name);
        return t;
      }
      case 5:
        return ops::call1("cat", {std::vector<Tensor>{x, x}, Expr(d)});
      default:
        return mark(ops::call("chunk", {x, Expr(1 + pick(2)), Expr(d)}).back(), x);
    }
  }
  static Expr numel(const Exprs& sizes) {
    Expr n = 1;
    for (auto& s : sizes) n = n * s;
    return n;
  }
  bool is_shared(const Tensor& t) { return shared_.count(recorder_.value_of(t)->name) > 0; }
  // Views of tensors whose elements share memory cannot be written either.
  Tensor mark(const Tensor& view, const Tensor& of) {
    if (is_shared(of)) shared_.insert(recorder_.value_of(view)->name);
    return view;
  }

  Tensor product() {
    Tensor x = any_float();
    if (x.dim() != 2) return {};
    Tensor y = ops::call1("permute", {ops::call1("sigmoid", {x}), Exprs{1, 0}});
    return ops::call1("mm", {ops::call1("tanh", {x}), y});
  }

  Tensor in_place() {
    const Tensor x = any();
    if (!is_float(x.dtype()) || is_shared(x)) return {};
    switch (pick(4)) {
      case 0:
        return ops::call1("add_.Tensor", {x, 0.5});
      case 1:
        return ops::call1("mul_.Tensor", {x, -0.5});
      case 2:
        return ops::call1("tanh_", {x});
      default: {
        Tensor y = any_float();
        return sizes_of(y) == sizes_of(x) ? ops::call1("copy_", {x, y}) : Tensor();
      }
    }
  }

  RandomGraphOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<Graph> graph_;
  Recorder recorder_;
  Exprs sizes_ = {1, 2, 3, 4, 7};
  std::vector<Tensor> pool_;
  std::set<std::string> shared_;  // names of values whose elements share memory
};

}  // namespace

std::unique_ptr<Graph> random_graph(uint64_t seed, const RandomGraphOptions& options) { return Generator(seed, options).run(); }

std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed) {
  std::mt19937_64 random(seed);
  BoundSymbols symbols;
  for (auto& s : g.symbols) {
    const sym::Node& n = *s.expr.node();
    symbols.set(n.name, n.lo + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min<int64_t>(n.hi - n.lo + 1, 8))));
  }
  std::vector<Tensor> out;
  for (auto& in : g.inputs) {
    if (in.kind != InputKind::User) continue;
    auto sizes = symbols.values(in.value->type.sizes);
    std::vector<double> values(static_cast<size_t>(product(sizes)));
    for (auto& v : values) v = static_cast<double>(static_cast<int64_t>(random() % 33) - 16) / 8;
    out.push_back(Tensor::of(values, sizes, in.value->type.dtype));
  }
  return out;
}

}  // namespace toroid::graph

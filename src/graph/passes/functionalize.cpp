#include <algorithm>
#include <deque>
#include <set>
#include <unordered_set>

#include "base/check.h"
#include "base/mutants.h"
#include "graph/custom.h"
#include "graph/decided_views.h"
#include "graph/known_sizes.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"
#include "graph/sharing.h"
#include "graph/writes.h"
#include "ops/custom_marks.h"
#include "ops/opaque.h"
#include "ops/strided_view.h"

namespace toroid::graph {
namespace {

// A tensor of the old program: memory of its own (no parent), or a view of the parent's memory. `value` is its contents as of
// `generation`; it is stale once the root's generation has moved on, and then read() makes it anew from the parent.
// Most are results of nodes that are copied as they are, and written by nobody: their tensors are made when someone asks.
using ViewCall = std::pair<int, int>;  // the node that calls it, and which of the node's such calls it is
struct Slot {
  Slot* parent = nullptr;
  Slot* root = nullptr;
  const ops::Op* view = nullptr;
  CallArgs view_args;  // without the tensor
  size_t view_result = 0;
  const Value* copied = nullptr;  // the old value whose copy is the first contents, until `value` is set
  Tensor value, handle;
  int generation = 0;
  Slot* maybe_of = nullptr;                  // roots: what this is a view of at some sizes, and a copy at others
  ViewCall call = {};                        // of such a root
  int input = -1;                            // roots: the graph input whose memory it is
  bool dense = false;                        // the strides are those of its sizes
  std::optional<std::vector<Expr>> strides;  // nullopt: not expressible
  std::string where;
};

bool is_row_major(const std::vector<Expr>& sizes, const std::optional<std::vector<Expr>>& strides) {
  if (!strides) return false;
  Expr step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (!(sizes[d] == Expr(1)) && !((*strides)[d] == step)) return false;
    step = step * sizes[d];
  }
  return true;
}

// Views where the layout allows it, copies elsewhere.
bool may_copy(const ops::Op& op) {
  static const std::set<std::string_view>& names = *new std::set<std::string_view>{"contiguous", "reshape", "flatten.using_ints", "view"};
  return names.count(op.name) > 0;
}
bool is_expand(const ops::Op& op) { return op.name == "expand" || op.name == "broadcast_to"; }

// Batch normalisation that updates its running statistics.
bool updates_statistics(const ops::Op& op) {
  static const std::set<std::string_view>& names =
      *new std::set<std::string_view>{"batch_norm", "native_batch_norm", "_native_batch_norm_legit"};
  return names.count(op.name) > 0;
}
template <class T>
bool updates_statistics(const ops::Op& op, const std::vector<Arg<T>>& args) {
  if (!updates_statistics(op)) return false;
  auto at = [&](const char* name) -> const Arg<T>& { return args[static_cast<size_t>(op.schema.find(name))]; };
  auto* training = std::get_if<bool>(&at("training"));
  return training && *training && std::holds_alternative<T>(at("running_mean")) && std::holds_alternative<T>(at("running_var"));
}

using Decide = std::function<bool(const sym::Relation&, const std::string& place)>;

class Functionalizer : public Dispatcher {
 public:
  // decided: the calls of views that are copies at some sizes, of which it must be known what they are, as what they share is written.
  // Without `decide` that is an error. Both outlive this.
  Functionalizer(const Graph& g, const std::set<ViewCall>& decided, const Decide& decide)
      : old_(g), out_(g), at_(g.values.size()), decided_(decided), decide_(decide) {
    for (size_t i = 0; i < g.inputs.size(); ++i) {
      Slot& s = add_copied(g.inputs[i].value);
      s.input = static_cast<int>(i);
      if (const auto& strides = g.inputs[i].value->type.strides; !strides.empty()) s.dense = false, s.strides = strides;
    }
  }

  std::unique_ptr<Graph> run() {
    for (auto& n : old_.nodes) {
      where_ = n->where;
      call_ = {call_.first + 1, 0};
      out_.recorder().stand_in_for(*n);
      record(*n);
    }
    auto outputs = std::vector<Output>();
    std::unordered_set<int> has_explicit;
    for (auto& o : old_.outputs) has_explicit.insert(o.mutates);
    for (auto& s : slots_)
      if (s.input >= 0 && s.generation > 0 && !has_explicit.count(s.input)) outputs.push_back({value_of(s.value), {}, s.input});
    for (auto& o : old_.outputs) outputs.push_back({o.value ? value_of(read(slot(o.value))) : nullptr, o.literal, o.mutates});
    out_.graph().outputs = std::move(outputs);
    return out_.finish_without_outputs();
  }

  // Calls that must be decided, too.
  const std::set<ViewCall>& undecided() const { return undecided_; }

  // Called for nodes, and for the parts of composites whose results share memory with their arguments.
  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    if (ops::is_opaque(op)) return opaque(op, args, where);
    if (ops::is_custom(op)) return custom(op, args, where);
    if (is_mutating(op)) return {mutate(op, std::move(args), where)};
    if (updates_statistics(op, args)) return update_statistics(op, std::move(args), where);
    if (is_alias_view(op)) return view(op, args, where);
    if (op.decompose && shares_memory(op, args)) {
      DispatchScope scope(*this);
      return op.decompose(ops::CallReader(op, args));
    }
    std::vector<Tensor> out;
    for (auto& r : record(op, args, where)) out.push_back(add_root(r));
    return out;
  }
  bool decide(const sym::Relation& r) override { return out_.recorder().decide(r); }
  void require(const sym::Relation& r, const std::string& error) override { out_.recorder().require(r, error); }
  int64_t specialize(const Expr& e) override { return out_.recorder().specialize(e); }
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override { out_.recorder().read(t, what, where); }
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }

 private:
  // Handles are tensors whose proxy is a slot; those of the recorder stand for values of the new graph.
  static Slot& slot(const Tensor& handle) { return *static_cast<Slot*>(handle.impl()->proxy); }
  Slot& slot(const Value* old) { return *at_[static_cast<size_t>(old->id)]; }
  Tensor handle_of(Slot& s) {
    if (s.handle.defined()) return s.handle;
    auto impl = std::make_shared<TensorImpl>();
    impl->dtype = value_in(s).dtype();
    impl->sym_sizes = sizes_of(s);
    impl->proxy = &s;
    return s.handle = Tensor(std::move(impl));
  }
  const Tensor& value_in(Slot& s) {
    if (!s.value.defined()) s.value = out_.at(s.copied);
    return s.value;
  }
  std::vector<Expr> sizes_of(Slot& s) {
    const TensorImpl& impl = *value_in(s).impl();
    if (impl.proxy) return impl.sym_sizes;
    return {impl.sizes.begin(), impl.sizes.end()};
  }
  const std::optional<std::vector<Expr>>& strides_of(Slot& s) {
    if (s.dense) s.strides = ops::row_major_strides(sizes_of(s)), s.dense = false;
    return s.strides;
  }
  Value* value_of(const Tensor& recorded) { return out_.recorder().value_of(recorded); }

  Tensor add_root(const Tensor& value) {
    Slot& s = slots_.emplace_back();
    s.root = &s;
    s.value = value;
    s.dense = true;
    s.where = where_;
    return handle_of(s);
  }
  // A root whose first contents are what the new graph has of an old value.
  Slot& add_copied(const Value* old) {
    Slot& s = slots_.emplace_back();
    s.root = &s;
    s.copied = old;
    s.dense = true;
    s.where = where_;
    return *(at_[static_cast<size_t>(old->id)] = &s);
  }

  std::vector<Tensor> record(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
    return out_.recorder().call(op, map_args(args), where);
  }
  CallArgs map_args(const CallArgs& args) {
    CallArgs out;
    for (auto& a : args) out.push_back(map_arg<Tensor>(a, [&](const Tensor& t) { return is_proxy(t) ? read(slot(t)) : t; }));
    return out;
  }

  void record(const Node& n) {
    bool plain = !ops::is_registered(*n.op) && !is_mutating(*n.op) && !updates_statistics(*n.op, n.args) && !is_alias_view(*n.op);
    CallArgs args;
    if (!plain || n.op->decompose)
      for (auto& a : n.args) args.push_back(map_arg<Tensor>(a, [&](Value* v) { return v ? handle_of(slot(v)) : Tensor(); }));
    if (plain && !(n.op->decompose && shares_memory(*n.op, args))) {
      for_each_operand(n, [&](Value* v) {
        Slot& s = slot(v);
        if (s.copied != v || s.generation > 0) out_.set(v, read(s));
      });
      out_.copy(n);
      for (auto* r : n.results) add_copied(r);
      return;
    }
    auto results = call(*n.op, std::move(args), std::source_location::current());
    for (size_t i = 0; i < n.results.size(); ++i) {
      const Tensor& t = results.at(i);
      at_[static_cast<size_t>(n.results[i]->id)] = &slot(is_proxy(t) ? t : add_root(t));
    }
  }

  const Tensor& read(Slot& s) {
    if (s.generation == s.root->generation || mutant(Mutant::StaleView)) return value_in(s);
    CallArgs args = s.view_args;
    args[0] = read(*s.parent);
    s.value = out_.recorder().call(*s.view, std::move(args), std::source_location::current()).at(s.view_result);
    s.generation = s.root->generation;
    return s.value;
  }

  // Overwrites what s stands for, in it and in everything it is a view of. detached: through a view outside of differentiation, so that the
  // gradient goes where it went before.
  void write(Slot& s, Tensor value, bool detached = false) {
    if (detached && (is_float(value.dtype()) || is_complex(value.dtype())))
      value = out_.recorder().call(ops::get("prims.with_history"), {read(s), value}, std::source_location::current()).at(0);
    if (s.parent && is_expand(*s.view)) {
      // All elements at one place have one value where they are written at once: another write to some of them has none to show.
      TOROID_USER_CHECK(&s == written_,
                        "{}: a part of a tensor made by {} ({}) is written in place, but its elements share memory; clone it first", where_,
                        s.view->name, s.where);
      write(*s.parent, unexpanded(value, sizes_of(*s.parent)), detached);
    } else if (s.parent) {
      TOROID_USER_CHECK(s.view->write_back, "{}: a tensor made by {} ({}) is written in place, which is not supported; clone it first",
                        where_, s.view->name, s.where);
      CallArgs args = s.view_args;
      args[0] = read(*s.parent);
      write(*s.parent, s.view->write_back(ops::CallReader(*s.view, args), s.view_result, value), detached || s.view->name == "detach");
    } else {
      ++s.generation;
      note_written(s);
    }
    s.value = value;
    s.generation = s.root->generation;
  }

  // The first of the elements that are at one place.
  Tensor unexpanded(Tensor value, const std::vector<Expr>& sizes) {
    while (value.dim() > static_cast<int64_t>(sizes.size())) value = ops::call1("select.int", {value, Expr(0), Expr(0)});
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == Expr(1) && !(value.size(static_cast<int64_t>(d)) == SymInt(1)))
        value = ops::call1("slice.Tensor", {value, Expr(static_cast<int64_t>(d)), Expr(0), Expr(1), Expr(1)});
    return value;
  }

  // Of all memory that may be this one, it must be known whether it is.
  void note_written(const Slot& root) {
    std::set<const Slot*> reached = {&root};
    for (size_t before = 0; before != reached.size();) {
      before = reached.size();
      for (const Slot* s : maybe_views_) {
        if (!reached.count(s) && !reached.count(s->maybe_of->root)) continue;
        reached.insert(s), reached.insert(s->maybe_of->root);
        undecided_.insert(s->call);
      }
    }
  }

  Tensor mutate(const ops::Op& op, CallArgs args, const std::source_location& where) {
    const ops::Op* functional = op.inplace_of;
    if (!functional) {
      size_t dot = op.name.find('.');
      std::string stem = op.name.substr(0, dot);
      if (stem.ends_with("_"))
        functional = ops::table().find(stem.substr(0, stem.size() - 1) + (dot == std::string::npos ? "" : op.name.substr(dot)));
      TOROID_USER_CHECK(functional, "{}: the in-place operation {} has no functional form", where_, op.name);
    }
    Tensor self = std::get<Tensor>(args.at(0));
    TOROID_USER_CHECK(is_proxy(self), "{}: {} writes to a tensor that a custom operation captures; make it an argument", where_, op.name);
    Tensor result = record(*functional, args, where).at(0);
    store(slot(self), result, op);
    return self;
  }

  void store(Slot& target, Tensor result, const ops::Op& op) {
    DispatchScope scope(out_.recorder());  // where parts of composites are recorded, calls come here otherwise
    auto sizes = sizes_of(target);
    const auto& strides = strides_of(target);
    if (strides && elements_overlap(sizes, *strides) && !writes_one_value(op))
      fail<UserError>("{}: {}", where_, fmt::format(kOverlapError, ops::plain_name(op)));
    bool fits = result.dim() == static_cast<int64_t>(sizes.size());
    for (size_t d = 0; fits && d < sizes.size(); ++d) fits = result.size(static_cast<int64_t>(d)) == SymInt(sizes[d]);
    TOROID_USER_CHECK(fits, "{}: {} gives {}, which does not fit into the {} that it is to be written to", where_, op.name,
                      to_string(result), to_string(value_in(target)));
    if (const DType own = value_in(target).dtype(); result.dtype() != own) result = ops::call1("_to_copy", {result, own});
    written_ = &target;
    write(target, result);
  }

  std::vector<Tensor> update_statistics(const ops::Op& op, CallArgs args, const std::source_location& where) {
    const ops::Op& functional = ops::get("_native_batch_norm_legit_functional");
    CallArgs given;
    for (auto& p : functional.schema.params) given.push_back(args[static_cast<size_t>(op.schema.find(p.name))]);
    auto results = record(functional, given, where);
    auto target = [&](const char* name) -> Slot& { return slot(std::get<Tensor>(args[static_cast<size_t>(op.schema.find(name))])); };
    // No gradient goes through what is kept between batches.
    const auto kept = [&](size_t i) { return out_.recorder().call(ops::get("detach"), {results.at(i)}, where).at(0); };
    store(target("running_mean"), kept(3), op);
    store(target("running_var"), kept(4), op);
    results.resize(op.schema.returns.size());
    for (auto& r : results) r = add_root(r);
    return results;
  }

  // Whether the operation writes to memory that it has by another argument too: its function sees the writes there.
  static bool writes_shared_memory(const ops::Op& op, const CallArgs& args) {
    std::multiset<const Slot*> owners;
    for (auto& a : args)
      map_arg<int>(a, [&](const Tensor& t) {
        if (is_proxy(t)) owners.insert(slot(t).root);
        return 0;
      });
    const auto written = ops::written_arguments(op);
    return std::any_of(written.begin(), written.end(), [&](size_t i) {
      const Tensor& t = std::get<Tensor>(args[i]);
      return is_proxy(t) && owners.count(slot(t).root) > 1;
    });
  }

  // Its parts, or, when it stays whole, its functional form and the writes.
  std::vector<Tensor> custom(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
    const bool shared = writes_shared_memory(op, args);
    if (shared && ops::is_tuned(op)) note_no_choices(op, "it writes to memory that is another argument's too");
    if (shared || !(ops::has_own_gradient(op) || stays_whole(out_.graph(), op, map_args(args)))) {
      DispatchScope scope(*this);
      return op.decompose(ops::CallReader(op, args));
    }
    return opaque(op, args, where);
  }

  // As one node: its functional form and the writes.
  std::vector<Tensor> opaque(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
    auto results = record(ops::functional_form(op), args, where);
    size_t next = op.schema.returns.size();
    if (ops::writes_arguments(op))
      for (size_t i : ops::written_arguments(op)) {
        const Tensor& target = std::get<Tensor>(args[i]);
        TOROID_USER_CHECK(is_proxy(target), "{}: {} writes to a tensor that a custom operation captures; make it an argument", where_,
                          op.name);
        store(slot(target), results.at(next++), op);
      }
    results.resize(op.schema.returns.size());
    return as_roots(std::move(results));
  }

  std::vector<Tensor> view(const ops::Op& op, const CallArgs& args, const std::source_location& where) {
    const Tensor& source = std::get<Tensor>(args.at(0));
    if (!is_proxy(source)) return as_roots(record(op, args, where));
    Slot& parent = slot(source);
    bool row_major = parent.dense || is_row_major(sizes_of(parent), parent.strides);
    if (op.name == "contiguous" && row_major) return {source};
    auto results = record(op, args, where);
    ops::ViewLayout layout;
    if (may_copy(op) && !row_major) {
      const ViewCall call = {call_.first, call_.second++};
      layout = layout_of(op, parent, results[0], call);
      if (layout.sharing == ops::Sharing::Unknown && op.name == "view" && decided_.count(call)) layout.sharing = ops::Sharing::View;
      if (op.name == "contiguous" && layout.sharing == ops::Sharing::View) return {source};
      if (layout.sharing != ops::Sharing::View) {
        auto copies = as_roots(results);
        if (layout.sharing == ops::Sharing::Unknown) {
          Slot& s = slot(copies[0]);
          s.maybe_of = &parent;
          s.call = call;
          maybe_views_.push_back(&s);
        }
        return copies;
      }
    }
    if (is_expand(op) && results[0].sym_sizes().size() == source.sym_sizes().size() && value_of(results[0])->type.sizes == sizes_of(parent))
      return {source};
    std::vector<Tensor> out;
    for (size_t i = 0; i < results.size(); ++i) {
      auto strides =
          may_copy(op) && !row_major ? std::optional(std::move(layout.strides)) : view_strides(op, args, parent, i, results[i], row_major);
      if (strides && strides->size() != results[i].sym_sizes().size()) strides.reset();
      Slot& s = slots_.emplace_back();
      s.parent = &parent;
      s.root = parent.root;
      s.view = &op;
      s.view_args = args;
      s.view_args[0] = std::monostate{};
      s.view_result = i;
      s.value = results[i];
      s.generation = s.root->generation;
      s.strides = std::move(strides);
      s.where = where_;
      out.push_back(handle_of(s));
    }
    return out;
  }
  std::vector<Tensor> as_roots(std::vector<Tensor> results) {
    for (auto& r : results) r = add_root(r);
    return results;
  }

  // Of what may be a copy. Where the strides of the parent cannot be written down, nobody knows.
  ops::ViewLayout layout_of(const ops::Op& op, Slot& parent, const Tensor& result, const ViewCall& call) {
    const auto& strides = strides_of(parent);
    const std::string place = fmt::format("{} ({})", op.name, where_);
    const bool must_know = decided_.count(call) > 0;
    const ops::Ask ask = [&](const sym::Relation& r) -> std::optional<bool> {
      if (const auto k = known_by_guards(out_.graph().guards, r)) return k;
      if (!must_know || !decide_) return std::nullopt;
      const bool truth = decide_(r, place);
      out_.graph().guards.push_back(truth ? r : opposite(r));
      return truth;
    };
    std::vector<Expr> sizes;
    for (auto& s : result.sym_sizes()) sizes.push_back(s.expr());
    ops::ViewLayout layout = !strides                  ? ops::ViewLayout{}
                             : op.name == "contiguous" ? ops::ViewLayout{ops::contiguous_sharing(sizes, *strides, ask)}
                                                       : ops::reshaped_layout(sizes_of(parent), *strides, sizes, ask);
    if (layout.sharing != ops::Sharing::Unknown || !must_know || op.name == "view") return layout;
    fail<UserError>(
        "{} ({}): whether this is a view of {} or a copy depends on the open sizes, and one of both is written later, so that no program is "
        "right for all sizes. Fix the sizes that are named (without mark_dynamic), write before this operation, or clone() its operand first",
        op.name, where_, to_string(value_in(parent)));
  }

  // Strides of a view in the memory of its root, where they can be written down.
  std::optional<std::vector<Expr>> view_strides(const ops::Op& op, const CallArgs& args, Slot& parent, size_t result, const Tensor& t,
                                                bool row_major) {
    std::vector<Expr> sizes;
    for (auto& s : t.sym_sizes()) sizes.push_back(s.expr());
    static const std::set<std::string_view>& keep_order =
        *new std::set<std::string_view>{"view",    "reshape",     "flatten.using_ints", "unflatten.int", "unsqueeze",
                                        "squeeze", "squeeze.dim", "squeeze.dims",       "view_as_real",  "view_as_complex"};
    if (row_major && keep_order.count(op.name)) return ops::row_major_strides(sizes);
    if (op.name == "as_strided") return ops::CallReader(op, args).exprs("stride");
    if (!strides_of(parent) || !op.index_map) return std::nullopt;
    TensorType type{value_in(parent).dtype(), sizes_of(parent), {}};
    std::vector<Arg<const TensorType*>> types;
    for (auto& a : args) types.push_back(map_arg<const TensorType*>(a, [&](const Tensor&) -> const TensorType* { return &type; }));
    std::vector<Expr> index;
    for (size_t d = 0; d < sizes.size(); ++d) index.push_back(sym::loop_symbol("i" + std::to_string(d), sizes[d]));
    auto from = op.index_map(ops::TypeReader(op, types), result, index);
    Expr flat = 0;
    for (size_t d = 0; d < from.size(); ++d) flat = flat + from[d] * (*parent.strides)[d];
    std::vector<Expr> strides;
    for (auto& i : index) {
      auto c = sym::linear_coefficient(flat, i);
      if (!c) return std::nullopt;
      strides.push_back(*c);
    }
    return strides;
  }

  // Some result of the composite is (a view of) an argument, or a part of it writes in place.
  bool shares_memory(const ops::Op& op, const CallArgs& args) {
    const auto append_type = [](const Tensor& t, const auto& append) -> std::optional<DType> {
      if (!is_proxy(t)) return std::nullopt;
      const auto& sizes = t.impl()->sym_sizes;
      append(static_cast<int64_t>(sizes.size()));
      return std::all_of(sizes.begin(), sizes.end(), append) ? std::optional(t.dtype()) : std::nullopt;
    };
    std::optional<CallKey> key;
    if (!ops::is_registered(op) && shares_equal_work()) key = CallKey::of(op, args, append_type);
    if (!key) return parts_share_memory(op, args);
    if (const auto known = shares_memory_.find(*key); known != shares_memory_.end()) return known->second;
    return shares_memory_[std::move(*key)] = parts_share_memory(op, args);
  }
  bool parts_share_memory(const ops::Op& op, const CallArgs& args) {
    Graph scratch;
    scratch.symbols = out_.graph().symbols;
    scratch.guards = out_.graph().guards;
    Recorder aside(scratch);
    aside.set_expand_composites(true);
    CallArgs stand_ins;
    for (auto& a : args)
      stand_ins.push_back(map_arg<Tensor>(a, [&](const Tensor& t) -> Tensor {
        if (!is_proxy(t)) return t;
        return aside.proxy(scratch.add_input({t.dtype(), sizes_of(slot(t)), {}}, InputKind::User, "x"));
      }));
    std::vector<Tensor> results;
    {
      DispatchScope scope(aside);
      results = op.decompose(ops::CallReader(op, stand_ins));
    }
    for (auto& n : scratch.nodes)
      if (is_mutating(*n->op)) return true;
    for (auto& r : results) {
      if (!is_proxy(r)) continue;
      const Value* v = static_cast<Value*>(r.impl()->proxy);
      while (v->producer && is_alias_view(*v->producer->op)) v = std::get<Value*>(v->producer->args[0]);
      if (!v->producer) return true;
    }
    return false;
  }

  const Graph& old_;
  Rebuild out_;
  std::deque<Slot> slots_;
  std::vector<Slot*> at_;  // by the number of the old value
  ByCall<bool> shares_memory_;
  const std::set<ViewCall>& decided_;
  const Decide& decide_;
  std::set<ViewCall> undecided_;
  std::vector<const Slot*> maybe_views_;
  ViewCall call_ = {};
  const Slot* written_ = nullptr;  // by the operation that is made functional
  std::string where_;
};

}  // namespace

namespace {

bool has_writes(const Graph& g) {
  auto writes = [](const auto& n) { return is_mutating(*n->op) || updates_statistics(*n->op, n->args) || ops::is_registered(*n->op); };
  return std::any_of(g.nodes.begin(), g.nodes.end(), writes);
}

// A write tells that a view before it must be decided: the program is made again then. Each time more are.
std::unique_ptr<Graph> functional(const Graph& g, const Decide& decide) {
  for (std::set<ViewCall> decided;;) {
    Functionalizer f(g, decided, decide);
    auto out = f.run();
    const size_t before = decided.size();
    decided.insert(f.undecided().begin(), f.undecided().end());
    if (decided.size() == before) return out;
  }
}

}  // namespace

std::unique_ptr<Graph> functionalize(const Graph& g) { return has_writes(g) ? functional(g, {}) : nullptr; }

void decide_written_views(const Graph& g, const Decide& decide) {
  const bool may_be_copies = std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return may_copy(*n->op) || n->op->decompose; });
  if (may_be_copies && !g.symbols.empty() && has_writes(g)) functional(g, decide);
}

}  // namespace toroid::graph

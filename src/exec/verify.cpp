#include "exec/verify.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "exec/fields.h"
#include "exec/record/coverage.h"
#include "exec/steps.h"
#include "ops/custom.h"
#include "ops/op.h"
#include "ops/opaque.h"

namespace toroid::exec {
namespace {

// Calls f for every expression of a record, in the order of its fields.
template <class F>
class EachExpr {
 public:
  explicit EachExpr(F f) : f_(std::move(f)) {}
  template <class T, class... Usual>
  void operator()(const char*, const T& v, const Usual&...) {
    value(v);
  }
  void symbols(const std::vector<std::pair<Expr, bool>>&) {}
  template <class T>
  void value(const T& v) {
    if constexpr (std::is_same_v<T, Expr>)
      f_(v);
    else if constexpr (std::is_same_v<T, TensorType>)
      value(v.sizes), value(v.strides);
    else if constexpr (std::is_base_of_v<sym::Relation, T>)
      f_(v.a), f_(v.b);
    else if constexpr (requires { fields(*this, v); })
      fields(*this, v);
  }
  template <class T>
  void value(const std::vector<T>& v) {
    for (const auto& x : v) value(x);
  }
  template <class T>
  void value(const std::optional<T>& v) {
    if (v) value(*v);
  }
  template <class... T>
  void value(const std::variant<T...>& v) {
    std::visit([&](auto& x) { value(x); }, v);
  }

 private:
  F f_;
};

template <class T, class F>
void each_expr(const T& record, F f) {
  EachExpr<F>(std::move(f)).value(record);
}

// What a step reads, and what it writes.
struct Uses {
  std::vector<int> reads, writes;
};

// Where the result is among the buffers of a library's call.
size_t result_of(const LibraryCall& c) {
  const auto* p = std::get_if<external::OneDnnProblem>(&c.problem);
  return p && p->constant_b ? 1 : 2;
}

size_t buffers_of(const LibraryProblem& problem) {
  if (auto* p = std::get_if<external::OneDnnProblem>(&problem)) {
    size_t n = p->constant_b ? 2 : 3;
    for (auto& op : p->post_ops) n += op.kind == external::PostOpKind::Add || op.kind == external::PostOpKind::Mul;
    return n;
  }
  if (auto* p = std::get_if<external::CublasLtProblem>(&problem)) return 3u + p->has_addend + p->has_bias;
  if (std::holds_alternative<PiecesProblem>(problem)) return 3;
  const auto& p = std::get<external::CudnnProblem>(problem);
  return 3u + p.has_bias + p.has_addend;
}

Uses uses_of(const StepPlan& step) {
  Uses u;
  const auto views = [](const Views& list, std::vector<int>& out) {
    for (auto& v : list) out.push_back(v.buffer);
  };
  if (auto* l = std::get_if<Launch>(&step)) {
    for (size_t i = 0; i < l->buffers.size(); ++i) (i < l->written.size() && l->written[i] ? u.writes : u.reads).push_back(l->buffers[i]);
  } else if (auto* h = std::get_if<HostCall>(&step)) {
    views(h->inputs, u.reads), views(h->outputs, u.writes);
  } else if (auto* c = std::get_if<LibraryCall>(&step)) {
    for (size_t i = 0; i < c->buffers.size(); ++i) (i == result_of(*c) ? u.writes : u.reads).push_back(c->buffers[i]);
  } else if (auto* m = std::get_if<CollectiveCall>(&step)) {
    u.reads.push_back(m->input.buffer), u.writes.push_back(m->output.buffer);
  } else {
    views(block_operands(step), u.reads), views(block_results(step), u.writes);
  }
  return u;
}

class Verifier {
 public:
  Verifier(const Plan& plan, std::vector<PlanFault>& out) : plan_(plan), out_(out) {}

  void run() {
    const size_t before = out_.size();
    buffers(), inputs(), outputs(), symbols();
    for (auto& step : plan_.steps) {
      where_ = "step " + std::to_string(&step - plan_.steps.data()) + " (" + name_of(step) + ")";
      in_range(step);
      if (out_.size() == before) this->step(step);
    }
    where_.clear();
    if (out_.size() == before) order(), check_faults();
    if (out_.size() == before) bound();
  }

 private:
  template <class... A>
  void check(bool holds, const char* rule, fmt::format_string<A...> what, A&&... args) {
    if (holds) return;
    out_.push_back(
        {rule, fmt::format("\"{}\"{}: {}", plan_.name, where_.empty() ? "" : ", " + where_, fmt::format(what, std::forward<A>(args)...))});
  }
  bool valid(int buffer) const { return buffer >= 0 && static_cast<size_t>(buffer) < plan_.buffers.size(); }
  const BufferPlan& at(int buffer) const { return plan_.buffers[static_cast<size_t>(buffer)]; }

  void buffers() {
    int faults = 0;
    for (auto& b : plan_.buffers) {
      check(!b.numel.is_const() || b.numel.constant() >= 0, "buffer-sizes", "buffer \"{}\" has {} elements", b.name,
            sym::to_string(b.numel));
      check(is_loaded(b.role) == !b.constant.empty(), "roles", "buffer \"{}\" is {}, its constant is \"{}\"", b.name,
            kNames<BufferRole>[static_cast<size_t>(b.role)], b.constant);
      faults += b.role == BufferRole::Faults;
    }
    check(faults <= 1, "faults", "{} buffers are records of faults", faults);
  }

  void inputs() {
    std::vector<int> users;
    for (auto& in : plan_.inputs) {
      if (in.user >= 0) users.push_back(in.user);
      check(valid(in.buffer), "buffers-in-range", "input \"{}\" has buffer {}", in.name, in.buffer);
      check((in.user >= 0) + !in.constant.empty() + in.draws.has_value() == 1, "inputs-bound",
            "input \"{}\" must come from the caller, from a constant, or be drawn", in.name);
      if (!valid(in.buffer)) continue;
      const BufferRole role = at(in.buffer).role;
      check(role == BufferRole::Input || role == BufferRole::Constant, "roles", "input \"{}\" is in a buffer that is {}", in.name,
            kNames<BufferRole>[static_cast<size_t>(role)]);
      check(in.type.strides.empty() || in.type.strides.size() == in.type.sizes.size(), "views-inside",
            "input \"{}\" has {} sizes and {} strides", in.name, in.type.sizes.size(), in.type.strides.size());
    }
    std::sort(users.begin(), users.end());
    for (size_t i = 0; i < users.size(); ++i)
      if (users[i] != static_cast<int>(i)) return check(false, "inputs-bound", "no input, or several, is argument {} of the caller", i);
  }

  void outputs() {
    const auto count = static_cast<int>(plan_.inputs.size());
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const OutputPlan& o = plan_.outputs[i];
      check(o.buffer >= -1 && (o.buffer < 0 || valid(o.buffer)), "buffers-in-range", "output {} has buffer {}", i, o.buffer);
      check(o.mutates >= -1 && o.mutates < count, "mutations", "output {} mutates input {} of {}", i, o.mutates, count);
      if (o.mutates < 0 || o.mutates >= count) continue;
      const InputPlan& in = plan_.inputs[static_cast<size_t>(o.mutates)];
      check(in.mutated && !in.draws, "mutations", "output {} mutates \"{}\", which is not said to be", i, in.name);
    }
  }

  void symbols() {
    std::set<std::string> declared;
    for (auto& [e, unbacked] : plan_.symbols) {
      const bool size = e.node() && sym::is_size(*e.node());
      check(size, "symbols-declared", "{} is no size", sym::to_string(e));
      if (size) check(declared.insert(e.node()->name).second, "symbols-declared", "{} is declared twice", sym::to_string(e));
    }
    const auto known = [&](const Expr& e) {
      sym::for_each_symbol(e, [&](const Expr& s) {
        check(sym::is_size(*s.node()) && declared.count(s.node()->name), "symbols-declared", "{} in {} is not declared", sym::to_string(s),
              sym::to_string(e));
      });
    };
    each_expr(plan_.buffers, known), each_expr(plan_.inputs, known), each_expr(plan_.outputs, known), each_expr(plan_.guards, known);
    each_expr(plan_.steps, known);
  }

  void in_range(const StepPlan& step) {
    const Uses u = uses_of(step);
    for (auto* list : {&u.reads, &u.writes})
      for (int b : *list) check(valid(b), "buffers-in-range", "it takes buffer {} of {}", b, plan_.buffers.size());
  }

  void view(const HostCall::View& v) {
    check(v.sizes.size() == v.strides.size(), "views-inside", "a view of buffer {} has {} sizes and {} strides", v.buffer, v.sizes.size(),
          v.strides.size());
    const BufferPlan& b = at(v.buffer);
    if (v.sizes.size() != v.strides.size() || !b.numel.is_const() || !v.offset.is_const()) return;
    int64_t first = v.offset.constant(), last = first;
    for (size_t d = 0; d < v.sizes.size(); ++d) {
      if (!v.sizes[d].is_const() || !v.strides[d].is_const()) return;
      if (v.sizes[d].constant() <= 0) return;
      (v.strides[d].constant() < 0 ? first : last) += (v.sizes[d].constant() - 1) * v.strides[d].constant();
    }
    const auto width = static_cast<int64_t>(size_of(v.dtype)), bytes = b.numel.constant() * static_cast<int64_t>(size_of(b.dtype));
    check(first >= 0 && (last + 1) * width <= bytes, "views-inside",
          "a view takes elements {} to {} of {} of buffer {}, which has {} bytes", first, last, name_of(v.dtype), v.buffer, bytes);
  }

  void step(const StepPlan& s) {
    for (int b : uses_of(s).writes) {
      check(at(b).role != BufferRole::Constant, "writes", "it writes the constant \"{}\"", at(b).name);
      if (at(b).role == BufferRole::Input) check(is_mutated(b), "writes", "it writes \"{}\", which is not mutated", at(b).name);
    }
    std::visit([&](auto& x) { of(x); }, s);
  }

  bool is_mutated(int buffer) const {
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(), [&](auto& in) { return in.buffer == buffer && in.mutated; });
  }

  void of(const Launch& l) {
    const auto count = static_cast<int>(l.buffers.size());
    check(!l.kernel.empty() && sym::is_identifier(l.name), "launch-arguments", "its kernel is \"{}\", its function \"{}\"", l.kernel,
          l.name);
    check(l.written.empty() || l.written.size() == l.buffers.size(), "launch-arguments",
          "it says of {} of {} buffers whether it writes them", l.written.size(), l.buffers.size());
    constexpr int kMostThreads = 1024;
    const bool gpu = plan_.device.is_cuda();
    check(gpu ? l.gpu.threads > 0 && l.gpu.threads <= kMostThreads && l.gpu.shared_bytes >= 0
              : l.gpu.threads == 0 && l.gpu.tensor_maps.empty(),
          "launch-arguments", "a launch on {} has {} threads and {} tensor maps", to_string(plan_.device), l.gpu.threads,
          l.gpu.tensor_maps.size());
    for (auto& m : l.gpu.tensor_maps)
      check(m.buffer >= 0 && m.buffer < count && (m.window || m.box.size() == m.sizes.size()) && m.strides.size() + 1 == m.sizes.size(),
            "launch-arguments", "a tensor map of buffer {} of {} has {} sizes, {} strides and a box of {}", m.buffer, count, m.sizes.size(),
            m.strides.size(), m.box.size());
    for (auto& e : {l.tasks, l.scratch_bytes_per_thread})
      check(!e.is_const() || e.constant() >= 0, "launch-arguments", "it has {} tasks, or bytes of scratch memory", sym::to_string(e));
  }

  void of(const HostCall& h) {
    check(h.op != nullptr, "host-calls", "it has no operation");
    if (!h.op) return;
    check(h.args.size() == h.op->schema.params.size(), "host-calls", "{} takes {} arguments, it has {}", h.op->name,
          h.op->schema.params.size(), h.args.size());
    const auto tensor = [&](int i) {
      check(i >= -1 && i < static_cast<int>(h.inputs.size()), "host-calls", "an argument is tensor {} of {}", i, h.inputs.size());
    };
    for (auto& a : h.args) {
      if (auto* i = std::get_if<int>(&a)) tensor(*i);
      if (auto* list = std::get_if<std::vector<int>>(&a)) std::for_each(list->begin(), list->end(), tensor);
    }
    for (auto* list : {&h.inputs, &h.outputs}) std::for_each(list->begin(), list->end(), [&](auto& v) { view(v); });
    check(!h.on_gpu || (plan_.device.is_cuda() && ops::is_opaque(*h.op)), "host-calls", "{} has no function that works on {}", h.op->name,
          to_string(plan_.device));
    if (ops::is_opaque(*h.op)) opaque(h);
  }

  // What was registered may be another function than when the plan was made.
  void opaque(const HostCall& h) {
    check(!ops::writes_arguments(*h.op), "host-calls", "{} writes to its arguments; a plan has its functional form", h.op->name);
    const auto& schema = h.op->schema;
    check(h.outputs.size() == schema.returns.size(), "host-calls", "{} returns {} tensors, {} are expected", h.op->name,
          schema.returns.size(), h.outputs.size());
    for (size_t i = 0; i < std::min(h.args.size(), schema.params.size()); ++i) {
      const auto& p = schema.params[i];
      const bool tensor = std::holds_alternative<int>(h.args[i]), list = std::holds_alternative<std::vector<int>>(h.args[i]);
      const bool fits = p.type != ops::ParamType::Tensor ? !tensor && !list : p.list ? !tensor : tensor && std::get<int>(h.args[i]) >= 0;
      check(fits, "host-calls", "{} takes something else as \"{}\"", h.op->name, p.name);
    }
  }

  void of(const LibraryCall& c) {
    const auto* onednn = std::get_if<external::OneDnnProblem>(&c.problem);
    check((onednn != nullptr) != plan_.device.is_cuda(), "library-calls", "{} does not work on {}", kProblemNames[c.problem.index()],
          to_string(plan_.device));
    check(c.buffers.size() == buffers_of(c.problem), "library-calls", "its problem has {} buffers, it gets {}", buffers_of(c.problem),
          c.buffers.size());
    check((onednn && onednn->constant_b) == !c.constant.empty(), "library-calls", "its constant operand is \"{}\"", c.constant);
    check(c.choice >= 0, "library-calls", "it takes implementation {}", c.choice);
    if (auto* p = std::get_if<PiecesProblem>(&c.problem)) pieces(*p);
  }

  void pieces(const PiecesProblem& p) {
    using distributed::Kind;
    check(p.kind == Kind::AllGather || p.kind == Kind::ReduceScatter, "collectives", "a {} has no pieces", distributed::name_of(p.kind));
    check(!p.group.empty() && p.ranks >= 2 && p.stage >= 0 && p.stage < stages_of(p), "collectives",
          "stage {} of {} ranks of the group \"{}\"", p.stage, p.ranks, p.group);
    const std::string why = refusal_of(p);
    check(why.empty(), "collectives", "its pieces cannot be computed: {}", why);
  }

  void of(const CollectiveCall& c) {
    using distributed::Kind;
    const Expr ranks = c.ranks;
    const bool exchanges = c.kind == Kind::AllToAll;
    check(c.kind != Kind::Barrier, "collectives", "a barrier has no operands");
    check(!c.group.empty() && c.ranks >= 1 && c.root >= 0, "collectives", "its group is \"{}\" of {} ranks, its root rank {}", c.group,
          c.ranks, c.root);
    check(exchanges == !c.given.empty() && c.given.size() == c.taken.size(), "collectives", "it gives {} parts and takes {}",
          c.given.size(), c.taken.size());
    check(c.input.dtype == c.output.dtype, "collectives", "it makes {} of {}", name_of(c.output.dtype), name_of(c.input.dtype));
    check(c.input.buffer != c.output.buffer, "collectives", "its operands are both in buffer {}", c.input.buffer);
    const auto total = [](const std::vector<Expr>& parts) {
      Expr sum = 0;
      for (auto& p : parts) sum = sum + p;
      return sum;
    };
    const auto dense = [&](const HostCall::View& v, const Expr& elements) {
      view(v);
      check(v.sizes == std::vector<Expr>{elements} && v.strides == std::vector<Expr>{1}, "collectives",
            "an operand is no dense memory of {} elements", sym::to_string(elements));
    };
    dense(c.input, exchanges ? total(c.given) : c.kind == Kind::ReduceScatter ? c.count * ranks : c.count);
    dense(c.output, exchanges ? total(c.taken) : c.kind == Kind::AllGather ? c.count * ranks : c.count);
  }

  void of(const Branch& b) {
    const size_t count = b.conditions.empty() ? 2 : b.conditions.size() + 1;
    check(b.blocks.size() == count, "blocks", "it chooses from {} blocks, it has {}", count, b.blocks.size());
    if (b.conditions.empty()) view(b.predicate);
    std::for_each(b.operands.begin(), b.operands.end(), [&](auto& v) { view(v); });
    for (auto& block : b.blocks) of(block, b.operands.size(), b.results.size());
    handed(b.results);
  }

  void of(const Loop& l) {
    const size_t carried = l.carried.size();
    check(l.blocks.size() == 2 || (l.blocks.size() == 1 && !l.slices.empty()), "blocks", "it has {} blocks and {} slices", l.blocks.size(),
          l.slices.size());
    check(l.results.size() >= carried, "blocks", "it carries {} tensors and has {} results", carried, l.results.size());
    for (auto* list : {&l.carried, &l.slices, &l.unchanging}) std::for_each(list->begin(), list->end(), [&](auto& v) { view(v); });
    if (!l.blocks.empty()) of(l.blocks[0], carried + l.slices.size() + l.unchanging.size(), l.results.size());
    if (l.blocks.size() > 1) of(l.blocks[1], carried + l.unchanging.size(), 1);
    handed(l.results);
  }

  void handed(const Views& results) {
    for (auto& v : results)
      check(at(v.buffer).role == BufferRole::Handed, "blocks", "its result is in \"{}\", a buffer that is {}", at(v.buffer).name,
            kNames<BufferRole>[static_cast<size_t>(at(v.buffer).role)]);
  }

  void of(const Block& b, size_t operands, size_t results) {
    check(b.plan != nullptr, "blocks", "block \"{}\" has no plan", b.name);
    if (!b.plan) return;
    size_t users = 0, made = 0;
    for (auto& in : b.plan->inputs) users += in.user >= 0;
    for (auto& o : b.plan->outputs) made += o.mutates < 0;
    check(users == operands, "blocks", "block \"{}\" takes {} operands, it gets {}", b.name, users, operands);
    check(b.results.size() == results, "blocks", "block \"{}\" has {} results, {} are wanted", b.name, b.results.size(), results);
    for (int r : b.results)
      check(r >= 0 ? static_cast<size_t>(r) < made : static_cast<size_t>(~r) < operands, "blocks", "block \"{}\" has no result {}", b.name,
            r);
    check(b.plan->device == plan_.device, "blocks", "block \"{}\" is for {}, not {}", b.name, to_string(b.plan->device),
          to_string(plan_.device));
    Verifier(*b.plan, out_).run();
  }

  // Who wrote a buffer before a step reads it.
  void order() {
    std::vector<bool> written(plan_.buffers.size(), false);
    for (size_t i = 0; i < written.size(); ++i) {
      const BufferPlan& b = plan_.buffers[i];
      const bool empty = b.numel.is_const() && b.numel.constant() == 0;
      written[i] = is_loaded(b.role) || b.role == BufferRole::Faults || empty;
    }
    for (auto& in : plan_.inputs) written[static_cast<size_t>(in.buffer)] = true;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const Uses u = uses_of(plan_.steps[i]);
      const auto* l = std::get_if<Launch>(&plan_.steps[i]);
      for (int b : u.reads)
        check(written[static_cast<size_t>(b)] || (l && l->written.empty()), "read-before-write",
              "step {} ({}) reads buffer {} (\"{}\"), which nobody wrote before", i, name_of(plan_.steps[i]), b, at(b).name);
      for (auto* list : {&u.writes, l && l->written.empty() ? &u.reads : &u.writes})
        for (int b : *list) written[static_cast<size_t>(b)] = true;
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (const int b = plan_.outputs[i].buffer; b >= 0)
        check(written[static_cast<size_t>(b)], "outputs-defined", "output {} is buffer {} (\"{}\"), which nobody writes", i, b, at(b).name);
  }

  // Sizes that the run determines are known behind the call that has them among its results' sizes.
  void bound() {
    std::set<std::string> open;
    for (auto& [e, unbacked] : plan_.symbols)
      if (unbacked) open.insert(e.node()->name);
    for (size_t i = 0; i < plan_.steps.size() && !open.empty(); ++i) {
      const auto* h = std::get_if<HostCall>(&plan_.steps[i]);
      if (h)
        for (auto& v : h->outputs)
          for (auto& e : v.sizes)
            if (e.kind() == sym::Kind::Symbol) open.erase(e.node()->name);
      const auto use = [&](const Expr& e) {
        sym::for_each_symbol(e, [&](const Expr& s) {
          check(!open.count(s.node()->name), "symbols-bound", "step {} ({}) uses {}, which no call before has determined", i,
                name_of(plan_.steps[i]), sym::to_string(s));
        });
      };
      if (auto* l = std::get_if<Launch>(&plan_.steps[i]))
        each_expr(*l, use);
      else if (h)
        each_expr(h->inputs, use);
      else if (auto* m = std::get_if<CollectiveCall>(&plan_.steps[i]))
        each_expr(*m, use);
      else if (!std::holds_alternative<LibraryCall>(plan_.steps[i]))
        each_expr(block_operands(plan_.steps[i]), use);
    }
  }

  void check_faults() {
    bool checks = false;
    for (auto& step : plan_.steps)
      if (auto* l = std::get_if<Launch>(&step))
        checks = checks || std::any_of(l->buffers.begin(), l->buffers.end(), [&](int b) { return at(b).role == BufferRole::Faults; });
    check(!checks || !plan_.sites.empty(), "faults", "launches check indices of no site");
  }

  const Plan& plan_;
  std::vector<PlanFault>& out_;
  std::string where_;
};

}  // namespace

std::vector<PlanFault> faults_of(const Plan& plan) {
  std::vector<PlanFault> out;
  Verifier(plan, out).run();
  return out;
}

void verify(const Plan& plan) {
  const auto faults = faults_of(plan);
  if (!faults.empty()) fail<UserError>("this plan cannot be loaded: {} (rule {})", faults[0].what, faults[0].rule);
}

}  // namespace toroid::exec

#include "front/taped_function.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/tape/history.h"
#include "base/check.h"
#include "base/compile_scope.h"
#include "base/log.h"
#include "front/eager.h"
#include "graph/effects.h"
#include "graph/pass.h"
#include "ops/autocast.h"

namespace toroid::front {

using autograd::edge_of;
using graph::Graph;

namespace {

std::unique_ptr<Graph> after(std::unique_ptr<Graph> g, const char* pass) {
  const graph::PassRow row = graph::find_pass(pass);
  return graph::run_passes(std::move(g), std::span(&row, 1));
}

constexpr std::string_view kOperand = "operand_", kCotangent = "cotangent_";

size_t number_behind(std::string_view prefix, const std::string& name) {
  size_t n = 0;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), n);
  return n;
}

bool draws(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](auto& n) { return graph::effects_of(*n).has(graph::Effect::Draws); });
}

}  // namespace

bool is_remembered(std::span<const Tensor> tensors) {
  if (!grad_mode || !gradients_are_in_use()) return false;
  return std::any_of(tensors.begin(), tensors.end(), [](auto& t) { return t.impl() && is_taped(*t.impl()) && t.requires_grad(); });
}

std::vector<size_t> written_inputs(const Graph& g) {
  std::set<const graph::Value*> written;
  const auto note = [&](const graph::Value* v) {
    while (v->producer && ((v->producer->op->index_map && v->producer->op->schema.params[0].alias) || graph::is_mutating(*v->producer->op)))
      v = std::get<graph::Value*>(v->producer->args[0]);
    written.insert(v);
  };
  for (auto& n : g.nodes)
    for (size_t i = 0; i < n->args.size(); ++i)
      if (n->op->schema.params[i].mutated || (i == 0 && graph::is_mutating(*n->op)))
        if (auto* v = std::get_if<graph::Value*>(&n->args[i]); v && *v) note(*v);
  std::vector<size_t> out;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (written.count(g.inputs[i].value)) out.push_back(i);
  return out;
}

void note_writes(std::span<const Tensor> tensors, std::span<const size_t> written) {
  for (size_t i : written)
    if (const TensorImpl* t = tensors[i].impl(); t && t->storage) t->storage->writes.note();
}

// The program of the gradients by some inputs.
class TapedFunction::Gradients {
 public:
  Gradients(const TapedFunction& f, const std::vector<bool>& wanted, std::span<const Tensor> operands)
      : backend_(f.backend_), options_{f.options_.options, f.options_.device, {}} {
    autograd::Request request{.inputs = {}, .takes_cotangents = true, .seeds = false};
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      request.inputs.push_back(i);
      options_.output_devices.push_back(operands[i].device());
    }
    try {
      graph_ = autograd::differentiate(*f.graph_, request);
    } catch (const UserError& e) {
      error_ = e.what();  // of who asks for the gradient
      return;
    }
    graph_->name = f.name_ + " (gradients)";
    graph_->outputs.erase(graph_->outputs.begin(), graph_->outputs.end() - static_cast<std::ptrdiff_t>(request.inputs.size()));
    graph_ = after(std::move(graph_), "dce");
    drop_unread();
  }

  // The inputs of the function whose elements must be there, in the order in which run() takes them.
  std::vector<size_t> kept() const {
    std::vector<size_t> out;
    for (auto& in : inputs_)
      if (in.kind == Kind::Operand) out.push_back(in.index);
    return out;
  }

  // sizes: of all inputs of the function.
  std::vector<Tensor> run(std::span<const Tensor> kept, const std::vector<Tensor>& cotangents,
                          const std::vector<std::vector<int64_t>>& sizes) {
    TOROID_USER_CHECK(error_.empty(), "{}", error_);
    std::vector<Tensor> given;
    size_t next = 0;
    for (auto& in : inputs_) {
      if (in.kind == Kind::Cotangent)
        given.push_back(cotangents.at(in.index).contiguous());
      else if (in.kind == Kind::Operand)
        given.push_back(kept[next++]);
      else
        given.push_back(Tensor::empty(sizes[in.index], in.dtype, options_.device));
    }
    std::call_once(compiled_, [&] {
      const CompileScope compiling;
      program_ = backend_(std::move(graph_), options_);
    });
    auto gradients = program_(given);
    for (auto& t : gradients)  // another call of the function may follow before they are read
      if (t.impl()->storage->lent) t = ops::call1("clone", {t, std::monostate{}});
    return gradients;
  }

 private:
  enum class Kind : uint8_t { Operand, Sizes, Cotangent };
  struct Input {
    Kind kind;
    size_t index;
    DType dtype;
  };

  // Leaves out what is not read, but for inputs that tell open sizes.
  void drop_unread() {
    std::set<const graph::Value*> read;
    for (auto& n : graph_->nodes) graph::for_each_operand(*n, [&](const graph::Value* v) { read.insert(v); });
    for (auto& o : graph_->outputs) read.insert(o.value);
    std::erase_if(graph_->inputs, [&](const graph::Input& in) {
      if (in.kind != graph::InputKind::User) return false;
      const bool operand = in.name.starts_with(kOperand), is_read = read.count(in.value) > 0;
      const auto& sizes = in.value->type.sizes;
      if (!is_read && std::all_of(sizes.begin(), sizes.end(), [](auto& s) { return s.is_const(); })) return true;
      const Kind kind = !operand ? Kind::Cotangent : is_read ? Kind::Operand : Kind::Sizes;
      inputs_.push_back({kind, number_behind(operand ? kOperand : kCotangent, in.name), in.value->type.dtype});
      return false;
    });
  }

  const Backend backend_;
  BackendOptions options_;
  std::unique_ptr<Graph> graph_;  // until it is compiled
  std::string error_;
  std::vector<Input> inputs_;
  std::once_flag compiled_;
  Program program_;
};

void TapedFunction::read() {
  auto g = graph::parse(text_);
  for (size_t i = 0; i < g->inputs.size(); ++i) {
    g->inputs[i].kind = graph::InputKind::User;
    g->inputs[i].name = fmt::format("{}{}", kOperand, i);
  }
  for (auto& n : g->nodes) place_ = n->where;
  if (draws(*g)) {
    log(Artifact::Perf,
        fmt::format("{}: it draws random numbers, and runs operation by operation where its gradients may be wanted", name_));
    as_called_ = std::move(g);
    return;
  }
  g = after(std::move(g), "functionalize");
  std::stable_partition(g->outputs.begin(), g->outputs.end(), [](auto& o) { return o.mutates < 0; });
  for (auto& o : g->outputs) {
    written_.push_back(o.mutates < 0 ? std::nullopt : std::optional(static_cast<size_t>(o.mutates)));
    o.mutates = -1;
  }
  graph_ = std::move(g);
}

std::shared_ptr<TapedFunction::Gradients> TapedFunction::gradients(const std::vector<bool>& wanted, std::span<const Tensor> operands) {
  std::lock_guard lock(mutex_);
  auto& g = gradients_[wanted];
  if (!g) g = std::make_shared<Gradients>(*this, wanted, operands);
  return g;
}

std::vector<Tensor> TapedFunction::one_by_one(std::span<const Tensor> operands) const {
  const ops::NoAutocast recorded;
  const DeviceScope device(options_.device);
  std::vector<Tensor> there;
  for (auto& t : operands) there.push_back(t.to(options_.device));
  auto results = run_one_by_one(*as_called_, there);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].defined()) results[i] = results[i].to(options_.output_devices[i]);
  return results;
}

void TapedFunction::set_results(const std::shared_ptr<autograd::Node>& node, std::span<const Tensor> results,
                                std::span<const Tensor> operands) const {
  size_t next = 0;
  for (size_t i = 0; i < written_.size(); ++i) {
    const Tensor& r = written_[i] ? operands[*written_[i]] : results[next++];
    node->results.emplace_back();
    if (!r.defined()) continue;
    node->results.back().dtype = r.dtype();
    node->results.back().sizes = r.sizes();
    if (!autograd::has_gradient(r.dtype())) continue;
    if (written_[i]) {
      autograd::set_written(r, {node, i, nullptr}, std::source_location::current());
      continue;
    }
    const auto shares = [&](const Tensor& t) { return t.impl()->storage == r.impl()->storage; };
    const auto of = std::find_if(operands.begin(), operands.end(), shares);
    if (of != operands.end() && of->impl() == r.impl()) continue;  // the input itself
    autograd::set_history(r, {node, i, nullptr}, of == operands.end() ? nullptr : &*of);
  }
  node->device = options_.device;
}

std::vector<Tensor> TapedFunction::call(std::span<const Tensor> operands, const std::function<std::vector<Tensor>()>& program) {
  std::call_once(once_, [&] { read(); });
  if (as_called_) return one_by_one(operands);
  for (auto& w : written_)
    if (w) autograd::check_writable(operands[*w], fmt::format("the compiled function \"{}\"", name_));
  std::vector<bool> wanted;
  std::vector<GradEdge> edges;
  std::vector<std::vector<int64_t>> sizes;
  for (auto& t : operands) {
    sizes.push_back(t.sizes());
    GradEdge e = autograd::has_gradient(t.dtype()) ? edge_of(t) : GradEdge{};
    wanted.push_back(static_cast<bool>(e));
    if (e) edges.push_back(std::move(e));
  }
  const auto gradient = gradients(wanted, operands);
  auto node = std::make_shared<autograd::FunctionNode>(
      fmt::format("the compiled function \"{}\"", name_), place_, std::move(edges),
      [gradient, sizes = std::move(sizes)](std::span<const Tensor> kept, const std::vector<Tensor>& cotangents) {
        return gradient->run(kept, cotangents, sizes);
      });
  for (size_t i : gradient->kept()) {
    node->keep(operands[i], fmt::format("its input {}", i));
    if (std::find(written_.begin(), written_.end(), std::optional(i)) != written_.end()) node->kept().back().make_own();
  }
  std::vector<Tensor> results;
  {
    const GradModeScope off(false);
    results = program();
  }
  set_results(node, results, operands);
  return results;
}

}  // namespace toroid::front

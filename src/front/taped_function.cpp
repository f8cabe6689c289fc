#include "front/taped_function.h"

#include <algorithm>
#include <set>

#include "autograd/differentiate.h"
#include "autograd/tape/history.h"
#include "base/check.h"
#include "base/log.h"
#include "graph/pass.h"
#include "graph/writes.h"

namespace toroid::front {

using autograd::edge_of;
using graph::Graph;

bool is_remembered(std::span<const Tensor> tensors) {
  if (!grad_mode || !gradients_are_in_use()) return false;
  return std::any_of(tensors.begin(), tensors.end(), [](auto& t) { return t.impl() && is_taped(*t.impl()) && t.requires_grad(); });
}

std::vector<size_t> written_inputs(const Graph& g) {
  std::set<const graph::Value*> written;
  for (auto& n : g.nodes)
    graph::for_each_written(*n->op, n->args, [&](const graph::Value* v) {
      if (v) written.insert(graph::memory_of(v));
    });
  std::vector<size_t> out;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (written.count(g.inputs[i].value)) out.push_back(i);
  return out;
}

void note_writes(std::span<const Tensor> tensors, std::span<const size_t> written) {
  for (size_t i : written)
    if (const TensorImpl* t = tensors[i].impl(); t && t->storage) t->storage->writes.note();
}

void TapedFunction::read() {
  auto g = graph::parse(text_);
  for (auto& in : g->inputs) in.kind = graph::InputKind::User;
  for (size_t i = 0; i < g->inputs.size(); ++i) g->inputs[i].name = fmt::format("operand_{}", i);
  for (auto& s : g->symbols)
    for (auto& traced : symbols_)
      if (traced.expr == s.expr) s.hint = traced.hint;
  for (auto& n : g->nodes) place_ = n->where;
  const graph::PassRow functionalize = graph::find_pass("functionalize");
  g = graph::run_passes(std::move(g), std::span(&functionalize, 1));
  std::stable_partition(g->outputs.begin(), g->outputs.end(), [](auto& o) { return o.mutates < 0; });
  for (auto& o : g->outputs) {
    written_.push_back(o.mutates < 0 ? std::nullopt : std::optional(static_cast<size_t>(o.mutates)));
    graph::Value* contents = o.mutates < 0 ? nullptr : autograd::contents_with_history_of(*g->inputs[*written_.back()].value, o.value);
    if (contents) o.value = contents;
    keeps_history_.push_back(contents != nullptr);
  }
  graph_ = std::move(g);
}

bool TapedFunction::writes(size_t operand) const {
  return std::find(written_.begin(), written_.end(), std::optional(operand)) != written_.end();
}

std::shared_ptr<TapedPasses> TapedFunction::passes(const std::vector<bool>& wanted, std::span<const Tensor> operands) {
  std::lock_guard lock(mutex_);
  auto& p = passes_[wanted];
  if (p) return p;
  std::vector<Device> devices;
  for (auto& t : operands) devices.push_back(t.device());
  p = std::make_shared<TapedPasses>(*graph_, name_, backend_, options_, wanted, std::move(devices));
  if (p->error().empty()) log(Artifact::Choices, fmt::format("{}: {}", name_, p->report().substr(0, p->report().find('\n'))));
  return p;
}

std::vector<std::string> TapedFunction::reports() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (auto& [wanted, p] : passes_) {
    std::string inputs;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) inputs += fmt::format("{}{}", inputs.empty() ? "" : ", ", i);
    out.push_back(fmt::format("gradients by inputs {}: {}", inputs, p->error().empty() ? p->report() : p->error()));
  }
  return out;
}

void TapedFunction::set_results(const std::shared_ptr<autograd::Node>& node, const TapedPasses& made, std::span<const Tensor> results,
                                std::span<const Tensor> operands) const {
  size_t next = 0;
  for (size_t i = 0; i < written_.size(); ++i) {
    const Tensor& r = written_[i] ? operands[*written_[i]] : results[next++];
    node->results.emplace_back();
    if (!r.defined()) continue;
    node->results.back().dtype = r.dtype();
    node->results.back().sizes = r.sizes();
    if (!autograd::has_gradient(r.dtype()) || keeps_history_[i]) continue;
    const GradEdge edge = made.follows(i) ? GradEdge{node, i, nullptr} : GradEdge{};
    if (written_[i]) {
      autograd::set_written(r, edge, std::source_location::current());
      continue;
    }
    const auto shares = [&](const Tensor& t) { return t.impl()->storage == r.impl()->storage; };
    const auto of = std::find_if(operands.begin(), operands.end(), shares);
    if (of != operands.end() && of->impl() == r.impl()) continue;  // the input itself
    autograd::set_history(r, edge, of == operands.end() ? nullptr : &*of);
  }
  node->device = options_.device;
}

std::vector<Tensor> TapedFunction::call(std::span<const Tensor> operands, const std::function<std::vector<Tensor>()>& program) {
  std::call_once(once_, [&] { read(); });
  for (size_t i = 0; i < written_.size(); ++i)
    if (written_[i] && !keeps_history_[i])
      autograd::check_writable(operands[*written_[i]], fmt::format("the compiled function \"{}\"", name_));
  std::vector<bool> wanted;
  std::vector<GradEdge> edges;
  for (auto& t : operands) {
    GradEdge e = autograd::has_gradient(t.dtype()) ? edge_of(t) : GradEdge{};
    wanted.push_back(static_cast<bool>(e));
    if (e) edges.push_back(std::move(e));
  }
  const auto made = passes(wanted, operands);
  const bool has_gradients = made->error().empty();
  auto node = std::make_shared<autograd::FunctionNode>(fmt::format("the compiled function \"{}\"", name_), place_, std::move(edges),
                                                       [made, sizes = has_gradients ? made->sizes_of(operands) : std::vector<int64_t>()](
                                                           std::vector<Tensor> kept, const std::vector<Tensor>& cotangents) {
                                                         TOROID_USER_CHECK(made->error().empty(), "{}", made->error());
                                                         return made->backward(std::move(kept), cotangents, sizes);
                                                       });
  TapedPasses::Results out;
  if (has_gradients) {
    const GradModeScope off(false);
    for (size_t i : made->read_operands()) {
      node->keep(operands[i], fmt::format("its input {}", i));
      if (writes(i)) node->kept().back().make_own();
    }
    out = made->forward(operands);
    for (auto& w : written_)
      if (w) note_writes(operands, std::span(&*w, 1));
    for (size_t i : made->read_results()) node->keep(out.results[i], fmt::format("its result {}", i));
    for (auto& t : out.saved) node->keep(t, "what it saved");
  } else {
    const GradModeScope off(false);
    out.results = program();
  }
  set_results(node, *made, out.results, operands);
  return std::move(out.results);
}

}  // namespace toroid::front

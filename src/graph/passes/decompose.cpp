#include <algorithm>
#include <set>

#include "base/check.h"
#include "graph/custom.h"
#include "graph/inplace.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// Records composites as their parts; parts that are composites come back here through the dispatch hook.
class Expander : public Dispatcher {
 public:
  Expander(Recorder& recorder, bool keep_templates) : recorder_(recorder), keep_templates_(keep_templates) {}

  template <class T>
  bool expands(const ops::Op& op, const std::vector<Arg<T>>& args) const {
    if (ops::is_custom(op)) return !stays_whole(recorder_.graph(), op, args);
    return op.decompose && !is_mutating(op) && !(keep_templates_ && op.has_template && !drops_out(op, args));
  }

  std::vector<Tensor> call(const ops::Op& op, CallArgs args, const std::source_location& where) override {
    if (!expands(op, args)) return recorder_.call(op, std::move(args), where);
    DispatchScope scope(*this);
    return op.decompose(ops::CallReader(op, args));
  }
  bool decide(const sym::Relation& r) override { return recorder_.decide(r); }
  void require(const sym::Relation& r, const std::string& error) override { recorder_.require(r, error); }
  int64_t specialize(const Expr& e) override { return recorder_.specialize(e); }
  void read(const Tensor& t, std::string_view what, const std::source_location& where) override { recorder_.read(t, what, where); }
  Tensor move(const Tensor& t, const Device& device, const std::source_location& where) override {
    return Dispatcher::move(t, device, where);
  }
  bool copy(const Tensor& from, const Tensor& to) override { return Dispatcher::copy(from, to); }

 private:
  // No template draws random numbers.
  template <class T>
  static bool drops_out(const ops::Op& op, const std::vector<Arg<T>>& args) {
    int at = op.schema.find("dropout_p");
    auto* p = at < 0 ? nullptr : std::get_if<double>(&args[static_cast<size_t>(at)]);
    return p && *p > 0;
  }

  Recorder& recorder_;
  bool keep_templates_;
};

std::unique_ptr<Graph> run(const Graph& g, bool keep_templates) {
  Rebuild out(g);
  Expander expander(out.recorder(), keep_templates);
  // Writes into an input's own memory are done as they are: what they expand to would copy all of it.
  std::set<const Node*> whole;
  if (keep_templates)
    for (auto& chain : inplace_chains(g)) whole.insert(chain.writes.begin(), chain.writes.end());
  auto expands = [&](const auto& n) { return expander.expands(*n->op, n->args) && !whole.count(n.get()); };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), expands)) return nullptr;
  for (auto& n : g.nodes) {
    if (!expands(n))
      out.copy(*n);
    else
      out.replace(*n, [&] { return expander.call(*n->op, out.args(*n), std::source_location::current()); });
  }
  return out.finish();
}

}  // namespace

std::unique_ptr<Graph> decompose(const Graph& g) { return run(g, false); }
std::unique_ptr<Graph> decompose_keeping_templates(const Graph& g) { return run(g, true); }

}  // namespace toroid::graph

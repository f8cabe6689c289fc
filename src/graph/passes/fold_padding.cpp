#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/log.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// Arguments of `convolution` and `constant_pad_nd`.
constexpr size_t kPadding = 4, kTransposed = 6, kWidths = 1, kFill = 2;

bool is_zero(const NodeArg& a) {
  if (auto* e = std::get_if<Expr>(&a)) return *e == Expr(0);
  auto* d = std::get_if<double>(&a);
  return std::holds_alternative<std::monostate>(a) || (d && *d == 0);
}

// The padding that a convolution does itself when it reads what `pad` reads: zeros, as many before as after, in dimensions of its window.
std::optional<std::vector<Expr>> joint_padding(const Node& pad, const Node& convolution) {
  auto* of_window = std::get_if<std::vector<Expr>>(&convolution.args[kPadding]);
  auto* widths = std::get_if<std::vector<Expr>>(&pad.args[kWidths]);
  if (!of_window || !widths || !is_zero(pad.args[kFill])) return std::nullopt;
  std::vector<Expr> out = *of_window;
  for (size_t i = 0; i + 1 < widths->size(); i += 2) {  // the last dimension comes first
    const auto before = (*widths)[i].maybe_constant(), after = (*widths)[i + 1].maybe_constant();
    if (!before || before != after || *before < 0) return std::nullopt;
    if (i / 2 < out.size())
      out[out.size() - 1 - i / 2] = out[out.size() - 1 - i / 2] + Expr(*before);
    else if (*before != 0)
      return std::nullopt;
  }
  return out;
}

struct Fold {
  const Node* pad;
  std::vector<Expr> padding;
};

// Of each convolution that takes on a padding which nothing else reads.
std::unordered_map<const Node*, Fold> find_folds(const Graph& g) {
  std::unordered_map<const Value*, size_t> uses;
  for (auto& n : g.nodes) for_each_operand(*n, [&](const Value* used) { ++uses[used]; });
  for (auto& o : g.outputs)
    if (o.value) ++uses[o.value];
  std::unordered_map<const Node*, Fold> out;
  for (auto& n : g.nodes) {
    if (n->op->name != "convolution" || std::get<bool>(n->args[kTransposed])) continue;
    const auto* input = std::get<Value*>(n->args[0]);
    const Node* pad = input->producer;
    if (!pad || pad->op->name != "constant_pad_nd" || uses[input] != 1) continue;
    if (auto padding = joint_padding(*pad, *n)) out.emplace(n.get(), Fold{pad, std::move(*padding)});
  }
  return out;
}

}  // namespace

std::unique_ptr<Graph> fold_padding(const Graph& g) {
  const auto folds = find_folds(g);
  if (folds.empty()) return nullptr;
  const auto is_folded = [&](const Node* n) { return std::any_of(folds.begin(), folds.end(), [&](auto& f) { return f.second.pad == n; }); };
  Rebuild out(g);
  for (auto& n : g.nodes) {
    if (is_folded(n.get())) {
      out.set(n->results[0], out.at(std::get<Value*>(n->args[0])));
      continue;
    }
    const auto fold = folds.find(n.get());
    if (fold == folds.end()) {
      out.copy(*n);
      continue;
    }
    const auto& [pad, padding] = fold->second;
    out.replace(*n, [&] {
      CallArgs args = out.args(*n);
      args[kPadding] = padding;
      return ops::call(*n->op, std::move(args));
    });
    if (log_enabled(Artifact::Graph))
      log(Artifact::Graph, fmt::format("fold_padding: {} reads the input of {} and pads it itself, by {}", n->results[0]->name,
                                       pad->results[0]->name, to_string(NodeArg(padding))));
  }
  return out.finish();
}

}  // namespace toroid::graph

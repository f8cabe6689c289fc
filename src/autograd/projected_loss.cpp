#include "autograd/projected_loss.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "graph/pass.h"
#include "graph/passes/rebuild.h"
#include "ops/rows/forms.h"

namespace toroid::autograd {

using graph::Graph;
using graph::Value;
using namespace ops::forms;

namespace {

const Value* operand(const graph::Node& n, std::string_view name) {
  const int at = n.op->schema.find(name);
  const auto* v = at < 0 ? nullptr : std::get_if<Value*>(&n.args[static_cast<size_t>(at)]);
  return v ? *v : nullptr;
}

template <class T>
std::optional<T> argument(const graph::Node& n, std::string_view name) {
  const int at = n.op->schema.find(name);
  const auto* a = at < 0 ? nullptr : std::get_if<T>(&n.args[static_cast<size_t>(at)]);
  return a ? std::optional<T>(*a) : std::nullopt;
}

bool is_one_of(const graph::Node& n, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), n.op->name) != names.end();
}

struct ProjectedLoss {
  const Value *input = nullptr, *weight = nullptr, *bias = nullptr, *target = nullptr;
  bool is_turned = false;  // the weight is [features, classes]
  int64_t reduction = 1, ignore = -100, rows = 0;
};

class Finder {
 public:
  explicit Finder(const Graph& g) {
    for (auto& n : g.nodes) graph::for_each_operand(*n, [&](const Value* v) { ++readers_[v]; });
    for (auto& o : g.outputs)
      if (o.value) ++readers_[o.value];
  }

  std::optional<ProjectedLoss> find(const graph::Node& loss) const {
    if (loss.op->name != "cross_entropy_loss" || operand(loss, "weight")) return std::nullopt;
    ProjectedLoss out;
    out.target = operand(loss, "target");
    const auto reduction = argument<Expr>(loss, "reduction"), ignore = argument<Expr>(loss, "ignore_index");
    if (!reduction || !ignore || !ignore->is_const() || argument<double>(loss, "label_smoothing").value_or(0) != 0) return std::nullopt;
    out.reduction = reduction->constant(), out.ignore = ignore->constant();
    const Value* scores = operand(loss, "self");
    if (out.reduction == 0 || !out.target || is_float(out.target->type.dtype) || scores->type.dim() != 2) return std::nullopt;
    const graph::Node* product = product_of(scores);
    if (!product) return std::nullopt;
    set_operands(*product, out);
    const auto rows = scores->type.sizes[0].maybe_constant(), classes = scores->type.sizes[1].maybe_constant();
    if (!out.weight || out.weight->type.dim() != 2 || !rows || !classes || *classes == 0) return std::nullopt;
    const int64_t row_bytes = *classes * static_cast<int64_t>(size_of(product->results[0]->type.dtype));
    if (*rows * row_bytes < kLargeScores) return std::nullopt;
    const int64_t parts = (*rows * row_bytes + kPartOfScores - 1) / kPartOfScores;
    out.rows = (*rows + parts - 1) / parts;
    return out;
  }

 private:
  // What the scores are, through casts to f32 and views that only join rows; null where something else reads one of them.
  const graph::Node* product_of(const Value* v) const {
    const Expr classes = v->type.sizes.back();
    while (v->producer && readers_.at(v) == 1 && !v->type.sizes.empty() && v->type.sizes.back() == classes) {
      const graph::Node& n = *v->producer;
      if (is_one_of(n, {"linear", "matmul", "mm"})) return &n;
      const bool casts = is_one_of(n, {"_to_copy", "to.dtype"}) && v->type.dtype == DType::F32;
      if (!casts && !is_one_of(n, {"view", "reshape", "flatten.using_ints", "_unsafe_view"})) return nullptr;
      v = std::get<Value*>(n.args[0]);
    }
    return nullptr;
  }

  static void set_operands(const graph::Node& product, ProjectedLoss& out) {
    if (product.op->name == "linear") {
      out.input = operand(product, "input"), out.weight = operand(product, "weight"), out.bias = operand(product, "bias");
      return;
    }
    out.input = std::get<Value*>(product.args[0]), out.weight = std::get<Value*>(product.args[1]);
    out.is_turned = true;
  }

  std::unordered_map<const Value*, int> readers_;
};

}  // namespace

std::unique_ptr<Graph> with_projected_losses(const Graph& g) {
  const Finder finder(g);
  std::unordered_map<const graph::Node*, ProjectedLoss> found;
  for (auto& n : g.nodes)
    if (auto loss = finder.find(*n)) found.emplace(n.get(), *loss);
  if (found.empty()) return nullptr;
  graph::Rebuild out(g);
  for (auto& n : g.nodes) {
    const auto it = found.find(n.get());
    if (it == found.end()) {
      out.copy(*n);
      continue;
    }
    const ProjectedLoss& loss = it->second;
    out.replace(*n, [&] {
      const Tensor x = out.at(loss.input), w = out.at(loss.weight), target = out.at(loss.target);
      const Tensor rows = ops::call1("reshape", {x, Sizes{size_at(target, 0), size_at(x, x.dim() - 1)}});
      const Tensor weight = loss.is_turned ? ops::call1("t", {w}) : w;
      return std::vector<Tensor>{ops::call1("prims.linear_cross_entropy", {rows, weight, target, out.at_or_undefined(loss.bias),
                                                                           num(loss.reduction), num(loss.ignore), num(loss.rows)})};
    });
  }
  const graph::PassRow dce = graph::find_pass("dce");
  return graph::run_passes(out.finish(), std::span(&dce, 1));
}

}  // namespace toroid::autograd

#include "front/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/options.h"
#include "front/taped_function.h"
#include "graph/writes.h"

namespace toroid::front {
namespace {

constexpr std::string_view kProducts[] = {"linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "conv1d", "conv2d", "conv3d", "convolution"};
constexpr int64_t kLeastElements = 4096;  // of all such weights: below, arranging them costs next to nothing

bool is_product(const ops::Op& op) {
  const std::string_view name = std::string_view(op.name).substr(0, op.name.find('.'));
  return std::find(std::begin(kProducts), std::end(kProducts), name) != std::end(kProducts);
}

// What a value is a view of.
const graph::Value* base_of(const graph::Value* v) {
  while (v->producer && graph::is_alias_view(*v->producer->op)) v = std::get<graph::Value*>(v->producer->args[0]);
  return v;
}

}  // namespace

std::string freezing_hint(const graph::Graph& g, const CompileOptions& options, const Device& device) {
  if (device.is_cuda() || options.get(options::kFreezing) || !options.get(options::kTemplates)) return "";
  const std::vector<size_t> written = written_inputs(g);
  const auto is_users = [&](size_t i) { return g.inputs[i].kind == graph::InputKind::User; };
  if (!std::all_of(written.begin(), written.end(), is_users)) return "";  // caches: others take their places, which would compile anew
  std::set<const graph::Value*> captured, weights;
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (g.inputs[i].kind != graph::InputKind::User && std::find(written.begin(), written.end(), i) == written.end())
      captured.insert(g.inputs[i].value);
  for (auto& n : g.nodes)
    if (is_product(*n->op))
      graph::for_each_operand(*n, [&](const graph::Value* v) {
        if (v && v->type.sizes.size() >= 2 && captured.count(base_of(v))) weights.insert(base_of(v));
      });
  int64_t elements = 0;
  for (auto* w : weights) {
    int64_t n = 1;
    for (auto& s : w->type.sizes) n *= s.maybe_constant().value_or(0);
    elements += n;
  }
  if (elements < kLeastElements) return "";
  return fmt::format(
      "{} captured weight{} of products may change between calls, so that each call arranges {} for the kernels again; where they stay as "
      "they are, compile(fn, {{.options = {{{{\"freezing\", \"1\"}}}}}}) arranges them once",
      weights.size(), weights.size() == 1 ? "" : "s", weights.size() == 1 ? "it" : "them");
}

}  // namespace toroid::front

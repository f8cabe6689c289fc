#include <algorithm>
#include <set>

#include "base/check.h"
#include "graph/custom.h"
#include "graph/inplace.h"
#include "graph/passes/expander.h"
#include "graph/passes/passes.h"
#include "graph/passes/rebuild.h"

namespace toroid::graph {
namespace {

// The tensor that a parameter was given, or null.
const Value* given(const Node& n, std::string_view param) {
  const auto* v = std::get_if<Value*>(&n.args[static_cast<size_t>(n.op->schema.find(param))]);
  return v ? *v : nullptr;
}

// Whether the gradient of attention is one that a template computes. Lowering has the last word, of memory.
bool is_attention_gradient(const Node& n) {
  if (n.op->name != "_scaled_dot_product_flash_attention_for_cpu_backward") return false;
  if (given(n, "attn_mask")) return false;
  const TensorType &query = given(n, "query")->type, &key = given(n, "key")->type, &value = given(n, "value")->type;
  return is_half(query.dtype) && query.sizes.size() == 4 && key.sizes.size() == 4 && query.sizes[0] == key.sizes[0] &&
         key.sizes[3].is_const() && key.sizes[3] == value.sizes[3];
}

// Whether it is the gradient of a convolution's weights that a template may compute; lowering has the last word, again.
bool is_weight_gradient(const Node& n) {
  if (n.op->name != "prims.convolution_weight_gradient") return false;
  const TensorType& input = given(n, "input")->type;
  return is_half(input.dtype) && input.sizes.size() == 4;
}

enum class Keep : uint8_t { Nothing, Templates, Gradients };  // each with what stands before it

std::unique_ptr<Graph> run(const Graph& g, Keep keep) {
  const bool keep_templates = keep != Keep::Nothing;
  Rebuild out(g);
  Expander expander(out.recorder(), [&](const ops::Op& op, bool draws) { return keep_templates && op.has_template && !draws; });
  // Writes into an input's own memory are done as they are: what they expand to would copy all of it.
  std::set<const Node*> whole;
  if (keep_templates)
    for (auto& chain : inplace_chains(g)) whole.insert(chain.writes.begin(), chain.writes.end());
  if (keep == Keep::Gradients)
    for (auto& n : g.nodes)
      if (is_attention_gradient(*n) || is_weight_gradient(*n)) whole.insert(n.get());
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

std::unique_ptr<Graph> decompose(const Graph& g) { return run(g, Keep::Nothing); }
std::unique_ptr<Graph> decompose_keeping_templates(const Graph& g) { return run(g, Keep::Templates); }
std::unique_ptr<Graph> decompose_keeping_gradients(const Graph& g) { return run(g, Keep::Gradients); }

}  // namespace toroid::graph

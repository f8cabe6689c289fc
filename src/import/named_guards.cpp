#include "import/named_guards.h"

#include <fmt/format.h>

namespace toroid::import {
namespace {

std::string origin_text(const graph::Graph& g, const Expr& symbol) {
  for (auto& in : g.inputs)
    for (size_t d = 0; d < in.value->type.sizes.size(); ++d)
      if (in.kind == graph::InputKind::User && in.value->type.sizes[d] == symbol)
        return fmt::format("{} is dimension {} of the input \"{}\"", sym::to_string(symbol), d, in.name);
  return {};
}

}  // namespace

std::string origins_text(const graph::Graph& g, const Expr& e) {
  std::string out;
  sym::for_each_symbol(e, [&](const Expr& s) {
    const std::string text = origin_text(g, s);
    if (!text.empty() && out.find(text) == std::string::npos) out += (out.empty() ? "" : ", ") + text;
  });
  return out;
}

void name_guards(graph::Graph& g, size_t known, std::string_view node, std::string_view place, std::string_view remedy) {
  for (size_t i = known; i < g.guards.size(); ++i) {
    sym::Guard& guard = g.guards[i];
    if (guard.is_requirement()) continue;
    const std::string origins = origins_text(g, guard.a - guard.b);
    guard.error = fmt::format("{}: this is computed for some sizes alone{}; {} (called at {})", node,
                              origins.empty() ? "" : " (" + origins + ")", remedy, place);
  }
}

}  // namespace toroid::import

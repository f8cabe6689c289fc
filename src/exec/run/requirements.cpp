#include "exec/run/requirements.h"

#include <algorithm>

#include "base/check.h"

namespace toroid::exec {
namespace {

bool is_known(const Expr& e, const Symbols& symbols) {
  bool known = true;
  sym::for_each_symbol(e, [&](const Expr& s) {
    known = known && std::any_of(symbols.begin(), symbols.end(), [&](auto& v) { return v.first == s.node()->name; });
  });
  return known;
}

}  // namespace

void check_guards(const Plan& plan, const Symbols& symbols, const Expr* newest) {
  for (auto& g : plan.guards) {
    if (newest && !sym::depends_on(g.a, *newest) && !sym::depends_on(g.b, *newest)) continue;
    if (!is_known(g.a, symbols) || !is_known(g.b, symbols)) continue;
    const auto value = [&](const sym::Node& s) { return value_of(symbols, s.name); };
    if (sym::holds(g, value)) continue;
    if (g.is_requirement()) fail<UserError>("{}", sym::refusal(g, value));
    fail<UserError>("these sizes are outside of what the program was compiled for: {} does not hold ({})", sym::to_string(g),
                    to_string(symbols));
  }
}

}  // namespace toroid::exec

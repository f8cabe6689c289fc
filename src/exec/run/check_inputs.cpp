// What an executable asks of the caller's tensors, and the sizes that they tell.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "exec/run/executable.h"
#include "exec/run/sizes.h"

namespace toroid::exec {

namespace {

// The only symbol of e without a value, and the value with which e is `size` or what comes next below it; nothing when e has none, several,
// or is not linear in it. (Where no input has a symbol as its size, 2 s tells s.)
std::optional<std::pair<const sym::Node*, int64_t>> solve(const Expr& e, int64_t size, const Symbols& symbols) {
  std::optional<Expr> unknown;
  bool several = false;
  sym::for_each_symbol(e, [&](const Expr& s) {
    if (std::any_of(symbols.begin(), symbols.end(), [&](auto& v) { return v.first == s.node()->name; })) return;
    several = several || (unknown && !(*unknown == s));
    unknown = s;
  });
  if (!unknown || several) return std::nullopt;
  auto coefficient = sym::linear_coefficient(e, *unknown);
  auto factor = coefficient ? coefficient->maybe_constant() : std::nullopt;
  if (!factor || *factor == 0) return std::nullopt;
  const int64_t rest = evaluate(e - Expr(*factor) * *unknown, symbols);
  return std::pair(unknown->node(), (size - rest) / *factor);
}

}  // namespace

void Executable::check_inputs(std::span<const Tensor> arguments, Symbols& symbols) const {
  if (arguments.size() != users_) {
    std::map<int, std::string> names;
    for (size_t i : user_inputs_) names[plan_.inputs[i].user] = plan_.inputs[i].name;
    std::string all;
    for (auto& [place, name] : names) all += (all.empty() ? "" : ", ") + name;
    fail<UserError>("the program takes {} tensors ({}), {} were given", users_, all, arguments.size());
  }
  for (size_t i : user_inputs_) {
    const InputPlan& in = plan_.inputs[i];
    const Tensor& t = arguments[static_cast<size_t>(in.user)];
    const Device device = plan_.device;
    auto where = [&] { return fmt::format("input {} (\"{}\")", in.user, in.name); };
    TOROID_USER_CHECK(t.defined(), "{} is an undefined tensor", where());
    TOROID_USER_CHECK(t.device() == device, "{} must be on {}, it is on {}; move it there by to()", where(), to_string(device),
                      to_string(t.device()));
    if (t.impl()->storage->lent) check_contents(t, std::source_location::current());
    TOROID_USER_CHECK(t.dtype() == in.type.dtype, "{} must have dtype {}, it has {}", where(), name_of(in.type.dtype), name_of(t.dtype()));
    TOROID_USER_CHECK(t.sizes().size() == in.type.sizes.size(), "{} must have sizes {}, it has {}", where(), to_string(in.type),
                      sizes_text(t.sizes()));
    for (size_t d = 0; d < in.type.sizes.size(); ++d) {
      const Expr& e = in.type.sizes[d];
      int64_t got = t.sizes()[d];
      if (e.kind() == sym::Kind::Symbol) {
        const std::string& name = e.node()->name;
        auto known = std::find_if(symbols.begin(), symbols.end(), [&](auto& s) { return s.first == name; });
        if (known == symbols.end()) {
          TOROID_USER_CHECK(got >= e.node()->lo && got <= e.node()->hi, "{}: dimension {} must lie in {}..{}, it is {}", where(), d,
                            e.node()->lo, e.node()->hi >= sym::kInf - 1 ? std::string("any") : std::to_string(e.node()->hi), got);
          symbols.emplace_back(name, got);
        } else {
          TOROID_USER_CHECK(known->second == got, "{}: dimension {} must be {} (= {} of an earlier input), it is {}", where(), d,
                            known->second, name, got);
        }
      } else if (e.is_const()) {
        TOROID_USER_CHECK(e.constant() == got, "{}: dimension {} must be {}, it is {}; expected {}, got {}", where(), d, e.constant(), got,
                          to_string(in.type), sizes_text(t.sizes()));
      }
    }
  }
  for (size_t i : user_inputs_) {  // sizes that are expressions of other sizes
    const InputPlan& in = plan_.inputs[i];
    for (size_t d = 0; d < in.type.sizes.size(); ++d) {
      const Expr& e = in.type.sizes[d];
      if (e.is_const() || e.kind() == sym::Kind::Symbol) continue;
      if (auto solved = solve(e, arguments[static_cast<size_t>(in.user)].sizes()[d], symbols)) {
        auto& [s, value] = *solved;
        TOROID_USER_CHECK(value >= s->lo && value <= s->hi, "input {} (\"{}\"): dimension {} is {} with {} in {}..{}, it is {}", in.user,
                          in.name, d, sym::to_string(e), s->name, s->lo, s->hi, arguments[static_cast<size_t>(in.user)].sizes()[d]);
        symbols.emplace_back(s->name, value);
      }
      int64_t want = evaluate(e, symbols), got = arguments[static_cast<size_t>(in.user)].sizes()[d];
      TOROID_USER_CHECK(want == got, "input {} (\"{}\"): dimension {} must be {} = {}, it is {}", in.user, in.name, d, sym::to_string(e),
                        want, got);
    }
  }
}

}  // namespace toroid::exec

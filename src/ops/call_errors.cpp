#include "ops/call_errors.h"

#include <string_view>

#include "base/check.h"
#include "ops/custom.h"

namespace toroid::ops {

std::string call_error(std::string_view what, const Op& op, std::string_view place) {
  constexpr std::string_view kPlace = " (called at ";
  what = what.substr(0, what.find(kPlace));  // that of a part is a line of the library
  // "sum" and "sum.dim_IntList" are one to the caller, as "add_" is "add".
  const std::string_view name = plain_name(op);
  const std::string_view stem = name.substr(0, name.find_last_not_of('_') + 1);
  const bool named = what.starts_with(stem) && what.substr(stem.size()).find_first_of("._:") == 0;
  return fmt::format("{}{}{}{}{})", named ? "" : name, named ? "" : ": ", what, kPlace, place);
}

void fail_call(const UserError& e, const Op& op, const std::source_location& where) {
  if (is_custom(op)) fail<UserError>("{} (in {}, called at {})", e.what(), op.name, place_text(where));  // what its own function threw
  fail<UserError>("{}", call_error(e.what(), op, place_text(where)));
}

void check_fits(const Op& op, const std::vector<Expr>& result, const std::vector<Expr>& self,
                const std::function<void(const sym::Relation&, const std::string& error)>& demand) {
  const auto text = [](const std::vector<Expr>& sizes) {
    std::string out = "[";
    for (size_t d = 0; d < sizes.size(); ++d) out += (d ? ", " : "") + sym::to_string(sizes[d]);
    return out + "]";
  };
  const auto error = [&] {
    return fmt::format("{}: the result has the sizes {}, which do not fit into the tensor that is written, {}", op.name, text(result),
                       text(self));
  };
  if (result.size() > self.size()) fail<UserError>("{}", error());
  for (size_t k = 1; k <= result.size(); ++k) {
    const Expr &r = result[result.size() - k], &s = self[self.size() - k];
    const auto fits = r == Expr(1) ? true : sym::known({sym::Rel::Eq, r, s});
    if (fits && !*fits) fail<UserError>("{}", error());
    if (!fits) demand({sym::Rel::Eq, r, s}, error());
  }
}

}  // namespace toroid::ops

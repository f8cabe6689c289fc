#include "exec/run/sizes.h"

#include "base/check.h"

namespace toroid::exec {

std::string to_string(const Symbols& symbols) {
  std::string out;
  for (auto& [name, value] : symbols)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", sym::is_identifier(name) ? name : sym::quoted(name), value);
  return out.empty() ? "fixed sizes" : out;
}

int64_t value_of(const Symbols& symbols, const std::string& name) {
  for (auto& [n, v] : symbols)
    if (n == name) return v;
  fail<InternalError>("the size {} has no value yet", name);
}

int64_t evaluate(const Expr& e, const Symbols& symbols) {
  if (auto c = e.maybe_constant()) return *c;
  return sym::evaluate(e, [&](const sym::Node& s) {
    TOROID_CHECK(sym::is_size(s), "{} in {} is no size", s.name, sym::to_string(e));
    return value_of(symbols, s.name);
  });
}

std::vector<int64_t> evaluate(const std::vector<Expr>& list, const Symbols& symbols) {
  std::vector<int64_t> out;
  for (auto& e : list) out.push_back(evaluate(e, symbols));
  return out;
}

std::string sizes_text(const std::vector<int64_t>& sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + std::to_string(sizes[i]);
  return out + "]";
}

}  // namespace toroid::exec

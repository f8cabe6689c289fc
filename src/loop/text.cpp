// Text form of loop nodes.
#include <cmath>

#include "base/check.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

constexpr const char* kModes[] = {"set", "add", "mul", "max", "min"};

std::string number_text(const Number& v) {
  if (v.kind == Number::Kind::Bool) return v.i ? "true" : "false";
  if (v.kind == Number::Kind::Int) return std::to_string(v.i);
  if (std::isnan(v.f)) return "nan";
  if (std::isinf(v.f)) return v.f < 0 ? "-inf" : "inf";
  return fmt::format("{}", v.f);
}

}  // namespace

std::string_view name_of(Reduction kind) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "logsumexp"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_string(const Domain& d, const Body& b) {
  std::string out = "loop (";
  for (size_t i = 0; i < d.vars.size(); ++i)
    out += fmt::format("{}{}{}: {}", i ? ", " : "", d.vars[i].reduction ? "r " : "", sym::to_string(d.vars[i].symbol),
                       sym::to_string(d.vars[i].extent()));
  out += ") {\n";
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    std::string mask = s.mask >= 0 ? fmt::format(" if v{}", s.mask) : "";
    if (s.step == Step::Store) {
      std::string mode = s.mode == StoreMode::Set ? "" : fmt::format(" {}", kModes[static_cast<int>(s.mode)]);
      out += fmt::format("  store %{} [{}] v{}{}{}\n", s.buffer, sym::to_string(s.index), s.args[0], mode, mask);
      continue;
    }
    out += fmt::format("  v{}: {} = ", k, name_of(s.dtype));
    switch (s.step) {
      case Step::Load:
        out += fmt::format("load %{} [{}]{}", s.buffer, sym::to_string(s.index), mask);
        break;
      case Step::Check:
        out += fmt::format("check %{} v{} below {} site {}{}", s.buffer, s.args[0], sym::to_string(s.index), s.value.i, mask);
        break;
      case Step::Index:
        out += fmt::format("index [{}]", sym::to_string(s.index));
        break;
      case Step::Reduce:
      case Step::Scan:
        out += fmt::format("{} {} v{}", s.step == Step::Scan ? "scan" : "reduce", name_of(s.reduction), s.args[0]);
        break;
      case Step::Accumulate:
        out += s.value.i == 0 ? "accumulate" : "accumulate second";
        break;
      default:
        if (s.op == ScalarOp::Const) {
          out += "const " + number_text(s.value);
        } else {
          out += name_of(s.op);
          for (int a : s.args)
            if (a >= 0) out += fmt::format(" v{}", a);
        }
    }
    out += '\n';
  }
  return out + "}\n";
}

}  // namespace toroid::loop

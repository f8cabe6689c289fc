// Text form of loop nodes.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>

#include "base/check.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

constexpr const char* kModes[] = {"set", "add", "mul", "max", "min", "sum"};

std::string number_text(const Number& v) {
  if (v.kind == Number::Kind::Bool) return v.i ? "true" : "false";
  if (v.kind == Number::Kind::Int) return std::to_string(v.i);
  if (std::isnan(v.f)) return "nan";
  if (std::isinf(v.f)) return v.f < 0 ? "-inf" : "inf";
  return fmt::format("{}", v.f);
}

std::string bound_text(int64_t v) { return v >= sym::kInf ? "inf" : v <= -sym::kInf ? "-inf" : std::to_string(v); }

bool is_value_name(const std::string& name) {
  return name.size() > 1 && name[0] == 'v' && name.find_first_not_of("0123456789", 1) == std::string::npos;
}

// What the symbols of a loop are called in its text: no two of them alike.
class Names {
 public:
  explicit Names(const Domain& d) {
    for (auto& v : d.vars) {
      const sym::Node& n = *v.symbol.node();
      std::string name = n.name;
      for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
      if (!sym::is_identifier(name) || is_value_name(name) || name == "r") name = "var_" + name;  // r: the mark of reduction variables
      std::string own = name;
      for (int k = 2; !taken_.insert(own).second; ++k) own = name + "_" + std::to_string(k);
      names_.emplace(n.id, own);
      listed_.push_back(n.id);
    }
  }

  std::string text(const Expr& e) const {
    return sym::to_string(e, [&](const sym::Node& n) { return of(n); });
  }

  // "[16*v3 + i0] where v3 in 0..383".
  std::string address(const Expr& e) const {
    std::map<int, std::string> known;
    sym::for_each_symbol(e, [&](const Expr& s) {
      const sym::Node& n = *s.node();
      if (const int k = step_of_symbol(n); k >= 0 && (n.lo > -sym::kInf || n.hi < sym::kInf))
        known.emplace(k, fmt::format("{} in {}..{}", n.name, bound_text(n.lo), bound_text(n.hi)));
    });
    std::string out = "[" + text(e) + "]";
    for (auto& [k, range] : known) out += (k == known.begin()->first ? " where " : ", ") + range;
    return out;
  }

  // " order (i0, i1)" where the variables were made in another order than they are listed in.
  std::string order() const {
    if (std::is_sorted(listed_.begin(), listed_.end())) return "";
    std::string out;
    for (auto& [id, name] : names_) out += (out.empty() ? "" : ", ") + name;
    return " order (" + out + ")";
  }

 private:
  std::string of(const sym::Node& n) const {
    if (sym::is_size(n))
      return sym::is_identifier(n.name) && !is_value_name(n.name) && !taken_.count(n.name) ? n.name : sym::quoted(n.name);
    if (!sym::is_loop_var(n)) return n.name;
    const auto it = names_.find(n.id);
    return it != names_.end() ? it->second : n.name + "?";  // of no variable of this loop
  }

  std::map<int64_t, std::string> names_;  // by the ids of variables
  std::vector<int64_t> listed_;           // the ids, as the domain lists them
  std::set<std::string> taken_;
};

}  // namespace

std::string_view name_of(Reduction kind) {
  constexpr std::string_view kNames[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "logsumexp"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_string(const Domain& d, const Body& b) {
  const Names names(d);
  std::string out = "loop (";
  for (size_t i = 0; i < d.vars.size(); ++i)
    out += fmt::format("{}{}{}: {}", i ? ", " : "", d.vars[i].reduction ? "r " : "", names.text(d.vars[i].symbol),
                       names.text(d.vars[i].extent()));
  out += ")" + names.order() + " {\n";
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    std::string mask = s.mask >= 0 ? fmt::format(" if v{}", s.mask) : "";
    if (s.step == Step::Store) {
      std::string mode = s.mode == StoreMode::Set ? "" : fmt::format(" {}", kModes[static_cast<int>(s.mode)]);
      out += fmt::format("  store %{} {} v{}{}{}\n", s.buffer, names.address(s.index), s.args[0], mode, mask);
      continue;
    }
    out += fmt::format("  v{}: {} = ", k, name_of(s.dtype));
    switch (s.step) {
      case Step::Load:
        out += fmt::format("load %{} {}{}", s.buffer, names.address(s.index), mask);
        break;
      case Step::Check:
        out += fmt::format("check %{} v{} below {} site {}{}", s.buffer, s.args[0], names.address(s.index), s.value.i, mask);
        break;
      case Step::Index:
        out += "index " + names.address(s.index);
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

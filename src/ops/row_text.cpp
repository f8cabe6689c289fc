#include "ops/row_text.h"

#include <fmt/format.h>

namespace toroid::ops {
namespace {

std::string default_text(const Param& p) {
  if (!p.has_default) return "";
  const auto& v = p.default_value;
  if (auto* e = std::get_if<Expr>(&v)) return fmt::format("{}", e->constant());
  if (auto* d = std::get_if<double>(&v)) return fmt::format("{}", *d);
  if (auto* b = std::get_if<bool>(&v)) return *b ? "true" : "false";
  if (auto* s = std::get_if<std::string>(&v)) return fmt::format("\"{}\"", *s);
  if (auto* l = std::get_if<std::vector<Expr>>(&v)) {
    std::string out;
    for (const Expr& e : *l) out += fmt::format("{}{}", out.empty() ? "" : ", ", e.constant());
    return "[" + out + "]";
  }
  return p.list ? "[]" : "None";
}

}  // namespace

std::string schema_text(const Op& op) {
  static constexpr const char* kTypes[] = {"Tensor", "Scalar", "int", "float", "bool", "str", "ScalarType", "complex", "Graph", ""};
  std::string params;
  for (const Param& p : op.schema.params) {
    if (p.type == ParamType::Ignored) continue;
    const std::string fallback = default_text(p);
    params += fmt::format("{}{}{}{} {}{}", params.empty() ? "" : ", ", kTypes[static_cast<size_t>(p.type)], p.list ? "[]" : "",
                          p.optional ? "?" : "", p.name, fallback.empty() ? "" : "=" + fallback);
  }
  std::string results;
  for (const auto& r : op.schema.returns)
    results += fmt::format("{}{}{}", results.empty() ? "" : ", ", kTypes[static_cast<size_t>(r.type)], r.list ? "[]" : "");
  return fmt::format("{}({}) -> {}", op.name, params, op.schema.returns.size() == 1 ? results : "(" + results + ")");
}

std::string kind_text(const Op& op) {
  if (op.formula) return "formula";
  if (op.index_map) return "view";
  if (op.decompose) return op.has_template ? "template or composite" : "composite";
  return "kernel";
}

std::string base_name(const Op& op) {
  const size_t space = space_of(op.name).size();
  return op.name.substr(0, op.name.find('.', space));
}

std::string table_name(std::string_view written) {
  std::string name(written);
  for (size_t at; (at = name.find("::")) != name.npos;) name.replace(at, 2, ".");
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {{"torch.ops.", ""},
                                                                         {"aten.", ""},
                                                                         {"torch.nn.functional.", ""},
                                                                         {"torch.special.", "special_"},
                                                                         {"torch.linalg.", "linalg_"},
                                                                         {"torch.fft.", "fft_"},
                                                                         {"torch.Tensor.", ""},
                                                                         {"torch.", ""},
                                                                         {"special.", "special_"},
                                                                         {"linalg.", "linalg_"},
                                                                         {"fft.", "fft_"}};
  for (auto [prefix, in_place] : kPrefixes)
    if (name.starts_with(prefix)) name = std::string(in_place) + name.substr(prefix.size());
  if (name.ends_with(".default")) name.resize(name.size() - 8);
  return name;
}

}  // namespace toroid::ops

// toroid ops: whether there is an operation, how it is defined, and what gradients it has.
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "autograd/rule.h"
#include "base/text.h"
#include "cli/commands.h"
#include "import/onnx/operators.h"
#include "ops/descriptions.h"
#include "ops/refused.h"
#include "ops/row_text.h"
#include "ops/slopes.h"
#include "ops/table.h"

namespace toroid::cli {
namespace {

using ops::Op;

// What gradients go through: a word for programs, and a sentence.
struct Gradient {
  const char* word;
  const char* text;
};

Gradient gradient_of(const Op& op) {
  const Op& row = op.inplace_of ? *op.inplace_of : op;
  const bool truths =
      row.promote == ops::Promote::Compare || row.promote == ops::Promote::Logical || row.promote == ops::Promote::Predicate;
  if (row.formula && truths) return {"none", "no gradient (its results are truths)"};
  const autograd::Rule rule = autograd::find_rule(row);
  if (rule == autograd::no_gradient) return {"none", "no gradient goes through it"};
  if (row.formula && ops::find_slope(row)) return {"formula", "gradients of floats by a slope of its own (PyTorch's), not its formula's"};
  if (row.formula) return {"formula", "gradients of floats by the derivative of its formula"};
  if (row.index_map) return {"view", "gradients as of any view"};
  if (rule) return {"rule", "gradients by a rule"};
  if (row.decompose) return {"parts", "gradients as of the operations that it is made of"};
  return {"none", "no gradient"};
}

// Its form in place, which has a row of its own; null where there is none.
const Op* in_place_of(const Op& op) {
  for (const Op& row : ops::table().rows())
    if (row.inplace_of == &op) return &row;
  return nullptr;
}

// In the order of the table. All overloads where the name has none.
std::vector<const Op*> rows_of(const std::string& name) {
  std::vector<const Op*> rows;
  for (const Op& row : ops::table().rows())
    if (name.empty() ? !row.inplace_of : row.name == name || ops::base_name(row) == name) rows.push_back(&row);
  if (const Op* one = rows.empty() ? ops::table().find(name) : nullptr) rows.push_back(one);
  return rows;
}

// Names without overloads that look like it, or have it as a part.
std::vector<std::string> names_near(const std::string& name) {
  constexpr size_t kMost = 8;
  std::vector<std::string> bases;
  for (const Op& row : ops::table().rows())
    if (!row.inplace_of) bases.push_back(ops::base_name(row));
  std::sort(bases.begin(), bases.end());
  bases.erase(std::unique(bases.begin(), bases.end()), bases.end());
  const std::string base = name.substr(0, name.find('.', ops::space_of(name).size()));
  std::vector<std::string> near;
  for (auto& b : bases)
    if (base.size() > 2 && b.find(base) != b.npos && near.size() < kMost) near.push_back(b);
  for (auto& b : nearest_names(base, std::vector<std::string_view>(bases.begin(), bases.end())))
    if (std::find(near.begin(), near.end(), b) == near.end()) near.push_back(b);
  return near;
}

std::string json_row(const Op& op) {
  const Op* in_place = in_place_of(op);
  return fmt::format("{{\"name\":{},\"schema\":{},\"kind\":{},\"gradient\":\"{}\",\"in_place\":{},\"doc\":{}}}", json_string(op.name),
                     json_string(ops::schema_text(op)), json_string(ops::kind_text(op)), gradient_of(op).word,
                     in_place ? json_string(in_place->name) : "null", json_string(std::string(ops::description(ops::base_name(op)))));
}

void print_row(const Op& op) {
  const Op* in_place = in_place_of(op);
  fmt::print("{}\n    {}; {}{}\n", ops::schema_text(op), ops::kind_text(op), gradient_of(op).text,
             in_place ? "; in place: " + in_place->name : "");
}

// What is known about a name beside its rows; empty: nothing.
std::string known_of(const std::string& name) {
  const ops::Refused* known = ops::find_refused(name);
  if (!known) return "";
  return known->how == ops::Refusal::OtherName ? fmt::format("exported programs and the table call it {}", known->reason)
                                               : std::string(known->reason);
}

// As models name it: the domain, unless it is ONNX's own, and the name.
std::string onnx_name(const import::onnx::Operators::Listed& op) { return op.domain.empty() ? op.name : op.domain + "." + op.name; }

int list_onnx_operators(const OpsArgs& args) {
  const import::onnx::Operators& table = import::onnx::operators();
  std::vector<import::onnx::Operators::Listed> found;
  for (auto& op : table.list())
    if (args.name.empty() || args.name == op.name || args.name == onnx_name(op)) found.push_back(op);
  const auto near = found.empty() ? table.near(args.name) : std::vector<std::string>();
  const int code = found.empty() ? kMismatch : kOk;
  if (args.json) {
    std::string list, names;
    for (auto& op : found)
      list += fmt::format("{}{{\"name\":{},\"domain\":{},\"versions\":[{}]}}", list.empty() ? "" : ",\n ", json_string(op.name),
                          json_string(op.domain), fmt::join(op.versions, ","));
    for (auto& n : near) names += (names.empty() ? "" : ",") + json_string(n);
    fmt::print("{{\"name\":{},\"found\":{},\"operators\":[{}],\"near\":[{}]}}\n", json_string(args.name), !found.empty(), list, names);
    return code;
  }
  for (auto& op : found)
    fmt::print("{:<44} since version {} of {}\n", onnx_name(op), fmt::join(op.versions, ", "), op.domain.empty() ? "ai.onnx" : op.domain);
  if (found.empty()) fmt::print("no: there is no operator \"{}\" of ONNX\n", args.name);
  if (!near.empty()) fmt::print("near it: {}\n", fmt::join(near, ", "));
  return code;
}

}  // namespace

int list_operations(const OpsArgs& args) {
  if (args.onnx) return list_onnx_operators(args);
  const std::string name = ops::table_name(args.name);
  const auto rows = rows_of(name);
  const std::string known = known_of(name);
  const auto near = rows.empty() ? names_near(name) : std::vector<std::string>();
  if (args.json) {
    std::string list, names;
    for (auto* row : rows) list += (list.empty() ? "" : ",\n ") + json_row(*row);
    for (auto& n : near) names += (names.empty() ? "" : ",") + json_string(n);
    fmt::print("{{\"name\":{},\"found\":{},\"rows\":[{}],\"known\":{},\"near\":[{}]}}\n", json_string(name), !rows.empty(), list,
               known.empty() ? "null" : json_string(known), names);
    return rows.empty() ? kMismatch : kOk;
  }
  if (name.empty()) {
    for (auto* row : rows) fmt::print("{:<44} {:<21} {}\n", row->name, ops::kind_text(*row), gradient_of(*row).word);
    return kOk;
  }
  for (auto* row : rows) print_row(*row);
  const auto doc = rows.empty() ? std::string_view() : ops::description(ops::base_name(*rows[0]));
  if (!doc.empty()) fmt::print("{}\n", doc);
  if (rows.empty()) fmt::print("no: there is no operation \"{}\"\n", name);
  if (!known.empty()) fmt::print("{}\n", known);
  std::string names;
  for (auto& n : near) names += (names.empty() ? "" : ", ") + n;
  if (!near.empty()) fmt::print("near it: {}\n", names);
  if (rows.empty()) fmt::print("of one's own: docs/guide/custom-ops.md; to add it to Toroid: docs/hacking.md\n");
  return rows.empty() ? kMismatch : kOk;
}

}  // namespace toroid::cli

#include "ops/stored_numbers.h"

#include <cmath>
#include <set>
#include <unordered_map>

#include "ops/table.h"

namespace toroid::ops {
namespace {

bool is_factor(const Param& p) { return p.name == "alpha" || p.name == "beta"; }

// Of "where" the operands themselves may be numbers; what is named otherwise may be of another dtype.
bool is_element(const Schema& schema, const Param& p) {
  static const std::set<std::string_view> names = {"fill_value", "value", "s", "threshold", "alpha", "beta"};
  if (p.type != ParamType::Scalar) return false;
  return names.count(p.name) > 0 || schema.name == "where.ScalarSelf" || schema.name == "where.ScalarOther";
}

std::optional<Number> number_of(const Arg<Tensor>& a) {
  if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) return Number::of(e->constant());
  if (auto* d = std::get_if<double>(&a)) return Number::of(*d);
  if (auto* b = std::get_if<bool>(&a)) return Number::of(*b);
  return std::nullopt;  // an open size is checked by nobody: it is an I64 number
}

// The dtype that the number gets: what "dtype" says, that of the operands of a sum together, else that of the first tensor.
std::optional<DType> dtype_for(const Schema& schema, const Param& number, std::span<const Arg<Tensor>> args) {
  std::optional<DType> with_dims, zero_dim;
  for (size_t i = 0; i < args.size(); ++i) {
    if (schema.params[i].type == ParamType::DType)
      if (auto* d = std::get_if<DType>(&args[i])) return *d;
    auto* t = std::get_if<Tensor>(&args[i]);
    if (!t || !t->defined() || schema.params[i].name == "condition") continue;
    if (!is_factor(number) && !number.keyword_only) {
      if (!with_dims) with_dims = t->dtype();
    } else if (schema.params[i].name != "index") {
      std::optional<DType>& slot = t->dim() > 0 ? with_dims : zero_dim;
      slot = slot ? promote_types(*slot, t->dtype()) : t->dtype();
    }
  }
  return with_dims ? with_dims : zero_dim;
}

std::unordered_map<const Op*, std::vector<size_t>> all_parameters() {
  std::unordered_map<const Op*, std::vector<size_t>> out;
  for (const Op& op : table().rows())
    for (size_t i = 0; i < op.schema.params.size(); ++i)
      if (is_element(op.schema, op.schema.params[i])) out[&op].push_back(i);
  return out;
}

}  // namespace

void check_stored_numbers(const Op& op, std::span<const Arg<Tensor>> args) {
  static const auto& parameters = *new std::unordered_map<const Op*, std::vector<size_t>>(all_parameters());
  const auto found = parameters.find(&op);
  if (found == parameters.end()) return;
  for (size_t i : found->second) {
    const Param& p = op.schema.params[i];
    const auto number = number_of(args[i]);
    if (!number) continue;
    const auto dtype = dtype_for(op.schema, p, args);
    // An operand of where() that is no integer makes the result one of floats.
    if (!dtype || !is_int(*dtype) || (op.schema.name.starts_with("where.") && number->kind == Number::Kind::Float)) continue;
    TOROID_USER_CHECK(has_room(*dtype, *number),
                      "{}: {} has no room for {} (argument \"{}\"); choose another number, or convert the tensor", op.name, name_of(*dtype),
                      to_string(*number), p.name);
    TOROID_USER_CHECK(
        !is_factor(p) || op.schema.find("other") < 0 || number->kind != Number::Kind::Float || std::trunc(number->f) == number->f,
        "{}: \"{}\" is {}, and the tensors are {}; a factor of integers is an integer", op.name, p.name, to_string(*number),
        name_of(*dtype));
  }
}

}  // namespace toroid::ops

// Calls: defaults, argument kinds, dispatch, result types.
#include <algorithm>
#include <deque>
#include <map>

#include "base/check.h"
#include "ops/call_errors.h"
#include "ops/stored_numbers.h"
#include "ops/table.h"

namespace toroid::ops {
namespace {

bool is_none(const Arg<Tensor>& a) { return std::holds_alternative<std::monostate>(a); }

// Brings an argument to the form its parameter has: numbers to lists, integers to floats.
void normalise(const Op& op, const Param& p, Arg<Tensor>& a) {
  if (is_none(a)) {
    bool may_be_none =
        p.optional || p.type == ParamType::Ignored || (p.has_default && std::holds_alternative<std::monostate>(p.default_value));
    TOROID_USER_CHECK(may_be_none || p.type == ParamType::Graph, "{}: argument \"{}\" is missing", op.name, p.name);
    return;
  }
  if (p.type == ParamType::Ignored) a = std::monostate{};
  if (p.list && p.type == ParamType::Int) {
    if (auto* e = std::get_if<Expr>(&a)) a = std::vector<Expr>(static_cast<size_t>(std::max<int64_t>(p.list_size, 1)), *e);
    if (auto* v = std::get_if<std::vector<Expr>>(&a); v && v->size() == 1 && p.list_size > 1)
      v->resize(static_cast<size_t>(p.list_size), v->front());
  } else if (p.list && p.type == ParamType::Float) {
    if (auto* d = std::get_if<double>(&a)) a = std::vector<double>{*d};
  } else if (p.type == ParamType::Float && !p.list) {
    if (auto* e = std::get_if<Expr>(&a); e && e->is_const()) a = static_cast<double>(e->constant());
  }
  if (auto* t = std::get_if<Tensor>(&a); t && p.type == ParamType::Tensor && !p.list && !t->defined()) {
    TOROID_USER_CHECK(p.optional, "{}: argument \"{}\" is an undefined tensor", op.name, p.name);
    a = std::monostate{};
  }
}

// The lists of the primitive convolution have no fixed length: one number stands for all spatial dimensions of the weight.
void spread_over_dimensions(const Op& op, CallArgs& args) {
  auto* weight = std::get_if<Tensor>(&args.at(1));
  if (!weight || !weight->defined() || weight->dim() <= 3) return;
  for (const char* name : {"stride", "padding", "dilation", "output_padding"}) {
    auto* v = std::get_if<std::vector<Expr>>(&args.at(static_cast<size_t>(op.schema.find(name))));
    if (v && v->size() == 1) v->resize(static_cast<size_t>(weight->dim() - 2), v->front());
  }
}

}  // namespace

CallArgs complete(const Op& op, CallArgs args) {
  const auto& params = op.schema.params;
  TOROID_USER_CHECK(args.size() <= params.size(), "{} takes at most {} arguments, {} were given", op.name, params.size(), args.size());
  for (size_t i = args.size(); i < params.size(); ++i) {
    TOROID_USER_CHECK(params[i].has_default || params[i].optional || params[i].type == ParamType::Ignored, "{}: argument \"{}\" is missing",
                      op.name, params[i].name);
    args.push_back(params[i].default_value);
  }
  for (size_t i = 0; i < args.size(); ++i) normalise(op, params[i], args[i]);
  if (op.name == "convolution") spread_over_dimensions(op, args);
  return args;
}

namespace {

int kind_of(DType t) { return is_bool(t) ? 0 : is_int(t) ? 1 : is_complex(t) ? 3 : 2; }

// In place a tensor keeps its dtype, which must have room for the result: a float is no integer, nor an integer a truth.
void check_result_fits(const Op& op, const CallArgs& args) {
  const Op& functional = *op.inplace_of;
  if (!functional.formula) return;
  std::deque<TensorType> held;  // of one element each: sizes do not matter
  std::vector<Arg<const TensorType*>> types;
  for (auto& a : args)
    types.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      return t.defined() ? &held.emplace_back(TensorType{t.dtype(), std::vector<Expr>(static_cast<size_t>(t.dim()), Expr(1)), {}})
                         : nullptr;
    }));
  const auto any = [](const sym::Relation&) { return true; };
  const DType own = std::get<Tensor>(args[0]).dtype(), found = infer(functional, types, any, [] { return Expr(1); }).at(0).dtype;
  TOROID_USER_CHECK(kind_of(found) <= kind_of(own),
                    "{}: the result is {}, and \"self\", which it is written to, is {}: convert that before, or call {}", op.name,
                    name_of(found), name_of(own), functional.name);
}

// A limit that is a number has a row of its own, with another slope where elements are at it. The row is chosen here, as a number may reach
// an eager kernel as a tensor.
const Op& row_of_numbers(const Op& op, const CallArgs& args) {
  static const auto& rows = *new std::map<const Op*, const Op*>{{&get("clamp_min.Tensor"), &get("clamp_min")},
                                                                {&get("clamp_max.Tensor"), &get("clamp_max")},
                                                                {&get("clamp_min_.Tensor"), &get("clamp_min_")},
                                                                {&get("clamp_max_.Tensor"), &get("clamp_max_")}};
  const bool number = args.size() > 1 && (std::holds_alternative<double>(args[1]) || std::holds_alternative<Expr>(args[1]));
  if (!number || !std::holds_alternative<Tensor>(args[0])) return op;
  const auto row = rows.find(&op);
  return row == rows.end() ? op : *row->second;
}

}  // namespace

std::vector<Tensor> call(const Op& given, CallArgs args, const std::source_location& where) {
  const Op& op = row_of_numbers(given, args);
  args = checked_call(op, where, [&] {
    CallArgs all = complete(op, std::move(args));
    check_stored_numbers(op, all);
    if (op.inplace_of) check_result_fits(op, all);
    return all;
  });
  return current_dispatcher().call(op, std::move(args), where);
}

Tensor call1(std::string_view name, CallArgs args, const std::source_location& where) {
  auto results = call(get(name), std::move(args), where);
  TOROID_CHECK(!results.empty(), "{} has no result", name);
  return results[0];
}

Device device_of(const Op& op, std::span<const Arg<Tensor>> args) {
  const bool mutates = op.inplace_of || (!op.schema.params.empty() && op.schema.params[0].mutated);
  const Tensor* first = nullptr;   // whose device counts
  const Tensor* number = nullptr;  // on the CPU, and allowed everywhere
  std::string_view first_name;
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = op.schema.params[i];
    auto see = [&](const Tensor& t) {
      if (!t.defined()) return;
      const bool fixed = mutates && i == 0;
      if (!fixed && !t.device().is_cuda() && (t.dim() == 0 || p.name == "indices")) {
        number = &t;
      } else if (!first) {
        first = &t;
        first_name = p.name;
      } else if (first->device() != t.device()) {
        fail<UserError>("{}: \"{}\" is on {} and \"{}\" on {}; bring them to one device with to()", op.name, first_name,
                        to_string(first->device()), p.name, to_string(t.device()));
      }
    };
    if (auto* t = std::get_if<Tensor>(&args[i])) see(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&args[i])) std::for_each(list->begin(), list->end(), see);
    if (mutates && i == 0 && op.schema.name == "copy_") break;  // which brings its source along
  }
  if (first || number) return (first ? first : number)->device();
  return default_device();
}

std::vector<TensorType> infer(const Op& op, std::span<const Arg<const TensorType*>> args,
                              const std::function<bool(const sym::Relation&)>& decide, const std::function<Expr()>& fresh_size,
                              const std::function<void(const sym::Relation&, const std::string& error)>& demand) {
  TOROID_CHECK(op.meta, "{} has no type rule", op.name);
  MetaCall c(op, args);
  c.decide = decide;
  c.fresh_size = fresh_size;
  c.demand = demand;
  op.meta(c);
  return std::move(c.results);
}

void MetaCall::refuse_or_demand(const sym::Relation& r, bool known, const std::string& error) const {
  if (known) fail<UserError>("{}", error);
  TOROID_CHECK(demand, "{}: nobody looks at the sizes: {}", op().name, error);
  demand(r, error);
}

void require_relation(const sym::Relation& r, const std::string& error) {
  if (sym::known(r)) fail<UserError>("{}", error);
  current_dispatcher().require(r, error);
}

}  // namespace toroid::ops

#include "ops/reference.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/index_fault.h"
#include "ops/strided_view.h"

namespace toroid::ops {
namespace {

using TypeArgs = std::vector<Arg<const TensorType*>>;

// Types of concrete arguments; `held` owns them.
TypeArgs types_of(const CallArgs& args, std::deque<TensorType>& held) {
  TypeArgs out;
  for (auto& a : args)
    out.push_back(map_arg<const TensorType*>(a, [&](const Tensor& t) -> const TensorType* {
      if (!t.defined()) return nullptr;
      held.push_back({t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}});
      return &held.back();
    }));
  return out;
}

// Collects the steps of one formula.
class Program : public ScalarBuilder {
 public:
  int emit(const ScalarNode& node) override {
    nodes.push_back(node);
    return static_cast<int>(nodes.size()) - 1;
  }
  std::vector<ScalarNode> nodes;
};

// The dtype in which the reference computes: floats in double.
DType reference_compute(DType t) { return is_float(t) ? DType::F64 : t; }

struct Operand {
  Tensor tensor;  // undefined: a number
  Number number;
  std::complex<double> complex;
  bool is_condition = false;
  std::vector<int64_t> strides;  // bytes, for the broadcast result sizes
};

void store_complex(std::byte* p, DType t, std::complex<double> v) {
  if (t == DType::C64) {
    float f[2] = {static_cast<float>(v.real()), static_cast<float>(v.imag())};
    std::memcpy(p, f, sizeof f);
  } else if (t == DType::C128) {
    double f[2] = {v.real(), v.imag()};
    std::memcpy(p, f, sizeof f);
  } else {
    store_number(p, t, Number::of(v.real()));
  }
}

std::vector<Operand> collect_operands(const Op& op, const CallArgs& args, const std::vector<int64_t>& sizes) {
  std::vector<Operand> out;
  uint32_t bit = 1;
  for (size_t i = 0; i < args.size(); ++i) {
    const Param& p = op.schema.params[i];
    if (p.type != ParamType::Tensor) continue;
    Operand o;
    o.is_condition = op.bool_operands & bit;
    bit <<= 1;
    if (auto* t = std::get_if<Tensor>(&args[i])) {
      o.tensor = *t;
      size_t lead = sizes.size() - t->sizes().size();
      for (size_t d = 0; d < sizes.size(); ++d)
        o.strides.push_back(d < lead || t->sizes()[d - lead] == 1 ? 0 : t->strides()[d - lead] * static_cast<int64_t>(size_of(t->dtype())));
    } else if (auto* e = std::get_if<Expr>(&args[i])) {
      o.number = Number::of(e->constant());
    } else if (auto* d = std::get_if<double>(&args[i])) {
      o.number = Number::of(*d);
    } else if (auto* b = std::get_if<bool>(&args[i])) {
      o.number = Number::of(*b);
    } else if (auto* c = std::get_if<std::complex<double>>(&args[i])) {
      o.complex = *c;
    } else {
      continue;  // an absent optional operand
    }
    if (!std::holds_alternative<std::complex<double>>(args[i])) o.complex = o.number.as_double();
    out.push_back(std::move(o));
  }
  return out;
}

void for_each_operand_address(const std::vector<int64_t>& sizes, const std::vector<Operand>& operands, auto&& fn) {
  std::vector<const std::byte*> at(operands.size());
  for_each_index(sizes, [&](std::span<const int64_t> index) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i].tensor.defined()) continue;
      const std::byte* p = operands[i].tensor.raw_data();
      for (size_t d = 0; d < index.size(); ++d) p += index[d] * operands[i].strides[d];
      at[i] = p;
    }
    fn(at);
  });
}

// Of an operation that divides: UserError where integers are divided by 0.
[[noreturn]] void fail_division(const Op& op) {
  fail<UserError>("{}", index_error({std::string(plain_name(op)), OperationPlace::current(), IndexSite::kDivisor}, 1, 1));
}

Tensor evaluate_pointwise(const Op& op, const CallArgs& args, const TypeArgs& types, const TensorType& type) {
  std::vector<int64_t> sizes;
  for (auto& s : type.sizes) sizes.push_back(s.constant());
  Tensor out = Tensor::empty(sizes, type.dtype);
  auto operands = collect_operands(op, args, sizes);
  std::byte* dst = out.raw_data();
  size_t step = size_of(type.dtype);
  TypeReader reader(op, types);
  DType promoted = promoted_dtype(reader);
  if (op.promote == Promote::Float) promoted = float_type(promoted);
  if ((op.promote == Promote::KeepFirst || op.promote == Promote::Predicate) && !operands.empty() && operands[0].tensor.defined())
    promoted = operands[0].tensor.dtype();
  if (op.promote == Promote::Logical) promoted = DType::Bool;
  bool complex = is_complex(promoted);
  for (auto& o : operands) complex = complex || (o.tensor.defined() && is_complex(o.tensor.dtype()));
  if (complex) {
    TOROID_USER_CHECK(op.complex_formula, "{} does not take complex tensors", op.name);
    std::vector<std::complex<double>> x(operands.size());
    for_each_operand_address(sizes, operands, [&](auto& at) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = at[i] ? load_complex(at[i], operands[i].tensor.dtype()) : operands[i].complex;
      store_complex(dst, type.dtype, op.complex_formula(x));
      dst += step;
    });
    return out;
  }
  DType compute = reference_compute(promoted);
  Program program;
  FormulaCall f(op, types);
  f.compute = compute;
  for (size_t i = 0; i < operands.size(); ++i) {
    DType t = operands[i].is_condition ? DType::Bool : compute;
    S s{&program, program.emit({.op = ScalarOp::Input, .dtype = t, .value = Number::of(static_cast<int64_t>(i))}), t};
    f.operands.push_back(s);
  }
  const bool divides = op.divides && is_int(compute);
  const int divisor = divides ? second_operand(op) : -1;
  if (divides && divisor < 0 && f.number(op.schema.params[1].name).as_double() == 0 && out.numel() > 0) fail_division(op);
  S result = op.formula(f);
  if (result.dtype != type.dtype && !(is_float(result.dtype) && is_float(type.dtype))) result = cast(result, type.dtype);
  const auto& nodes = program.nodes;
  std::vector<Number> values(nodes.size());
  for_each_operand_address(sizes, operands, [&](auto& at) {
    for (size_t n = 0; n < nodes.size(); ++n) {
      const ScalarNode& node = nodes[n];
      if (node.op == ScalarOp::Input) {
        size_t i = static_cast<size_t>(node.value.i);
        // Rounding to the promoted dtype first: an integer operand of an f16 expression is an f16 number.
        Number v = at[i] ? load_number(at[i], operands[i].tensor.dtype()) : operands[i].number;
        values[n] = convert(v, node.dtype);
        if (static_cast<int>(i) == divisor && values[n].as_int() == 0) fail_division(op);
      } else if (node.op == ScalarOp::Const) {
        values[n] = node.value;
      } else {
        Number a[3];
        for (int k = 0; k < arity_of(node.op); ++k) a[k] = values[static_cast<size_t>(node.args[k])];
        values[n] = toroid::evaluate(node.op, node.dtype, nodes[static_cast<size_t>(node.args[0])].dtype, a);
      }
    }
    store_number(dst, type.dtype, values[static_cast<size_t>(result.id)]);
    dst += step;
  });
  return out;
}

// A view as a copy: by strides where the index map is linear, else element by element.
Tensor evaluate_view(const Op& op, const Tensor& self, const TypeReader& reader, size_t result, const TensorType& type) {
  std::vector<int64_t> sizes;
  std::vector<Expr> index, symbols;
  for (auto& s : type.sizes) {
    sizes.push_back(s.constant());
    symbols.push_back(sym::loop_symbol("i" + std::to_string(symbols.size()), s));
  }
  Tensor out = Tensor::empty(sizes, type.dtype);
  if (out.numel() == 0) return out;
  std::vector<Expr> from = op.index_map(reader, result, symbols);
  TOROID_CHECK(from.size() == self.sizes().size(), "the index map of {} gives {} indices for {} dimensions", op.name, from.size(),
               self.sizes().size());
  Expr flat = 0;
  for (size_t d = 0; d < from.size(); ++d) flat = flat + from[d] * Expr(self.strides()[d]);
  std::vector<int64_t> strides;
  Expr rest = flat;
  for (auto& s : symbols) {
    auto c = sym::linear_coefficient(flat, s);
    if (!c || !c->is_const()) break;
    strides.push_back(c->constant());
    rest = rest - *c * s;
  }
  if (strides.size() == symbols.size() && rest.is_const()) {
    copy_elements(self.as_strided(sizes, strides, rest.constant()), out);
    return out;
  }
  size_t step = size_of(type.dtype);
  std::byte* dst = out.raw_data();
  for_each_index(sizes, [&](std::span<const int64_t> at) {
    int64_t offset = sym::evaluate(flat, [&](const sym::Node& s) {
      size_t d = 0;
      while (!sym::same_symbol(*symbols[d].node(), s)) ++d;
      return at[d];
    });
    std::memcpy(dst, self.raw_data() + offset * static_cast<int64_t>(step), step);
    dst += step;
  });
  return out;
}

std::vector<Tensor> evaluate_on_host(const Op& row, CallArgs args) {
  const Op& op = row.inplace_of ? *row.inplace_of : row;
  args = complete(op, std::move(args));
  if (op.decompose) {
    ReferenceDispatcher reference;
    DispatchScope scope(reference);
    auto results = op.decompose(CallReader(op, args));
    if (row.inplace_of) {
      const Tensor& self = std::get<Tensor>(args[0]);
      if (results[0].dtype() != self.dtype() || results[0].sizes() != self.sizes()) {
        Tensor wide = call1("expand", {results[0], std::vector<Expr>(self.sizes().begin(), self.sizes().end())});
        Tensor cast = Tensor::empty(self.sizes(), self.dtype());
        copy_elements(wide, cast);
        results[0] = cast;
      }
    }
    return results;
  }
  std::deque<TensorType> held;
  TypeArgs types = types_of(args, held);
  int unknown = 0;
  auto decide = [](const sym::Relation& r) { return sym::known(r).value_or(false); };
  auto fresh = [&] { return sym::symbol("u" + std::to_string(unknown++), 0, sym::kInf - 1); };
  auto results = infer(op, types, decide, fresh);
  if (row.inplace_of && !results.empty()) results[0].dtype = std::get<Tensor>(args[0]).dtype();
  TypeReader reader(op, types);
  std::vector<Tensor> out;
  if (op.formula) return {evaluate_pointwise(op, args, types, results[0])};
  if (op.index_map) {
    const Tensor& self = std::get<Tensor>(args[0]);
    for (size_t i = 0; i < results.size(); ++i) out.push_back(evaluate_view(op, self, reader, i, results[i]));
    return out;
  }
  TOROID_USER_CHECK(op.kernel, "{} has no implementation", op.name);
  KernelCall k(op, args);
  for (auto& r : results) {
    std::vector<int64_t> sizes;
    bool known = true;
    for (auto& s : r.sizes) {
      known = known && s.is_const();
      sizes.push_back(s.maybe_constant().value_or(0));
    }
    k.outputs.push_back(known ? Tensor::empty(sizes, r.dtype) : Tensor());
  }
  op.kernel(k);
  for (auto& t : k.outputs) TOROID_CHECK(t.defined(), "the kernel of {} left a result undefined", op.name);
  return std::move(k.outputs);
}

}  // namespace

std::vector<Tensor> evaluate(const Op& row, CallArgs args) {
  const Device device = device_of(row, args);
  DeviceScope host(Device::cpu());
  if (!device.is_cuda()) return evaluate_on_host(row, std::move(args));
  for (auto& a : args) a = map_arg<Tensor>(a, [](const Tensor& t) { return t.defined() ? moved(t, Device::cpu()) : t; });
  auto results = evaluate_on_host(row, std::move(args));
  for (auto& t : results) t = moved(t, device);
  return results;
}

std::vector<Tensor> ReferenceDispatcher::call(const Op& op, CallArgs args, const std::source_location&) {
  if ((op.index_map || op.write_back) && op.schema.params[0].alias) return strided_view(op, args);  // functions write through them
  auto results = evaluate(op, args);
  if (op.inplace_of) {
    copy_elements(results[0], std::get<Tensor>(args[0]));
    return {std::get<Tensor>(args[0])};
  }
  return results;
}
bool ReferenceDispatcher::decide(const sym::Relation& r) {
  auto k = sym::known(r);
  TOROID_CHECK(k, "undecided relation {} among concrete sizes", sym::to_string(r));
  return *k;
}
int64_t ReferenceDispatcher::specialize(const Expr& e) { return e.constant(); }
void ReferenceDispatcher::read(const Tensor&, std::string_view what, const std::source_location&) {
  fail<InternalError>("{} of a tensor that nobody traces", what);
}

}  // namespace toroid::ops

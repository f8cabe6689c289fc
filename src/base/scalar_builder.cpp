#include "base/scalar_builder.h"

#include "base/check.h"

namespace toroid {

S emit(ScalarOp op, DType result, std::initializer_list<S> args) {
  TOROID_CHECK(static_cast<int>(args.size()) == arity_of(op), "{} takes {} operands", name_of(op), arity_of(op));
  ScalarNode node{.op = op, .dtype = result, .value = {}};
  ScalarBuilder* builder = nullptr;
  int i = 0;
  for (const S& a : args) {
    TOROID_CHECK(a.builder, "operand {} of {} has no builder", i, name_of(op));
    builder = a.builder;
    node.args[i++] = a.id;
  }
  if (args.size() == 2)
    TOROID_CHECK(args.begin()[0].dtype == args.begin()[1].dtype, "{} of {} and {}", name_of(op), name_of(args.begin()[0].dtype),
                 name_of(args.begin()[1].dtype));
  return {builder, builder->emit(node), result};
}

S lit_as(S like, DType dtype, Number v) {
  ScalarNode node{.op = ScalarOp::Const, .dtype = dtype, .value = convert(v, dtype)};
  return {like.builder, like.builder->emit(node), dtype};
}

S lit(S like, double v) { return lit_as(like, like.dtype, Number::of(v)); }

S cast(S x, DType dtype) { return x.dtype == dtype ? x : emit(ScalarOp::Cast, dtype, {x}); }

S select(S condition, S a, S b) {
  TOROID_CHECK(condition.dtype == DType::Bool && a.dtype == b.dtype, "select of {} ? {} : {}", name_of(condition.dtype), name_of(a.dtype),
               name_of(b.dtype));
  return emit(ScalarOp::Select, a.dtype, {condition, a, b});
}

S apply(ScalarOp op, S a) { return emit(op, a.dtype, {a}); }
S apply(ScalarOp op, S a, S b) { return emit(op, a.dtype, {a, b}); }

}  // namespace toroid

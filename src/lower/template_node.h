// What lowering of problems that templates solve has in common: products, convolutions, attention.
#pragma once

#include <optional>

#include "lower/lowering.h"

namespace toroid::lower {

program::Operand operand_of(const Place& p, DType dtype);
// Whether templates have operands of the dtype.
bool template_dtype(DType t);
bool rounds_to_tf32(const Lowering& l, DType t);
// Whether its elements are in memory, and are known when compiling.
bool is_constant(Lowering& l, const graph::Value* v);
inline std::optional<int64_t> constant(const Expr& e) { return e.maybe_constant(); }

// The result of a template at `out`.
void define_template_result(Lowering& l, const graph::Node& n, const Place& out);
// The domain of a template node over `sizes`, and the store of its accumulator.
void store_accumulator(Lowering& l, program::Node& node, const std::vector<Expr>& sizes, const Place& out, DType accumulate, DType dtype);

}  // namespace toroid::lower

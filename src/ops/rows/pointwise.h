// Shared by the files of the pointwise and special families: short spellings and builders of rows that differ in their name only.
#pragma once

#include <initializer_list>
#include <string>

#include "ops/table.h"

namespace toroid::ops {

using F = const FormulaCall&;
using C128 = std::complex<double>;
using Z = std::span<const C128>;

inline C128 truth(bool b) { return b ? 1.0 : 0.0; }

// "name(Tensor self) -> Tensor" for each of the names.
void unary_rows(Table& t, std::initializer_list<const char*> names, Promote promote, Formula formula, ComplexFormula complex = nullptr);
// One row for each name and overload. Overloads "" and ".Tensor" take two tensors, ".Scalar" and ".Tensor_Scalar" a tensor and a number,
// ".Scalar_Tensor" a number and a tensor. Formulas read the operands by lhs() and rhs().
std::vector<Op*> binary_rows(Table& t, std::initializer_list<const char*> names, std::initializer_list<const char*> overloads,
                             Promote promote, Formula formula, ComplexFormula complex = nullptr, const char* first = "self",
                             const char* second = "other");
// The first and second parameter of a formula, each a Tensor or a Scalar.
S lhs(F f);
S rhs(F f);
// A number that elements are limited by. One that an integer dtype has no room for limits nothing; UserError where it would limit all.
S limit(F f, std::string_view name, bool from_below);
// UserError for a formula that has no meaning on the compute dtype: on Bool; on all but integers; on floats; on all but floats.
void refuse_bool(F f);
void need_integers(F f);
void refuse_floats(F f);
void need_floats(F f);
constexpr double kSeluAlpha = 1.6732632423543772848170429916717, kSeluScale = 1.0507009873554804934193349852946;
// Whether a row of fake quantization, whose operands are self, or self, scale and zero point, clamps nothing.
S fake_quantize_inside(F f);

void add_arithmetic_rows(Table& t);
void add_comparison_rows(Table& t);
void add_unary_rows(Table& t);
void add_activation_rows(Table& t);
void add_selection_rows(Table& t);
void add_conversion_rows(Table& t);
void add_assertion_rows(Table& t);
void add_quantization_rows(Table& t);
void add_decomposed_quantization_rows(Table& t);

}  // namespace toroid::ops

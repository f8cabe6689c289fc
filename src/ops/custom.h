// The registry of custom operations: their rows, functions and variants.
#pragma once

#include "ops/table.h"
#include "toroid/custom_op.h"

namespace toroid::ops {

// A row of a custom operation, or of its functional form.
bool is_custom(const Op& op);
// ... or of an opaque one (ops/opaque.h): of users' code, whatever its kind.
bool is_registered(const Op& op);
// The custom operation, and its variant, whose function this thread runs, the innermost of several; empty: none.
std::string running_custom();
// nullptr when there is none. The functional form of "demo::scale_" is "demo::scale_.functional".
const Op* find_custom(std::string_view name);
// Writes to some of its arguments.
bool writes_arguments(const Op& custom);
// The same operation without writing: its results are followed by the new contents of the arguments that it would write to. The row
// itself for one that writes nothing.
const Op& functional_form(const Op& custom);
// Rows of one operation: itself and its functional form.
bool same_operation(const Op& a, const Op& b);
// Positions of the arguments that it writes to, or whose new contents a functional form returns.
std::vector<size_t> written_arguments(const Op& custom);

// Has variants.
bool is_tuned(const Op& custom);
const CustomTuning& tuning_of(const Op& custom);  // InternalError where there is none
// Contents of an operand for timing, from input_gen_fns; undefined where these have none for this argument (the names of a choice's
// inputs are in the programs of its alternatives). UserError for a generator that gives another dtype or other sizes than asked for.
Tensor generated_operand(const Op& custom, const CustomOperand& operand);
// The variants for some operands; the operation's own function is not among them. UserError from a generator, or for what it makes.
std::vector<CustomOpConfig> variants_of(const Op& custom, const std::vector<CustomOperand>& operands);

// Runs the operation's function (variant == nullptr) or that of a variant through the innermost dispatcher. UserError when it returns
// another number of tensors than the schema says, or one of its arguments.
std::vector<Tensor> run_custom(const Op& custom, const CustomOpConfig* variant, std::span<const Arg<Tensor>> args);

// Adds a row of users' code, which is found from then on; `row` has what it is, and gets its name and schema. `f` says what the operation
// takes, as its call checks it. announce, if any: told of the row and its functional form, or null, before anybody finds them. UserErrors
// begin with the name of the public function (door).
using Announce = std::function<void(const Op& row, const Op* functional)>;
const Op* register_row(std::string_view door, std::string_view schema, Op row, CustomFunction f, const Announce& announce);

// For custom_op_counts.
enum class CustomEvent : uint8_t { Call, Variant, GuardRefusal, TypeRefusal, OtherRefusal };
void count(const Op& custom, CustomEvent event);

}  // namespace toroid::ops

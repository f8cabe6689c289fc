// Operations over raw memory (toroid/opaque_op.h) as rows, whose type rule and kernel call the functions that were registered.
#pragma once

#include "ops/op.h"
#include "toroid/opaque_op.h"

namespace toroid::ops {

// A row of an opaque operation, or of its functional form.
bool is_opaque(const Op& op);
// As it was registered: its name, what its function takes, and whether arguments may have gaps.
const std::string& opaque_name(const Op& op);
const std::vector<CustomFunction::Kind>& opaque_params(const Op& op);
bool takes_strides(const Op& op);
// Runs the function on the arguments, in this thread. `outputs`: row-major memory of the results' types; of a functional form it is
// followed by that of the new contents, which may be the very memory of the arguments. A row that writes does so in its arguments, and
// in an order that leaves what shares memory with these as it was. UserError where the types have changed since somebody has asked for
// them, EnvironmentError or UserError for what the function throws.
void run_opaque(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs);
// The same by another function, on memory of the device where all tensors are; `which` names it in errors ("function").
void run_opaque(const Op& op, std::span<const Arg<Tensor>> args, std::span<const Tensor> outputs, std::string_view which,
                const std::function<void(std::span<const OpaqueFunction::Arg>)>& function);
// Calls a rule of the user's, of types or of launches (`which`, for errors), with the types of the call. `c` answers its questions about
// sizes.
void ask_rule(MetaCall& c, std::string_view which, const std::function<void(std::span<const OpaqueTypeRule::Arg>)>& rule);
// Memory of a device for the results of a call of known sizes.
std::vector<Tensor> opaque_results(const Op& op, std::span<const Arg<Tensor>> args, const Device& device);

}  // namespace toroid::ops

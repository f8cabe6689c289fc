// Who could compute the products and convolutions of a program: what the devices have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "program/program.h"
#include "target/program_pass.h"

namespace toroid::backend {

using Refusal = std::function<std::string(program::Implementation)>;

// The implementations that the text of the option gemm_backends or conv_backends lists, in its order, then the template where it lists
// none, each with why it does not take a problem. A library that is missing is a refusal where something else is listed, and an
// EnvironmentError where it stands alone.
std::vector<program::Candidate> listed(const std::string& option, const Refusal& refusal);
// The refusal, or that a library is missing.
std::string reason_of(const std::function<std::string()>& refusal);

// The first that takes the problem; nullptr when none does.
const program::Candidate* first_taker(const std::vector<program::Candidate>& list);
// Why none does, with each one's reason; empty when one does.
std::string refusal_of(const std::vector<program::Candidate>& list);

// Gives the node, unless a configuration says how it is computed, to the first taker. `decisions` gets a line where there was an
// alternative, with the reasons of those that refused.
void decide(program::Node& node, const std::vector<program::Candidate>& list, std::vector<std::string>& decisions);
// Of a node whose configuration names a library. UserError where that is not `library`, or it refuses the node.
void take_chosen(program::Node& node, program::Implementation library, const std::function<std::string()>& refusal);

// The node's own options in place of some of these.
CompileOptions of_node(const program::Node& node, const CompileOptions& options);
bool is_constant(const program::Program& p, const program::Operand& o);

}  // namespace toroid::backend

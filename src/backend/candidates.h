// Who could compute the products and convolutions of a program, and who does.
#pragma once

#include "base/compile_options.h"
#include "choice/program.h"
#include "device/cpu/isa.h"

namespace toroid::compiler {

// The implementations that the option gemm_backends or conv_backends lists, in its order, then the template where it lists none. A library
// that is missing is a refusal where something else is listed, and an EnvironmentError where it stands alone.
std::vector<choice::Candidate> candidates(const choice::Gemm& g, bool constant_b, const CompileOptions& options);
// On a GPU; the node is a product.
std::vector<choice::Candidate> gpu_product_candidates(const choice::Node& node, const CompileOptions& options);
std::vector<choice::Candidate> gpu_candidates(const choice::Convolution& c, bool constant_weight, const CompileOptions& options);
std::vector<choice::Candidate> candidates(const choice::Convolution& c, bool constant_weight, device::Isa isa,
                                          const CompileOptions& options);
// Of the node's problem; none for nodes that are no product and no convolution.
std::vector<choice::Candidate> candidates(const choice::Node& node, const choice::Program& p, device::Isa isa,
                                          const CompileOptions& options);

// Why no library computes the node, a product or convolution without what is fused in front of it; empty when one does. A library that is
// missing is a reason too.
std::string library_refusal(const choice::Node& node, const choice::Program& p);
std::string gpu_library_refusal(const choice::Node& node, const choice::Program& p);

// The first that takes the problem; nullptr when none does.
const choice::Candidate* first_taker(const std::vector<choice::Candidate>& list);

// Decides every product and convolution: sets `by`, and puts what a library cannot do of an epilogue into a loop of its own. Returns a line
// for each decision that had an alternative, with the reasons of those that refused. A node may have options of its own in place of some of
// these.
std::vector<std::string> choose(choice::Program& p, device::Isa isa, const CompileOptions& options);
// The same on a GPU; which of the templates takes what is decided by codegen.
std::vector<std::string> choose_on_gpu(choice::Program& p, const CompileOptions& options);

}  // namespace toroid::compiler

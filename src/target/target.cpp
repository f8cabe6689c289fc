#include "target/target.h"

#include "target/program_pass.h"

namespace toroid::target {
namespace {

constexpr const char* kNone = "the device has no kernel for it";

}  // namespace

std::string Target::refusal(const choice::Gemm&, bool, const CompileOptions&) const { return kNone; }
std::string Target::refusal(const choice::Convolution&, bool, const CompileOptions&) const { return kNone; }
std::string Target::refusal(const choice::Attention&) const { return kNone; }
std::string Target::refusal(const choice::Sort&) const { return kNone; }

std::span<const ProgramPass> Target::passes(choice::Stage) const { return {}; }
std::string Target::producer_refusal(const choice::Node&) const { return kNone; }
std::string Target::pair_refusal(const choice::Node&) const { return kNone; }

std::vector<choice::Config> Target::proposals(const choice::Program&, size_t) const { return {}; }
std::vector<choice::Config> Target::neighbours(const choice::Program&, size_t, const choice::Config&) const { return {}; }

const Target& reference() {
  static const Target none{Facts{}};
  return none;
}

}  // namespace toroid::target

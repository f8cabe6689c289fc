#include "target/target.h"

#include "target/program_pass.h"

namespace toroid::target {
namespace {

constexpr const char* kNone = "the device has no kernel for it";

}  // namespace

std::string Target::refusal(const program::Problem&, const Question&) const { return kNone; }

std::span<const ProgramPass> Target::passes(program::Stage) const { return {}; }
std::string Target::producer_refusal(const program::Node&) const { return kNone; }
std::string Target::pair_refusal(const program::Node&) const { return kNone; }
std::string Target::sums_refusal(const program::Node&, const program::Program&) const { return kNone; }
std::string Target::bringing_refusal(const program::Node&) const { return kNone; }
std::string Target::foreach_key(const program::Node&) const { return ""; }
bool Target::foreach_takes(const program::Node&, size_t) const { return false; }

std::vector<program::Config> Target::proposals(const program::Program&, size_t) const { return {}; }
std::vector<program::Config> Target::neighbours(const program::Program&, size_t, const program::Config&) const { return {}; }

const Target& reference() {
  static const Target none{Facts{}};
  return none;
}

}  // namespace toroid::target

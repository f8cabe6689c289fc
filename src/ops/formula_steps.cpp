#include "ops/formula_steps.h"

#include "base/check.h"

namespace toroid::ops {
namespace {

// Holds the steps of one formula over the operands of a call until they are emitted for these.
class Steps : public ScalarBuilder {
 public:
  explicit Steps(std::span<const S> operands) : operands_(operands), held_(operands.size()) {
    for (const S& s : operands) emitted_.push_back(s.id);
  }
  S operand(size_t i) { return {this, static_cast<int>(i), operands_[i].dtype}; }

  int emit(const ScalarNode& node) override {
    held_.push_back(node);
    emitted_.push_back(-1);
    return static_cast<int>(held_.size()) - 1;
  }

  // The step that step `id` becomes in `into`.
  int place(int id, ScalarBuilder& into) {
    const auto at = static_cast<size_t>(id);
    if (emitted_[at] >= 0) return emitted_[at];
    ScalarNode node = held_[at];
    for (int k = 0; k < arity_of(node.op); ++k) node.args[k] = place(node.args[k], into);
    return emitted_[at] = into.emit(node);
  }

 private:
  std::span<const S> operands_;
  std::vector<ScalarNode> held_;  // the first ones stand for the operands
  std::vector<int> emitted_;      // -1: not yet
};

}  // namespace

S emit_formula(const FormulaCall& f) {
  TOROID_CHECK(!f.operands.empty(), "{} has no operand to compute its formula of", f.op().name);
  Steps steps(f.operands);
  FormulaCall held = f;
  for (size_t i = 0; i < held.operands.size(); ++i) held.operands[i] = steps.operand(i);
  const S result = f.op().formula(held);
  ScalarBuilder& into = *f.operands[0].builder;
  return {&into, steps.place(result.id, into), result.dtype};
}

}  // namespace toroid::ops

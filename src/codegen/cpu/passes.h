// The loops over reduction variables: one nest for each pass of a plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/cpu/plan.h"
#include "codegen/cpu/scans.h"
#include "codegen/emit.h"

namespace toroid::codegen {

class PassWriter {
 public:
  // `inner_text` is what the inner variable is printed as; loop copies change it.
  PassWriter(const KernelPlan& plan, StepEmitter& emitter, std::string& inner_text);

  // Emits pass q and defines the results of its reductions. `vector`: the space variable innermost runs in lanes here.
  void write(size_t q, bool vector);
  // Where the current point of the reduction is: in nominal order, or in the order of the loops.
  Expr position(bool nominal) const;

 private:
  struct Accumulator {
    int step;
    DType dtype;   // folded in
    bool blocked;  // a sum of floats that starts anew for each block; the sum of these is F64
    DType total() const { return blocked ? DType::F64 : dtype; }
  };
  // Which loop is cut into blocks (that many iterations each) of about kBlock terms of an accumulator.
  struct Blocks {
    size_t loop;
    int64_t iterations;
  };
  struct Form {
    bool vector;         // the accumulators of this copy are vectors
    std::string suffix;  // of their names
    bool tail = false;   // of what is left over behind the lanes, in all blocks
    DType dtype_of(const Accumulator& a) const { return tail ? a.total() : a.dtype; }
  };
  inline static const Form kTail{false, "_tail", true};
  std::string type(DType t, bool vector) const { return (vector ? "v" : "s") + std::string(name_of(t)); }
  bool lanes_of_result(int step, bool vector) const {
    return plan_.inner_reduces() ? vector : vector && plan_.on_inner[static_cast<size_t>(step)];
  }
  void declare(const Accumulator& a, const Form& f);
  void fold(const Accumulator& a, const Form& f);
  // to = to combined with from, both of dtype t and in one form.
  void combine(const Accumulator& a, DType t, const std::string& to, const std::string& from, bool vector);
  void finish(const Accumulator& a, bool vector);
  // None where an accumulator takes few terms. The reduction loops are counted from the outermost, one of which lanes make a step of
  // `width`.
  std::optional<Blocks> blocks_of(const std::vector<int>& loops, int64_t width) const;
  void body(const PassPlan& pass, const Form& f);
  void innermost(const PassPlan& pass, bool vector, const std::string& lo, const std::string& hi);
  void emit_level(const PassPlan& pass, int level, bool vector);
  std::string scratch_at(int step, bool vector);

  const KernelPlan& plan_;
  StepEmitter& e_;
  ScanWriter scans_;
  std::string& inner_text_;
  std::vector<int> level_;  // of each step: how many of plan.reduction must be open; more by one when it is on the inner variable
  std::vector<Accumulator> accumulators_;
};

}  // namespace toroid::codegen

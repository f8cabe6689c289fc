// Prints Scan steps: each keeps a carry, which is the fold of all points before.
#pragma once

#include <string>

#include "codegen/cpu/plan.h"
#include "codegen/emit.h"

namespace toroid::codegen {

class ScanWriter {
 public:
  ScanWriter(const KernelPlan& plan, StepEmitter& emitter) : plan_(plan), e_(emitter) {}

  // The carry before the first point. `lanes`: the lanes are points of a space variable, each with a carry of its own.
  void declare(int step, bool lanes);
  // Folds the step's argument in and defines its value. At is the position of the (first) point. `lanes` as above; `along`: the lanes are
  // successive points of the scan.
  void emit(int step, bool lanes, bool along, const Expr& at);

  // Carries in memory, of `count` points of a space variable: at `bytes` of the row scratch. take() and keep() move the carry of the point
  // `at` (or of the lanes from there on) to and from where emit() uses it.
  void begin_row(int step, const std::string& bytes, const std::string& count);
  void take(int step, bool lanes, const std::string& at);
  void keep(int step, bool lanes, const std::string& at);

 private:
  // How a scan of elements of t adds up: sums, products and logarithms of floats in f64, as their rounding would add up too.
  static DType carry_type(loop::Reduction r, DType t);
  DType carry_type(int step) const { return carry_type(plan_.step(step).reduction, plan_.step(plan_.step(step).args[0]).dtype); }
  std::string combined(loop::Reduction r, DType t, const std::string& earlier, const std::string& later, bool vector);
  std::string earlier_wins(loop::Reduction r, DType t, const std::string& earlier, const std::string& later, bool vector);
  std::string log_add_exp(DType t, bool vector);
  std::string prefix(loop::Reduction r, DType t);

  const KernelPlan& plan_;
  StepEmitter& e_;
};

}  // namespace toroid::codegen

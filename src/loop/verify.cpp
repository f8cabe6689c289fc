// The rules that every loop node keeps.
#include "base/check.h"
#include "loop/node.h"

namespace toroid::loop {
namespace {

bool is_predicate(ScalarOp op) {
  return (op >= ScalarOp::Eq && op <= ScalarOp::Ge) || op == ScalarOp::IsNan || op == ScalarOp::IsInf || op == ScalarOp::SignBit;
}
bool is_random(ScalarOp op) { return op == ScalarOp::RandUniform || op == ScalarOp::RandNormal; }

}  // namespace

void verify(const Domain& d, const Body& b, const std::string& stage) {
  auto where = [&](size_t k) { return fmt::format("step v{} after {}, in\n{}", k, stage, to_string(d, b)); };
  std::vector<bool> varies = varies_over_reduction(d, b);
  for (size_t k = 0; k < b.steps.size(); ++k) {
    const Statement& s = b.steps[k];
    auto dtype = [&](int i) { return b.steps[static_cast<size_t>(s.args[i])].dtype; };
    auto usable = [&](int a) { return a >= 0 && a < static_cast<int>(k) && b.steps[static_cast<size_t>(a)].step != Step::Store; };
    bool folds = s.step == Step::Reduce || s.step == Step::Scan;
    int arity = s.step == Step::Scalar ? arity_of(s.op) : folds || s.step == Step::Store || s.step == Step::Check ? 1 : 0;
    for (int i = 0; i < 3; ++i)
      TOROID_CHECK(i < arity ? usable(s.args[i]) : s.args[i] == -1, "argument {} is not an earlier value: {}", i, where(k));
    if (s.mask >= 0) {
      TOROID_CHECK(s.step == Step::Load || s.step == Step::Store || s.step == Step::Check, "a mask on neither load, store nor check: {}",
                   where(k));
      TOROID_CHECK(usable(s.mask) && b.steps[static_cast<size_t>(s.mask)].dtype == DType::Bool, "the mask is not an earlier Bool: {}",
                   where(k));
    }
    TOROID_CHECK(!is_complex(s.dtype), "complex value: {}", where(k));
    if (s.step == Step::Load || s.step == Step::Store || s.step == Step::Index || s.step == Step::Check) {
      sym::for_each_symbol(s.index, [&](const Expr& e) {
        if (int v = step_of_symbol(*e.node()); v >= 0) {
          TOROID_CHECK(usable(v) && b.steps[static_cast<size_t>(v)].dtype == DType::I64, "v{} in the index is not an earlier I64: {}", v,
                       where(k));
          return;
        }
        if (sym::is_size(*e.node())) return;
        bool known = false;
        for (auto& var : d.vars) known = known || var.symbol == e;
        TOROID_CHECK(known, "the index uses {}, which is no variable of the domain: {}", sym::to_string(e), where(k));
      });
    }
    if (s.step == Step::Load || s.step == Step::Store || s.step == Step::Check) TOROID_CHECK(s.buffer >= 0, "no buffer: {}", where(k));
    switch (s.step) {
      case Step::Index:
        TOROID_CHECK(s.dtype == DType::I64, "an index is I64: {}", where(k));
        break;
      case Step::Check:
        TOROID_CHECK(s.dtype == DType::I64 && dtype(0) == DType::I64, "a check of {} that gives {}: {}", name_of(dtype(0)),
                     name_of(s.dtype), where(k));
        break;
      case Step::Store:
        TOROID_CHECK(dtype(0) == s.dtype, "stores {} as {}: {}", name_of(dtype(0)), name_of(s.dtype), where(k));
        break;
      case Step::Reduce:
      case Step::Scan: {
        bool position = s.reduction == Reduction::ArgMax || s.reduction == Reduction::ArgMin;
        bool logical = s.reduction == Reduction::Any || s.reduction == Reduction::All;
        TOROID_CHECK(s.dtype == (position ? DType::I64 : dtype(0)), "a reduction of {} to {}: {}", name_of(dtype(0)), name_of(s.dtype),
                     where(k));
        bool ordered = position || s.reduction == Reduction::Max || s.reduction == Reduction::Min;
        TOROID_CHECK(!logical || s.dtype == DType::Bool, "any or all of {}: {}", name_of(s.dtype), where(k));
        TOROID_CHECK(s.step == Step::Reduce || (!logical && (ordered || !is_bool(s.dtype))), "a scan of {} that has no such fold: {}",
                     name_of(s.dtype), where(k));
        TOROID_CHECK(s.reduction != Reduction::LogSumExp || (s.step == Step::Scan && is_float(s.dtype)),
                     "a logsumexp that is no scan of floats: {}", where(k));
        TOROID_CHECK(has_reduction(d), "a reduction or scan without reduction variables: {}", where(k));
        break;
      }
      case Step::Scalar:
        if (s.op == ScalarOp::Const || s.op == ScalarOp::Cast) break;
        TOROID_CHECK(s.op != ScalarOp::Input, "Input in a loop body: {}", where(k));
        if (s.op == ScalarOp::Select) {
          TOROID_CHECK(dtype(0) == DType::Bool && dtype(1) == s.dtype && dtype(2) == s.dtype, "dtypes of a select: {}", where(k));
        } else if (is_random(s.op)) {
          TOROID_CHECK(dtype(0) == DType::I64 && dtype(1) == DType::I64 && s.dtype == DType::F32, "dtypes of a random number: {}",
                       where(k));
        } else {
          for (int i = 1; i < arity; ++i) TOROID_CHECK(dtype(i) == dtype(0), "operands of different dtypes: {}", where(k));
          TOROID_CHECK(s.dtype == (is_predicate(s.op) ? DType::Bool : dtype(0)), "dtype of the result: {}", where(k));
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace toroid::loop

// Values that an operation has no meaning for: composites look at their operands by one row.
#include <cmath>

#include "base/check.h"
#include "ops/rows/forms.h"
#include "ops/rows/host_lines.h"
#include "ops/rows/index_rules.h"

namespace toroid::ops {
namespace {

using namespace host;

bool has_bound(ValueRule rule) { return rule == ValueRule::AtLeast || rule == ValueRule::AtMost; }

void check_values_meta(MetaCall& c) {
  const auto *self = c.tensor("self"), *of = c.tensor("of");
  const bool counts = has_bound(value_rule(c.text("rule")));
  TOROID_USER_CHECK(counts ? of->dtype == DType::I64 : is_float(of->dtype), "{}: expected {}, got {}", c.text("subject"),
                    counts ? "i64" : "floats", name_of(of->dtype));
  TOROID_USER_CHECK(of->dim() <= self->dim(), "{}: values of {} dimensions are looked at for {}", c.text("subject"), of->dim(),
                    self->dim());
  c.result(self->dtype, self->sizes);
}

ValueFault fault_of(ValueRule rule, double v) {
  if (std::isnan(v)) return ValueFault::NotANumber;
  if (v < 0) return ValueFault::Negative;
  if (rule == ValueRule::Probability) return v > 1 ? ValueFault::AboveOne : ValueFault::None;
  if (rule == ValueRule::NotNegative) return ValueFault::None;
  if (std::isinf(v)) return ValueFault::Infinite;
  return rule == ValueRule::Total && v == 0 ? ValueFault::Zero : ValueFault::None;
}

void check_values_kernel(KernelCall& c) {
  const Tensor of = c.tensor("of").contiguous();
  const ValueRule rule = value_rule(c.text("rule"));
  const IndexSite site{c.text("subject"), OperationPlace::current(), IndexSite::of(rule)};
  const int64_t bound = c.integer("bound");
  for (int64_t i = 0; c.outputs[0].numel() > 0 && i < of.numel(); ++i) {
    int64_t found = 0;
    bool is_wrong = false;
    if (has_bound(rule)) {
      found = get_int(of, i);
      is_wrong = rule == ValueRule::AtLeast ? found < bound : found < 0 || found > bound;
    } else {
      found = static_cast<int64_t>(fault_of(rule, get_real(of, i)));
      is_wrong = found != 0;
    }
    if (is_wrong) fail<UserError>("{}", index_error(site, found, bound));
  }
  copy_elements(c.tensor("self"), c.outputs[0]);
}

}  // namespace

void add_value_check_rows(Table& t) {
  t.primitive("_check_values(Tensor self, Tensor of, str subject, str rule, SymInt bound=0) -> Tensor", check_values_meta,
              check_values_kernel);
}

Tensor forms::checked_values(const Tensor& self, const Tensor& of, const std::string& subject, ValueRule rule, const Expr& bound) {
  return call1("_check_values", {self, of, subject, std::string(name_of(rule)), bound});
}

}  // namespace toroid::ops

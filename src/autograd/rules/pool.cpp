// Gradients of pooling.
#include "ops/rows/pool.h"

#include "autograd/rule.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {
namespace {

// Of equal maxima of a window, the first one takes the gradient.
template <size_t kSpatial>
void max_pool_rule(GradientCall& c) {
  Tensor best = ops::max_pool_best(c, kSpatial);
  if (planted(GradientBug::PoolFirst)) best = ops::call1("mul.Scalar", {best, Expr(0)});
  c.set("self", ops::max_pool_gradient(c, c.cotangent(), best, kSpatial));
}

constexpr RuleRow kPoolRules[] = {
    {"max_pool1d", max_pool_rule<1>},
    {"max_pool2d", max_pool_rule<2>},
    {"max_pool3d", max_pool_rule<3>},
    {"max_pool1d_with_indices", max_pool_rule<1>},
    {"max_pool2d_with_indices", max_pool_rule<2>},
    {"max_pool3d_with_indices", max_pool_rule<3>},
};

}  // namespace

std::span<const RuleRow> pool_rules() { return kPoolRules; }

}  // namespace toroid::autograd

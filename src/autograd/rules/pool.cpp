// Gradients of pooling.
#include "ops/rows/pool.h"

#include <fmt/format.h>

#include "autograd/rule.h"
#include "base/gradient_bugs.h"

namespace toroid::autograd {
namespace {

// Of equal maxima of a window, the first one takes the gradient.
template <size_t kSpatial>
void max_pool_rule(GradientCall& c) {
  Tensor indices;
  if (c.results.size() > 1)
    indices = c.results[1];
  else
    indices = ops::call(fmt::format("max_pool{}d_with_indices", kSpatial),
                        {c.tensor("self"), c.at("kernel_size"), c.at("stride"), c.at("padding"), c.at("dilation"), c.at("ceil_mode")})[1];
  if (planted(GradientBug::PoolFirst)) indices = ops::call1("mul.Scalar", {indices, Expr(0)});
  c.set("self", ops::max_pool_gradient(c, c.cotangent(), indices, kSpatial));
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

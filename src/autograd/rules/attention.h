#pragma once

#include "autograd/rule.h"

namespace toroid::autograd {

// Sets the gradients of a call of scaled_dot_product_attention, of so many heads at a time that their weights have at most so many bytes
// where that can be. A mask whose gradient is wanted, and sizes that vary, leave the heads together.
void attention_gradients(GradientCall& c, int64_t most_bytes);

}  // namespace toroid::autograd

// Tensors that stand for values of a graph (Recorder::proxy), when the graph is done.
#pragma once

#include "tensor/tensor_impl.h"

namespace toroid::graph {

// Makes the handle an empty tensor, so that what outlives its graph is harmless.
void retire(TensorImpl& t);

}  // namespace toroid::graph

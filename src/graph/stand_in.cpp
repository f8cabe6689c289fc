#include "graph/stand_in.h"

namespace toroid::graph {

void retire(TensorImpl& t) {
  t.proxy = nullptr;
  t.sym_sizes.clear();
  t.sizes = {0};
  t.strides = {1};
  t.offset = 0;
  t.storage = std::make_shared<Storage>();
  t.grad = nullptr;
  t.requires_grad = false;
}

}  // namespace toroid::graph

#include "tensor/late_stack.h"

namespace toroid {

Tensor stack_late(std::vector<Tensor> parts) {
  std::vector<int64_t> sizes = parts.at(0).sizes();
  sizes[0] = 0;
  for (auto& p : parts) sizes[0] += p.sizes()[0];
  Tensor t = Tensor::empty(sizes, parts[0].dtype(), parts[0].device());
  t.impl()->storage->late = std::make_shared<LateStack>();
  t.impl()->storage->late->parts = std::move(parts);
  return t;
}

std::vector<Tensor> late_parts(const Tensor& t) {
  const TensorImpl& i = *t.impl();
  bool whole = i.storage->late && i.offset == 0 && static_cast<size_t>(product(i.sizes)) * size_of(i.dtype) == i.storage->bytes &&
               i.strides == contiguous_strides(i.sizes);
  return whole ? i.storage->late->parts : std::vector<Tensor>{t};
}

}  // namespace toroid

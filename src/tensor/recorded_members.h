// Members of Tensor that are operations of a function which is recorded, or runs as part of control flow.
#pragma once

#include "tensor/tensor_impl.h"

namespace toroid {

class RecordedMembers {
 public:
  virtual ~RecordedMembers() = default;
  virtual Tensor contiguous(const Tensor& t, const std::source_location& where) = 0;
  // Undefined where no operation says it: the memory of t, which has some then, tells.
  virtual Tensor as_strided(const Tensor& t, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
                            const std::source_location& where) = 0;
  // A member has made t where no dispatcher was asked.
  virtual void note_made(const Tensor& t) = 0;
};
// null: none were installed. Who installs the eager dispatcher installs them.
RecordedMembers* recorded_members();
void install_recorded_members(RecordedMembers* members);

}  // namespace toroid

// Mixed precision: operations choose the dtypes of their floating operands, as under torch.autocast.
#pragma once

#include <optional>

#include "toroid/tensor.h"

namespace toroid {

// While it lives, operations of this thread on tensors of one kind of device fall in three groups, PyTorch's: products, convolutions and
// attention take their operands in `dtype`; what needs range or precision (on GPUs exp, log, norms, softmax, losses; on the CPU losses and
// linear algebra) takes them in f32; some of several operands take the widest of their dtypes. All others, and those that write in place,
// run as they are. Operands of f64 and integers are left alone. Inside of a compiled function the casts are part of the graph; compiled
// functions are guarded by what is in force where they are called. Scopes nest, and end in the reverse order.
class autocast {  // NOLINT: the name that the field knows
 public:
  // dtype: BF16 or F16; not given: BF16 on the CPU, F16 on GPUs. Not enabled: suspends what is in force. UserError for other dtypes.
  explicit autocast(DeviceType device, std::optional<DType> dtype = {}, bool enabled = true);
  ~autocast();
  autocast(const autocast&) = delete;
  autocast& operator=(const autocast&) = delete;

 private:
  DeviceType device_;
  bool enabled_before_;
  DType dtype_before_;
};

// What is in force on this thread.
bool is_autocast_enabled(DeviceType device);
// The dtype of the innermost scope; the default one outside of all.
DType autocast_dtype(DeviceType device);

}  // namespace toroid

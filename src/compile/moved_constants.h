// Constants that have been brought to a device, which several programs share there.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::compiler {

// By where they were. Any number of threads may use it.
class MovedConstants {
 public:
  // Brought there now, where that has not been done yet.
  Tensor get(const Tensor& t, const Device& device);
  // Undefined where it has not been brought.
  Tensor find(const Tensor& t);

 private:
  std::mutex mutex_;
  std::vector<std::pair<Tensor, Tensor>> moved_;  // from, to
};

}  // namespace toroid::compiler

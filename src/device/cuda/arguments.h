// The parameters of one launch.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "device/cuda/gpu.h"

namespace toroid::device::cuda {

// In this order: pointers, tensor maps, sizes. Tensor maps are made anew when the pointers they are about change.
class Arguments {
 public:
  // together: the pointers are one parameter, an array of them.
  Arguments(const std::vector<TensorMap>& maps, std::vector<int64_t> sizes, size_t pointers,
            const std::function<int64_t(const Expr&)>& value, bool together = false);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Whether any differs from before.
  bool set_pointers(std::span<void* const> pointers);
  // Addresses of the parameters, good until the next call of set_pointers.
  std::span<void* const> list() const { return list_; }

 private:
  struct Map {
    TensorMapSizes sizes;
    int buffer;
    EncodedTensorMap encoded;
  };
  std::vector<void*> pointers_;
  std::vector<Map> maps_;
  std::vector<int64_t> sizes_;
  std::vector<void*> list_;
};

}  // namespace toroid::device::cuda

#include "tensor/checkpoint_scope.h"

#include <atomic>

namespace toroid {

uint64_t CheckpointScope::new_ids(uint64_t count) {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(count);
}

}  // namespace toroid

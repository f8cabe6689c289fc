// The checkpoint that operations of this thread are recorded in (toroid/checkpoint.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace toroid {

struct OpenCheckpoint {
  uint64_t id = 0;                                 // of the process
  const std::vector<std::string>* save = nullptr;  // names of operations whose results are kept all the same; null: none
};
inline thread_local OpenCheckpoint open_checkpoint;

// Opens a checkpoint for the lifetime of the scope. Within another one it has no effect: what is computed again there is all of it.
class CheckpointScope {
 public:
  explicit CheckpointScope(const OpenCheckpoint& c) : before_(open_checkpoint) {
    if (before_.id == 0) open_checkpoint = c;
  }
  ~CheckpointScope() { open_checkpoint = before_; }
  CheckpointScope(const CheckpointScope&) = delete;
  CheckpointScope& operator=(const CheckpointScope&) = delete;

  // So many numbers that no other checkpoint has: the first of them.
  static uint64_t new_ids(uint64_t count = 1);

 private:
  const OpenCheckpoint before_;
};

}  // namespace toroid

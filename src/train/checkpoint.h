// Checkpoints as folders: written whole or not at all, found by their step.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "toroid/tensor.h"

namespace toroid::train {

// A folder under a temporary name, which publish() gives its own. Left alone, it removes what was written.
class CheckpointWriter {
 public:
  // UserError for a path that cannot hold folders, EnvironmentError where it cannot be created.
  CheckpointWriter(const std::string& folder, int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // A path inside, whose folders are made.
  std::string file(const std::string& name) const;
  // In place of an earlier checkpoint of that step. All that was written is on the disk when it returns the path.
  std::string publish();

 private:
  std::filesystem::path temporary_, final_;
};

// Removes the oldest checkpoints but `keep`; 0: none.
void remove_old_checkpoints(const std::string& folder, int64_t keep);

// 16 hexadecimal digits that change with any bit of the tensors, their names, dtypes and sizes.
std::string digest_of(const std::map<std::string, Tensor>& tensors);

}  // namespace toroid::train

#include "exec/nccl.h"

#include "dist/nccl/communicator.h"

namespace toroid::exec {

std::string nccl_refusal(const distributed::Collective& c, const std::string& group, const Device& device) {
  using namespace distributed;
  if (std::string why = nccl::lacks(c); !why.empty()) return why;
  if (!has_world()) return "there is no process group";
  return nccl::refusal(current_world().group(group), device);
}

}  // namespace toroid::exec

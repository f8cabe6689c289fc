// What the ranks of a group tell each other before NCCL joins them.
#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "base/check.h"
#include "dist/agree.h"
#include "dist/gpus.h"
#include "dist/nccl/communicator.h"

namespace toroid::distributed::nccl {
namespace {

constexpr const char* kWhere = "joining the GPUs of the ranks";

// Why it cannot be done; empty where it was.
std::string reason_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const EnvironmentError& e) {
    return e.what();
  }
  return "";
}

std::string ask(Group& group, const Device& device) {
  std::string place, its_id;
  const std::string lack = reason_of([&] {
    library();
    place = gpu_place(device);
  });
  if (std::string why = first_refusal(group, lack, kWhere); !why.empty()) return why;
  if (std::string why = same_gpu(all_gather_object(group, place, kWhere)); !why.empty()) return why + ", NCCL wants one a rank";
  const std::string no_id = reason_of([&] {
    ncclUniqueId id{};
    if (group.rank() != 0) return;
    if (const ncclResult_t status = library().unique_id(&id); status != ncclSuccess)
      fail<EnvironmentError>("NCCL gives no id: {}", library().error_string(status));
    its_id.assign(id.internal, sizeof id.internal);
  });
  if (std::string why = first_refusal(group, no_id, kWhere); !why.empty()) return why;
  ncclUniqueId id{};
  std::memcpy(id.internal, all_gather_object(group, its_id, kWhere)[0].data(), sizeof id.internal);
  std::shared_ptr<Communicator> made;
  const std::string apart = reason_of([&] { made = Communicator::make(group, device.index, id); });
  if (const std::string why = first_refusal(group, apart, kWhere); !why.empty())
    fail<EnvironmentError>("group \"{}\": {}", group.name(), why);
  group.on_gpu(device.index).nccl = std::move(made);
  return "";
}

}  // namespace

std::string refusal(Group& group, const Device& device) {
  auto& kept = group.on_gpu(device.index).nccl_refusal;
  if (!kept) kept = ask(group, device);
  return *kept;
}

}  // namespace toroid::distributed::nccl

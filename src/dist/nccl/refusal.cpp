// What the ranks of a group tell each other before NCCL joins them.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <map>

#include "base/check.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/nccl/communicator.h"

namespace toroid::distributed::nccl {
namespace {

constexpr char kHas = '+', kLacks = '-';  // the first character of what a rank tells

// The same in all containers of a host.
std::string host() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  std::array<char, 256> name{};
  if (id.empty() && ::gethostname(name.data(), name.size() - 1) == 0) id = name.data();
  return id;
}

// What `make` gives, or why not.
template <class F>
std::string told(F&& make) {
  try {
    return kHas + make();
  } catch (const EnvironmentError& e) {
    return kLacks + std::string(e.what());
  }
}

bool has(const std::string& text) { return !text.empty() && text[0] == kHas; }

// The first rank that lacks something, and what.
std::string first_lack(const std::vector<std::string>& all) {
  for (size_t r = 0; r < all.size(); ++r)
    if (!has(all[r])) return fmt::format("rank {}: {}", r, all[r].substr(all[r].empty() ? 0 : 1));
  return "";
}

std::string shared_gpu(const std::vector<std::string>& all) {
  std::map<std::string, size_t> seen;
  for (size_t r = 0; r < all.size(); ++r)
    if (const auto [it, fresh] = seen.emplace(all[r], r); !fresh)
      return fmt::format("ranks {} and {} have the same GPU, NCCL wants one a rank", it->second, r);
  return "";
}

std::string ask(Group& group, const Device& device) {
  const std::string where = "joining the GPUs of the ranks";
  const auto gpus = all_gather_object(group, told([&] {
                                        library();
                                        return host() + " " + device::cuda::gpu(device.index).info().bus;
                                      }),
                                      where);
  if (std::string why = first_lack(gpus); !why.empty()) return why;
  if (std::string why = shared_gpu(gpus); !why.empty()) return why;
  const auto ids = all_gather_object(group, told([&] {
                                       ncclUniqueId id{};
                                       if (group.rank() != 0) return std::string();
                                       if (const ncclResult_t status = library().unique_id(&id); status != ncclSuccess)
                                         fail<EnvironmentError>("NCCL gives no id: {}", library().error_string(status));
                                       return std::string(id.internal, sizeof id.internal);
                                     }),
                                     where);
  if (std::string why = first_lack(ids); !why.empty()) return why;
  ncclUniqueId id{};
  std::memcpy(id.internal, ids[0].data() + 1, sizeof id.internal);
  std::shared_ptr<Communicator> made;
  const auto joined = all_gather_object(group, told([&] {
                                          made = Communicator::make(group, device.index, id);
                                          return std::string();
                                        }),
                                        where);
  if (const std::string why = first_lack(joined); !why.empty()) fail<EnvironmentError>("group \"{}\": {}", group.name(), why);
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

#include "dist/gpus.h"

#include <fmt/format.h>

#include <map>

#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/host.h"

namespace toroid::distributed {
namespace {

std::string host_of(const std::string& place) { return place.substr(0, place.find(' ')); }

}  // namespace

std::string gpu_place(const Device& device) { return host_id() + " " + device::cuda::gpu(device.index).info().bus; }

std::string same_gpu(const std::vector<std::string>& places) {
  std::map<std::string, size_t> seen;
  for (size_t r = 0; r < places.size(); ++r)
    if (const auto [it, fresh] = seen.emplace(places[r], r); !fresh) return fmt::format("ranks {} and {} have the same GPU", it->second, r);
  return "";
}

std::string other_host(const std::vector<std::string>& places) {
  for (size_t r = 1; r < places.size(); ++r)
    if (host_of(places[r]) != host_of(places[0])) return fmt::format("rank {} is on another host than rank 0", r);
  return "";
}

std::string first_refusal(Group& group, const std::string& own, const std::string& where) {
  const auto all = all_gather_object(group, own, where);
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return fmt::format("rank {}: {}", r, all[r]);
  return "";
}

}  // namespace toroid::distributed

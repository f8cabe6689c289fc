#include "dist/p2p/symmetric_memory.h"

#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "base/check.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/gpus.h"
#include "dist/p2p/layout.h"

namespace toroid::distributed::p2p {
namespace {

using device::cuda::CUdeviceptr;
using device::cuda::Gpu;

// Memory of a GPU that lasts as long as somebody here may write it: ranks that are threads find each other's by its address.
class Regions {
 public:
  static std::shared_ptr<void> make(Gpu& gpu, int64_t bytes) {
    const auto& driver = gpu.driver_functions();
    CUdeviceptr at = 0;
    gpu.use();
    {
      const device::cuda::Relaxed relaxed(driver);
      driver.check(driver.allocate(&at, static_cast<size_t>(bytes)), "taking memory that GPUs share");
    }
    std::shared_ptr<void> region(reinterpret_cast<void*>(at), [&gpu](void* p) {
      {
        std::lock_guard lock(mutex());
        all().erase(reinterpret_cast<CUdeviceptr>(p));
      }
      const auto& functions = gpu.driver_functions();
      gpu.use();
      const device::cuda::Relaxed relaxed(functions);
      functions.free(reinterpret_cast<CUdeviceptr>(p));
    });
    std::lock_guard lock(mutex());
    all()[at] = region;
    return region;
  }
  static std::shared_ptr<void> find(CUdeviceptr at) {
    std::lock_guard lock(mutex());
    const auto it = all().find(at);
    std::shared_ptr<void> region = it == all().end() ? nullptr : it->second.lock();
    TOROID_CHECK(region, "a rank of this process has let its memory go");
    return region;
  }

 private:
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::map<CUdeviceptr, std::weak_ptr<void>>& all() {
    static std::map<CUdeviceptr, std::weak_ptr<void>> regions;
    return regions;
  }
};

}  // namespace

// How the others find a rank's region.
struct SymmetricMemory::Offer {
  int64_t process = 0;
  int32_t device = 0;
  device::cuda::CUipcMemHandle handle = {};
  CUdeviceptr address = 0;
};

SymmetricMemory::SymmetricMemory(Group& group, const Device& device, int64_t bytes) : device_(device) {
  if (group.size() > kMostRanks) {
    refusal_ = fmt::format("{} ranks, of which {} at most share memory", group.size(), kMostRanks);
    return;
  }
  open(group, bytes);
}

void SymmetricMemory::open(Group& group, int64_t bytes) {
  Offer own{.process = getpid(), .device = device_.index};
  Gpu* gpu = nullptr;
  std::string place, reason;
  try {
    gpu = &device::cuda::gpu(device_.index);
    place = gpu_place(device_);
    region_ = Regions::make(*gpu, bytes);
    own.address = reinterpret_cast<CUdeviceptr>(region_.get());
    gpu->fill_zero(region_.get(), static_cast<size_t>(bytes));
    gpu->synchronize(gpu->stream());
    const auto& driver = gpu->driver_functions();
    driver.check(driver.export_memory(&own.handle, own.address), "sharing memory between processes");
  } catch (const Error& e) {
    reason = e.what();
  }
  refusal_ = first_refusal(group, reason, kSharing);
  if (!refusal_.empty()) return;
  const auto places = all_gather_object(group, place, kSharing);
  refusal_ = other_host(places);
  if (const std::string same = same_gpu(places); refusal_.empty() && !same.empty())
    refusal_ = same + ", on which their kernels would wait for each other";
  if (!refusal_.empty()) return;

  const auto offers = all_gather_object(group, std::string(reinterpret_cast<const char*>(&own), sizeof own), kSharing);
  try {
    const device::cuda::Relaxed relaxed(gpu->driver_functions());
    gpu->use();
    for (size_t r = 0; r < offers.size(); ++r) at_.push_back(reach(*gpu, offers[r], own, static_cast<int>(r) == group.rank()));
  } catch (const Error& e) {
    reason = e.what();
  }
  // No rank lets its region go before all have said what they reach.
  refusal_ = first_refusal(group, reason, kSharing);
}

// The address of a rank's region on this GPU, which is kept there.
std::byte* SymmetricMemory::reach(Gpu& gpu, const std::string& offer, const Offer& own, bool is_own) {
  Offer its;
  TOROID_CHECK(offer.size() == sizeof its, "a rank of another version");
  std::memcpy(&its, offer.data(), sizeof its);
  if (is_own) return reinterpret_cast<std::byte*>(its.address);
  if (its.process == own.process) {
    gpu.reach(device::cuda::gpu(its.device));
    others_.push_back(Regions::find(its.address));
    return reinterpret_cast<std::byte*>(its.address);
  }
  const auto& driver = gpu.driver_functions();
  CUdeviceptr at = 0;
  driver.check(driver.import_memory(&at, its.handle, device::cuda::kLazyPeerAccess), "reaching the memory of another process");
  others_.emplace_back(reinterpret_cast<void*>(at), [&gpu](void* p) {
    gpu.use();
    gpu.driver_functions().close_memory(reinterpret_cast<CUdeviceptr>(p));
  });
  return reinterpret_cast<std::byte*>(at);
}

SymmetricMemory::~SymmetricMemory() {
  if (at_.empty()) return;
  try {
    Gpu& gpu = device::cuda::gpu(device_.index);
    gpu.use();
    const auto& driver = gpu.driver_functions();
    const device::cuda::Relaxed relaxed(driver);
    driver.synchronize_context();  // launches use it, and what they wait for has come then: nobody writes to this rank any more
  } catch (const Error&) {         // the driver is gone, and the memory with it
  }
}

std::shared_ptr<SymmetricMemory> staging_memory(Group& group, const Device& device, std::string_view use, int64_t bytes) {
  auto& kept = group.on_gpu(device.index).staging[{std::string(use), bytes}];
  if (!kept) kept = std::make_shared<SymmetricMemory>(group, device, bytes);
  if (!kept->refusal().empty())
    fail<EnvironmentError>("the ranks of the group \"{}\" share no memory of GPUs: {}", group.name(), kept->refusal());
  return kept;
}

}  // namespace toroid::distributed::p2p

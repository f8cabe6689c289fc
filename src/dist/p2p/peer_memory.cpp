#include "dist/p2p/peer_memory.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/options.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"

namespace toroid::distributed::p2p {
namespace {

using device::cuda::CUdeviceptr;
using device::cuda::Gpu;
using device::cuda::kSuccess;

// Memory of a GPU that lasts as long as somebody here may write it: ranks that are threads find each other's by its address.
class Regions {
 public:
  static std::shared_ptr<void> make(Gpu& gpu, int64_t bytes) {
    const auto& driver = gpu.driver_functions();
    CUdeviceptr at = 0;
    {
      const device::cuda::Relaxed relaxed(driver);
      driver.check(driver.allocate(&at, static_cast<size_t>(bytes)), "taking memory that GPUs share");
    }
    std::shared_ptr<void> region(reinterpret_cast<void*>(at), [&gpu](void* p) {
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

// What a rank tells the others.
struct Offer {
  char host[40] = {};  // of the operating system that runs: equal for the processes of one
  char gpu[16] = {};   // its UUID
  int64_t process = 0;
  int32_t device = 0;
  device::cuda::CUipcMemHandle handle = {};
  uint64_t address = 0;
  char refusal[160] = {};  // why it has nothing to offer
};

std::string as_bytes(const Offer& o) { return std::string(reinterpret_cast<const char*>(&o), sizeof o); }

template <size_t N>
void put(char (&to)[N], const std::string& text) {
  std::memset(to, 0, N);
  text.copy(to, N - 1);
}

std::string boot_id() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

// The first reason that some rank gives; empty where none does.
std::string first_reason(Group& group, const std::string& own) {
  const auto all = all_gather_object(group, own, "memory that GPUs share");
  for (size_t r = 0; r < all.size(); ++r)
    if (!all[r].empty()) return fmt::format("rank {}: {}", r, all[r]);
  return "";
}

std::string conflict(const std::vector<Offer>& offers) {
  for (size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].refusal[0]) return fmt::format("rank {}: {}", r, offers[r].refusal);
    if (std::strncmp(offers[r].host, offers[0].host, sizeof offers[r].host) != 0)
      return fmt::format("rank {} is on another host than rank 0", r);
    for (size_t q = 0; q < r; ++q)
      if (std::memcmp(offers[r].gpu, offers[q].gpu, sizeof offers[r].gpu) == 0)
        return fmt::format("ranks {} and {} have one GPU, on which their kernels would wait for each other", q, r);
  }
  return "";
}

}  // namespace

PeerMemory::PeerMemory(Group& group, const Device& device) : device_(device) {
  if (group.size() > kMostRanks) {
    refusal_ = fmt::format("{} ranks, of which {} at most share memory", group.size(), kMostRanks);
    return;
  }
  open(group);
}

void PeerMemory::open(Group& group) {
  const Layout layout(group.size());
  Offer own;
  put(own.host, boot_id());
  own.process = getpid();
  own.device = device_.index;
  Gpu* gpu = nullptr;
  try {
    gpu = &device::cuda::gpu(device_.index);
    gpu->use();
    const auto& driver = gpu->driver_functions();
    region_ = Regions::make(*gpu, layout.bytes);
    own.address = reinterpret_cast<CUdeviceptr>(region_.get());
    gpu->fill_zero(region_.get(), static_cast<size_t>(layout.bytes));
    gpu->synchronize(gpu->stream());
    driver.check(driver.device_uuid(own.gpu, gpu->handle()), "asking for the GPU's name");
    driver.check(driver.export_memory(&own.handle, own.address), "sharing memory between processes");
  } catch (const Error& e) {
    put(own.refusal, e.what());
  }
  // The others have come, and will not let go of what this rank has found before it has said so itself.
  std::vector<Offer> offers;
  for (auto& text : all_gather_object(group, as_bytes(own), "memory that GPUs share")) {
    TOROID_CHECK(text.size() == sizeof(Offer), "a rank of another version");
    std::memcpy(&offers.emplace_back(), text.data(), sizeof(Offer));
  }
  refusal_ = conflict(offers);
  if (!refusal_.empty()) return;

  Table table;
  table.rank = group.rank();
  table.ranks = group.size();
  table.timeout_ms = static_cast<uint32_t>(get_option(options::kDistTimeoutMs));
  std::string reason;
  try {
    const auto& driver = gpu->driver_functions();
    const device::cuda::Relaxed relaxed(driver);
    for (size_t r = 0; r < offers.size(); ++r) {
      const Offer& o = offers[r];
      CUdeviceptr at = o.address;
      if (static_cast<int>(r) != group.rank() && o.process == own.process) {
        gpu->reach(device::cuda::gpu(o.device));
        others_.push_back(Regions::find(at));
      } else if (static_cast<int>(r) != group.rank()) {
        driver.check(driver.import_memory(&at, o.handle, device::cuda::kLazyPeerAccess), fmt::format("reaching the memory of rank {}", r));
        others_.emplace_back(reinterpret_cast<void*>(at), [gpu](void* p) {
          gpu->use();
          gpu->driver_functions().close_memory(reinterpret_cast<CUdeviceptr>(p));
        });
      }
      table.regions[r] = at;
    }
    CUdeviceptr memory = 0;
    driver.check(driver.allocate(&memory, sizeof table), "taking memory that GPUs share");
    table_ = reinterpret_cast<void*>(memory);
    gpu->copy_in(table_, &table, sizeof table);
    gpu->synchronize(gpu->stream());
  } catch (const Error& e) {
    reason = e.what();
  }
  refusal_ = first_reason(group, reason);
}

PeerMemory::~PeerMemory() {
  if (!table_) return;
  try {
    Gpu& gpu = device::cuda::gpu(device_.index);
    gpu.use();
    const auto& driver = gpu.driver_functions();
    const device::cuda::Relaxed relaxed(driver);
    driver.synchronize_context();  // launches use the table, and what they wait for has come then: nobody writes to this rank any more
    driver.free(reinterpret_cast<CUdeviceptr>(table_));
  } catch (const Error&) {  // the driver is gone, and the memory with it
  }
}

std::shared_ptr<PeerMemory> peer_memory(Group& group, const Device& device) {
  auto& kept = group.on_gpu(device.index).peers;
  if (!kept) kept = std::shared_ptr<PeerMemory>(new PeerMemory(group, device));
  return kept;
}

}  // namespace toroid::distributed::p2p

// Where tensors are and where programs run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace toroid {

enum class DeviceType : uint8_t { Cpu, Cuda };

// The host, or one NVIDIA GPU. A plain value: that the device exists shows when it is first used.
struct Device {
  DeviceType type = DeviceType::Cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::Cuda, index}; }
  bool is_cuda() const { return type == DeviceType::Cuda; }
  bool operator==(const Device&) const = default;
};

// "cpu", "cuda:0".
std::string to_string(const Device& d);
// Inverse of to_string; "cuda" means "cuda:0". UserError for anything else.
Device device_from_name(std::string_view name);
// GPUs that can be used now: 0 where there is no driver or no GPU.
int cuda_device_count();
// Waits until all that was started on the device is done.
void synchronize(const Device& d);

// Where this thread makes tensors when it is told neither a device nor a tensor to go by: the CPU, unless a scope says otherwise.
Device default_device();
// Sets it for the lifetime of the scope. Compiled functions are guarded by it.
class DeviceScope {
 public:
  explicit DeviceScope(const Device& d);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  Device before_;
};

}  // namespace toroid

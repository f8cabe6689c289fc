#include "toroid/device.h"

#include <charconv>

#include "base/check.h"
#include "device/cpu/cpu_runtime.h"
#include "device/cuda/cuda_runtime.h"

namespace toroid {

namespace {
thread_local Device factory_device;
}

Device default_device() { return factory_device; }
DeviceScope::DeviceScope(const Device& d) : before_(factory_device) { factory_device = d; }
DeviceScope::~DeviceScope() { factory_device = before_; }

std::string to_string(const Device& d) { return d.is_cuda() ? fmt::format("cuda:{}", d.index) : "cpu"; }

Device device_from_name(std::string_view name) {
  if (name == "cpu") return Device::cpu();
  if (name == "cuda") return Device::cuda();
  constexpr std::string_view kCuda = "cuda:";
  int index = 0;
  if (name.starts_with(kCuda)) {
    const auto [end, error] = std::from_chars(name.data() + kCuda.size(), name.data() + name.size(), index);
    if (error == std::errc() && end == name.data() + name.size() && index >= 0) return Device::cuda(index);
  }
  fail<UserError>("\"{}\" is no device; expected cpu, cuda or cuda:<number>", name);
}

int cuda_device_count() {
  try {
    const device::cuda::Driver& driver = device::cuda::driver();
    int count = 0;
    driver.check(driver.device_count(&count), "counting GPUs");
    return count;
  } catch (const EnvironmentError&) {
    return 0;
  }
}

device::Runtime& device::runtime_of(const Device& d) { return d.is_cuda() ? cuda::runtime(d.index) : cpu::runtime(); }

device::DeviceMemory& device::memory_of(const Device& d) { return runtime_of(d).memory(); }

void synchronize(const Device& d) { device::runtime_of(d).synchronize(); }

}  // namespace toroid

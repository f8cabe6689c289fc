#include "device/cuda/driver.h"

#include <memory>
#include <mutex>

#include "base/check.h"
#include "device/errors.h"

namespace toroid::device::cuda {
namespace {

constexpr const char* kNames[] = {"libcuda.so.1"};
constexpr const char* kRemedy =
    "Programs for the CPU need no GPU: use Device::cpu(). For a GPU, install NVIDIA's driver (version 580 or later).";

std::unique_ptr<Driver> open_driver() {
  auto d = std::make_unique<Driver>(Driver{SharedLibrary("The CUDA driver, which runs programs on NVIDIA GPUs,", kNames, "", kRemedy)});
  if (CUresult status = d->init(0); status == kNoDevice)
    fail<EnvironmentError>("the CUDA driver ({}) finds no GPU. {}", d->library.path(), kRemedy);
  else
    d->check(status, "starting the driver");
  return d;
}

}  // namespace

void Driver::refuse(CUresult status, std::string_view doing) const {
  const char *name = nullptr, *words = nullptr;
  error_name(status, &name);
  error_string(status, &words);
  fail_on_device(status, doing, words ? words : "", name ? name : "");
}

const Driver& driver() {
  static std::mutex mutex;
  static std::unique_ptr<Driver>& opened = *new std::unique_ptr<Driver>;  // never destroyed: tensors may outlive main
  std::lock_guard lock(mutex);
  if (!opened) opened = open_driver();
  return *opened;
}

}  // namespace toroid::device::cuda

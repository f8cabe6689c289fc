// What goes wrong on a device: with a code, its name, the likely cause and what to do next.
#pragma once

#include <string>
#include <utility>

#include "toroid/error.h"

namespace toroid {

// Codes and names are those of the CUDA driver, on every device.
enum class DeviceErrorCode : int {
  OutOfMemory = 2,
  InvalidHandle = 400,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchTimeout = 702,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureMerge = 902,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CapturedEvent = 907,
  CaptureWrongThread = 908,
};

class DeviceError : public EnvironmentError {
 public:
  DeviceError(int code, std::string name, std::string cause, std::string next_step, const std::string& what)
      : EnvironmentError(what), code_(code), name_(std::move(name)), cause_(std::move(cause)), next_step_(std::move(next_step)) {}

  int code() const { return code_; }
  bool is(DeviceErrorCode c) const { return code_ == static_cast<int>(c); }
  const std::string& name() const { return name_; }            // "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
  const std::string& cause() const { return cause_; }          // the likely one
  const std::string& next_step() const { return next_step_; }  // what to do

 private:
  int code_;
  std::string name_, cause_, next_step_;
};

}  // namespace toroid

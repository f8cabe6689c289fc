// The table of what devices report: code, name, likely cause and next step.
#pragma once

#include <string_view>

#include "toroid/device_error.h"

namespace toroid::device {

// DeviceError. doing: "replaying a graph"; words: what the device says of it, may be empty; name: for codes that the table does not know.
[[noreturn]] void fail_on_device(int code, std::string_view doing, std::string_view words = {}, std::string_view name = {});
[[noreturn]] inline void fail_on_device(DeviceErrorCode code, std::string_view doing, std::string_view words = {}) {
  fail_on_device(static_cast<int>(code), doing, words);
}

}  // namespace toroid::device

// What a program is compiled for, and by which options: one value from the door of a compile down.
#pragma once

#include "base/compile_options.h"
#include "toroid/device.h"

namespace toroid::compiler {

struct Setup {
  Device device = Device::cpu();
  CompileOptions options = {};
};

}  // namespace toroid::compiler

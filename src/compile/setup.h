// What a program is compiled for, and by which options: one value from the door of a compile down.
#pragma once

#include <vector>

#include "base/compile_options.h"
#include "toroid/device.h"

namespace toroid::compiler {

struct Setup {
  Device device = Device::cpu();
  CompileOptions options = {};
  std::vector<size_t> donated = {};  // user inputs of the program whose memory a run may write over
  bool eager = false;                // it is one operation that was called eagerly; for counts alone
};

}  // namespace toroid::compiler

// What a program is compiled for, and by which options: one value from the door of a compile down.
#pragma once

#include <string>
#include <vector>

#include "base/compile_options.h"
#include "toroid/device.h"

namespace toroid::compiler {

struct Setup {
  Device device = Device::cpu();
  CompileOptions options = {};
  std::vector<size_t> donated = {};     // user inputs of the program whose memory a run may write over
  bool eager = false;                   // it is one operation that was called eagerly; for counts alone
  std::vector<std::string> notes = {};  // of whoever traced it, for what compile_debug writes: why it is compiled, guards
};

}  // namespace toroid::compiler

// What a kernel must move and compute, for reports.
#pragma once

#include "program/program.h"

namespace toroid::compiler {

struct Cost {
  Expr bytes = 0;  // each element that is read or written counts once a buffer, however often the kernel touches it
  Expr flops = 0;  // float operations; a product and its sum are two, every other operation of a formula is one
};
Cost cost_of(const program::Node& node, const program::Program& program);

}  // namespace toroid::compiler

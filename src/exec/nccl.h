// What ranks ask each other before they load calls of NCCL.
#pragma once

#include <string>

#include "dist/collective.h"
#include "toroid/device.h"

namespace toroid::exec {

// Why NCCL does not do collectives like this one (its kind, dtype and op count) between the GPUs of the group's ranks; empty where it does.
// All ranks of the group ask alike, as the first answer takes a meeting of them; it is the same on all.
std::string nccl_refusal(const distributed::Collective& c, const std::string& group, const Device& device);

}  // namespace toroid::exec

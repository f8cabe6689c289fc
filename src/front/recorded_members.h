// Members of Tensor as operations of functions that are recorded.
#pragma once

#include "tensor/recorded_members.h"

namespace toroid::front {

// Of the process.
RecordedMembers& members_of_tensor();

}  // namespace toroid::front

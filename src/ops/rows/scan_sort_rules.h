// The further file of the scan and sort family.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

void add_unique_rows(Table& t);

}  // namespace toroid::ops

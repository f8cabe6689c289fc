// Rows of compositions of views and selections.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

void add_view_composite_rows(Table& t);

}  // namespace toroid::ops

// Rows of torch.fft and of short-time transforms.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

void add_fft_composite_rows(Table& t);

}  // namespace toroid::ops

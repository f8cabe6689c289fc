// A linear layer and its cross entropy in one operation, as exports of chunked losses contain it.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

void add_linear_loss_rows(Table& t);
void add_linear_cross_entropy_rows(Table& t);

}  // namespace toroid::ops

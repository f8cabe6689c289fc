// The further files of the index family.
#pragma once

#include "ops/table.h"

namespace toroid::ops {

void add_index_scatter_rows(Table& t);
void add_value_check_rows(Table& t);
void add_index_join_rows(Table& t);
void add_index_embedding_rows(Table& t);
void add_index_nonzero_rows(Table& t);
void add_index_combinations_rows(Table& t);

}  // namespace toroid::ops

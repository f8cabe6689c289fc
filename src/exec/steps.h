// Questions about the steps of a plan.
#pragma once

#include <span>

#include "exec/plan.h"

namespace toroid::exec {

const std::string& name_of(const StepPlan& step);
const std::string& where_of(const StepPlan& step);

// The row of a call that a stored plan names. UserError where this process has none of that name.
const ops::Op& operation_named(const std::string& name);

// The blocks of a step; none for steps that have none.
std::span<const Block> blocks_of(const StepPlan& step);
std::span<Block> blocks_of(StepPlan& step);
// The memory that such a step reads.
std::vector<HostCall::View> block_operands(const StepPlan& step);
// Where its results belong. Their buffers have the role Handed.
const std::vector<HostCall::View>& block_results(const StepPlan& step);

}  // namespace toroid::exec

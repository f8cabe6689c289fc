// Parts of a function that end where it reads a value.
#pragma once

#include <string>
#include <vector>

#include "trace/tracer.h"

namespace toroid::front {

// All that the program of a segment depends on.
std::string text_of(const trace::Segment& s);
// For people: what ends it.
std::string end_of(const trace::Segment& s);
// Whether two of its tensors, some of which it writes, have memory in common.
bool writes_shared_memory(const trace::Segment& s);

// The results of a segment without operations: inputs.
std::vector<Tensor> outputs_without_nodes(const trace::Segment& s);
// Its results, each operation called by itself. name: the function's.
std::vector<Tensor> run_one_by_one(const trace::Segment& s, const std::string& name);

}  // namespace toroid::front

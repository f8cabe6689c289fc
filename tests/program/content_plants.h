// Nodes that differ from a given one in a single field, of any struct that a kernel's text is made of.
#pragma once

#include <functional>
#include <string_view>

#include "program/program.h"

namespace toroid::test {

// Calls f for each copy of p whose node number `at` differs by one field, or a buffer or size that it names does; the copy may be no valid
// program any more. what: the field. A struct that gains a field does not compile in here until a plant is made for it.
void each_plant(const program::Program& p, size_t at, const std::function<void(std::string_view what, const program::Program&)>& f);

}  // namespace toroid::test

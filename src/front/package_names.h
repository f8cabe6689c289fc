// Names of what a function in a package takes and returns.
#pragma once

#include <string>
#include <vector>

namespace toroid::front {

// UserError for names that errors, tools and files cannot show: none at all, long ones, control characters, what is no UTF-8, and one that
// stands there twice. kind: "input" or "output".
void check_names(const std::vector<std::string>& names, const char* kind);

// `count` names: those that were given, or input0, input1, ... UserError for another number of them.
std::vector<std::string> names_for(size_t count, const std::vector<std::string>& given, const char* kind);

}  // namespace toroid::front

// Variables of the environment that look like options and are none.
#pragma once

#include <string>
#include <vector>

namespace toroid {

// Takes those that unknown_variables() (base/options.h) complains of out of the environment, and returns the complaints: for a program that
// reports them, and must read options all the same. Before other threads run.
std::vector<std::string> forget_unknown_variables();

}  // namespace toroid

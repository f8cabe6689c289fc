// Texts with named holes, which templates for all devices are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toroid::codegen {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

using Substitutions = std::vector<std::pair<std::string_view, std::string>>;

// `pattern` with each @NAME@ replaced. An unknown name is an InternalError. A hole's lines keep the indent of its place.
std::string expand(std::string_view pattern, const Substitutions& values);

}  // namespace toroid::codegen

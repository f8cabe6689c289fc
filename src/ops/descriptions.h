// What each operation of the table computes, in a sentence.
#pragma once

#include <span>
#include <string_view>

namespace toroid::ops {

// Of the operation `name` without its overload ("add"; "add_" is that of "add"). Empty for operations that are private ("_softmax").
std::string_view description(std::string_view name);

// The names that have one.
std::span<const std::string_view> described();

}  // namespace toroid::ops

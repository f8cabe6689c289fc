// The tree texts ("in_spec", "out_spec") that say how flat inputs and outputs were nested in Python.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace toroid::import {

// One name for each leaf, in flat order: the keys and indices that lead to it, joined by dots; "" for a tree that is one leaf.
// Unknown container types count by their children only. Throws UserError for a damaged text.
std::vector<std::string> treespec_leaf_names(std::string_view spec, std::string_view source);

// The same for an in_spec, which is (args, kwargs): positional leaves begin with their argument's name where `argument_names` has one.
std::vector<std::string> input_leaf_names(std::string_view in_spec, const std::vector<std::string>& argument_names,
                                          std::string_view source);

}  // namespace toroid::import

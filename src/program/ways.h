// What a way to compute a node names: a library, an implementation of a call that has several, or else a rewriting or a configuration.
#pragma once

#include <optional>
#include <string_view>

#include "program/program.h"

namespace toroid::program {

// "cublaslt(algo=1)": the library that computes the node.
std::optional<Implementation> library_of(const Config& way);

// "alternative NAME()": one of the programs of an Open node. For sizes in a range of it alone it has the fields "from" and "to".
Config alternative_way(std::string_view name);
// The NAME, part of `way`; nullopt where it is no such way.
std::optional<std::string_view> alternative_of(const Config& way);

}  // namespace toroid::program

// The door of packages for graphs.
#pragma once

#include "graph/graph.h"
#include "toroid/save_package.h"

namespace toroid::front {

// toroid::save_package of a graph, which `graph` makes anew for each target.
void save_package(const std::function<std::unique_ptr<graph::Graph>()>& graph, const std::string& path, const PackageOptions& options);

}  // namespace toroid::front

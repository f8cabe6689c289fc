// Compiles as a page: what each stage made of a graph, and which source line became which kernel.
#pragma once

#include <string>
#include <vector>

#include "cli/trace_folder.h"

namespace toroid::cli {

// One HTML page that needs no other file, network or script. Of each compile: why it was made and the times of its stages; each source line
// with its values and steps; each step with its lines, values, decisions, schedule and text; decisions; the graph, whose lines lead to
// their steps; what each pass changed; the texts of the stages. Equal compiles give equal bytes.
std::string trace_page(const std::string& title, const std::vector<TracedCompile>& compiles);

}  // namespace toroid::cli

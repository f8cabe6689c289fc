// What is generated from the operation table and the option table, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace toroid::generate {

// A file of the repository (path from its root) and what it must hold.
struct File {
  std::string path, text;
};

// include/toroid/ops_table.h, src/ops/functions_table.cpp, docs/ops.md and docs/options.md.
std::vector<File> files();

// Rows that have no C++ function of their own, each with the reason.
std::vector<std::pair<std::string, std::string>> rows_without_function();

// Operations that toroid/ops.h declares by hand; no other function of these names is generated but for rows that it does not reach.
std::vector<std::string> names_by_hand();

}  // namespace toroid::generate

// Writes packages.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/store.h"

namespace toroid::package {

// A parameter or buffer of a model.
struct NamedWeight {
  std::vector<std::string> names;
  Tensor tensor;  // with a recipe: another can take its place
};

// A function compiled for one target. Those of one entry have the same inputs and outputs; the first that fits a machine is taken there.
struct Compiled {
  std::string entry, target;
  exec::Loadable program;
  std::map<std::string, std::string> theirs = {};  // constants that whoever loads it brings along, see exec::by_content
  std::vector<NamedWeight> weights = {};           // where they can be swapped
  std::vector<std::string> outputs = {};           // names of what it returns, one for each; none: output0, output1, ...
  int driver = 0;                                  // see Program::driver
};

// Replaces the file in one step. Equal programs give equal bytes. compiler, mode: for the manifest. UserError for programs that cannot be
// stored (exec::by_content), for two programs of one entry and target, and for entries whose programs differ in what they take or give.
void write_package(const std::filesystem::path& path, const std::vector<Compiled>& programs, const std::string& compiler,
                   const std::string& mode);

}  // namespace toroid::package

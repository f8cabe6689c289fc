// Writes packages.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "exec/store.h"
#include "package/manifest.h"

namespace toroid::package {

// A parameter or buffer of a model.
struct NamedWeight {
  std::vector<std::string> names;
  Tensor tensor;     // with a recipe: another can take its place
  bool used = true;  // by a program; others can be given, and change nothing
};

// A function compiled for one target. Those of one entry have the same inputs and outputs; the first that fits a machine is taken there.
struct Compiled {
  std::string entry, target;
  exec::Loadable program;
  std::map<std::string, std::string> theirs = {};  // constants that whoever loads it brings along, see exec::by_content
  std::vector<NamedWeight> weights = {};           // where they can be swapped
  std::vector<std::string> outputs = {};           // names of what it returns, one for each; none: output0, output1, ...
  int driver = 0;                                  // see Program::driver
  std::string precision = {};                      // as in Program
  double tolerance = 0;
  Tuning tuning = {};
  std::map<int, std::string> states = {};  // inputs of its plan that are memory of several entries, by a name of that
};

// What made the programs, for the manifest, and where weights go.
struct Making {
  std::string compiler, mode, toroid = {};
  bool weights_beside = false;  // large constants become files of their own in the folder kWeightsFolder beside the package
};

// Replaces the file in one step. Equal programs give equal bytes. Of files beside it those that are there already, with their bytes, stay.
// UserError for programs that cannot be
// stored (exec::by_content), for two programs of one entry and target, and for entries whose programs differ in what they take or give.
void write_package(const std::filesystem::path& path, const std::vector<Compiled>& programs, const Making& making);

}  // namespace toroid::package

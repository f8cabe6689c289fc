// Programs as files: compiled for one or several kinds of machine, with their weights. toroid_runtime.h runs them without a compiler, and
// toroid/package.h does the same in C++; docs/packages.md says what is in the file.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "toroid/compile.h"

namespace toroid {

struct PackageOptions {
  ModelOptions model = {};  // threads are those of the process that runs the package
  // "native": this processor with all that it has, or the GPU that ModelOptions::device names. "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512),
  // "x86-64": any processor of that kind. "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a": GPUs of that architecture;
  // "compute_80": PTX, which the driver of any GPU translates when it is loaded. These GPUs need not be there: a lock file of tuning made
  // on one decides (option tune_lock), else what is taken untuned. The first that fits a machine is taken there: the best one comes first.
  std::vector<std::string> targets = {"native"};
  // Weights can be swapped while the package is loaded (PackageFile::swap_weights): parameters and buffers of floats that the programs only
  // read. The package says how each folded or packed constant is made of them.
  bool swappable = false;
  // Large weights become files in the folder `weights` beside the package, each named by its SHA-256: packages in one folder share those
  // that are equal, on disk and in memory. They go where the package goes.
  bool weights_beside = false;
  // What the one function or model takes and returns, one name for each; none: those that a model has, of a C++ function input0, input1,
  // ... and output0, output1, ... All inputs have different names, all outputs too.
  std::vector<std::string> input_names = {}, output_names = {};
  // Names of tensors that C++ functions capture, by which others take their places (PackageFile::swap_weights): nn::Module::state() of the
  // module that they call, or any tensors that they read. Those without a name are called captured, captured_1, ... in the order in which
  // they are read first: that of the C++ compiler, which may evaluate the arguments of a call in any. Names that no function captures are
  // known to the package and change nothing, so that a file of Module::save() can be given. UserError where none is captured.
  std::map<std::string, Tensor> weight_names = {};
};

// A function of the package under a name: a model file, or a C++ function with examples of what it takes.
struct PackageEntry {
  std::string name = "main";
  std::string model = {};  // .pt2 or ONNX; or:
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> function = {};
  // Of a function what it takes: sizes are theirs, those that mark_dynamic names aside. Of a model none, or the inputs of a usual call, as
  // Model::load takes them: a lock file that was made for these inputs decides for them alone.
  std::vector<Tensor> examples = {};
  std::vector<std::string> input_names = {}, output_names = {};  // see PackageOptions
};

// Compiles the entries for each target, and replaces the file in one step. Functions are traced once. Weights that several programs have
// are in the file once. Where weights can be swapped and entries have different ones under one name, all weights of these entries are
// called ENTRY/NAME in the package. Tensors that functions capture are stored with their contents; one that several functions have and one
// of them writes to (a cache) is one memory of a session, see PackageSession::entry(). UserError for what Model::load refuses, for
// functions that read values of tensors, for programs that cannot be stored, for memory that one entry writes to and another has in part,
// and for an unknown target, with the known ones.
void save_package(std::span<const PackageEntry> entries, const std::string& path, const PackageOptions& options = {});
inline void save_package(std::initializer_list<PackageEntry> entries, const std::string& path, const PackageOptions& options = {}) {
  save_package(std::span(entries.begin(), entries.size()), path, options);
}
inline void save_package(const std::string& model, const std::string& path, const PackageOptions& options = {}) {
  const PackageEntry entry{"main", model, {}, {}, options.input_names, options.output_names};
  PackageOptions others = options;
  others.input_names.clear(), others.output_names.clear();
  save_package(std::span(&entry, 1), path, others);
}

// The same of one function from a list of tensors to a list of tensors, the entry "main".
template <class F>
void save_package(F&& fn, const std::vector<Tensor>& examples, const std::string& path, const PackageOptions& options = {}) {
  const PackageEntry entry{"main",
                           {},
                           [&](const std::vector<Tensor>& in) { return std::vector<Tensor>(fn(in)); },
                           examples,
                           options.input_names,
                           options.output_names};
  PackageOptions others = options;
  others.input_names.clear(), others.output_names.clear();
  save_package(std::span(&entry, 1), path, others);
}

}  // namespace toroid

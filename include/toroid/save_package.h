// Programs as files: compiled for one or several kinds of machine, with their weights. toroid_runtime.h runs them without a compiler, and
// toroid/package.h does the same in C++; docs/packages.md says what is in the file.
#pragma once

#include <functional>
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
  // read. The package says how each folded or packed constant is made of them. On CPUs alone.
  bool swappable = false;
  // Large weights become files in the folder `weights` beside the package, each named by its SHA-256: packages in one folder share those
  // that are equal, on disk and in memory. They go where the package goes.
  bool weights_beside = false;
  // What a C++ function takes and returns, one name for each; none: input0, input1, ... and output0, output1, ... All inputs have different
  // names, all outputs too. Models have names of their own.
  std::vector<std::string> input_names = {}, output_names = {};
};

// A function of the package: a model file, compiled under a name.
struct PackageEntry {
  std::string name = "main";
  std::string model;  // .pt2 or ONNX
};

// Compiles the models for each target, and replaces the file in one step. Weights that several programs have are in the file once.
// UserError for what Model::load refuses, for programs that cannot be stored, and for an unknown target, with the known ones.
void save_package(std::span<const PackageEntry> entries, const std::string& path, const PackageOptions& options = {});
inline void save_package(const std::string& model, const std::string& path, const PackageOptions& options = {}) {
  const PackageEntry entry{"main", model};
  save_package(std::span(&entry, 1), path, options);
}

namespace detail {
void save_package(std::span<const Tensor> examples, const std::function<std::vector<Tensor>(std::span<const Tensor>)>& fn,
                  const std::string& path, const PackageOptions& options);
}  // namespace detail

// The same of a function from a list of tensors to a list of tensors, traced once. Its inputs have the sizes of the examples, those that
// mark_dynamic names aside. Tensors that it captures are stored with their contents. UserError for a function that reads values of tensors.
template <class F>
void save_package(F&& fn, const std::vector<Tensor>& examples, const std::string& path, const PackageOptions& options = {}) {
  detail::save_package(
      examples, [&](std::span<const Tensor> in) { return std::vector<Tensor>(fn(std::vector<Tensor>(in.begin(), in.end()))); }, path,
      options);
}

}  // namespace toroid

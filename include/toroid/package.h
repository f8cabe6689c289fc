// Packages run in C++: what toroid_runtime.h does in C. Nothing is compiled; save_package.h makes the files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid {

namespace package {
class Package;
class Loaded;
}  // namespace package
namespace exec {
class Executable;
}

// One caller's program: memory that it keeps from run to run (caches, counters) is this session's alone, and begins as it was stored.
class PackageSession {
 public:
  // One tensor an output (undefined for None), on the caller's tensors in the order of the inputs. UserError naming the input when count,
  // dtype or sizes do not fit. Safe to call from several threads; calls of programs that keep memory take turns.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) { return run(std::span(inputs.begin(), inputs.size())); }
  std::vector<std::string> input_names() const;

 private:
  friend class PackageFile;
  std::shared_ptr<package::Loaded> program_;
  std::shared_ptr<exec::Executable> executable_;
};

// An open package. Cheap to copy; safe to use from several threads; its sessions may outlive it.
class PackageFile {
 public:
  // Maps the file, which must not be written to while it or a session of it lives. UserError for a file that is no whole package, or that
  // this library cannot take: it names the field, both values and what makes one that fits.
  static PackageFile open(const std::string& path);
  std::vector<std::string> entries() const;
  // entry: its name; empty: the only one. Sessions share code and weights. EnvironmentError where no program of the entry fits this
  // machine.
  PackageSession session(const std::string& entry = "", const Device& device = Device::cpu()) const;
  // Hashes every part, elements of weights too, which opening does not. UserError naming the one that is damaged.
  void verify() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace toroid

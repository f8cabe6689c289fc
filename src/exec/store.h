// What plans name instead of having it: kernels by the hash of their object, constants by that of their contents.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <string>

#include "device/cpu/launch.h"
#include "exec/plan.h"

namespace toroid::exec {

using KernelFunction = device::cpu::KernelFunction;

class KernelStore {
 public:
  struct Kernel {
    std::shared_ptr<const std::string> object;  // an ELF64 relocatable file, or a cubin
    KernelFunction function = nullptr;          // in its place: a function of this process
  };
  // Its name: 32 hexadecimal digits, equal for equal objects.
  std::string add(std::string object);
  // A function that is part of this process; its name means something here alone, and no file can hold it.
  std::string add(KernelFunction function);
  // UserError where there is none.
  const Kernel& at(const std::string& name) const;
  const std::map<std::string, Kernel>& all() const { return kernels_; }

 private:
  std::map<std::string, Kernel> kernels_;
};

class ConstantStore {
 public:
  // "#3": that very tensor, which programs may write to and others share. One that is here already keeps its name.
  std::string add(const Tensor& t);
  // Contents, by their hash: each program that is loaded has a copy of its own where it writes to them.
  void add(const std::string& name, const Tensor& t);
  // UserError where there is none.
  const Tensor& at(const std::string& name) const;
  const std::map<std::string, Tensor>& all() const { return tensors_; }
  static bool is_identity(const std::string& name) { return name.starts_with('#'); }

 private:
  std::map<std::string, Tensor> tensors_;
  std::map<const void*, std::string> names_;  // by their TensorImpl
};

struct Store {
  KernelStore kernels;
  ConstantStore constants;
  // Valid: other threads still fill constants, and who reads them waits for the end of that. Milliseconds it took.
  std::shared_future<double> filling;
};

struct Loadable {
  Plan plan;
  Store store;
};

// The hash of a constant's dtype, sizes, strides and contents; of one that is made of weights, of how that is done.
std::string content_name(const Tensor& t);

// The same with constants by their content_name(), whose contents it waits for. Only what the plan names is kept.
// theirs: names of constants that are the caller's own tensors, and the names that they get; what is loaded later finds them there, and
// the store that is returned has them not. UserError where the program writes to memory that is also that of another constant, unless both
// are the caller's.
Loadable by_content(const Plan& plan, const Store& store, const std::map<std::string, std::string>& theirs = {});

}  // namespace toroid::exec

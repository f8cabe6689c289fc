// Packages run in C++: what toroid_runtime.h does in C. Nothing is compiled; save_package.h makes the files.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "toroid/tensor.h"
#include "toroid/tensor_spec.h"

namespace toroid {

namespace package {
class Memory;
class Package;
class Session;
}  // namespace package

// One caller's program: memory that it keeps from run to run (caches, counters) is this session's alone, and begins as it was stored.
class PackageSession {
 public:
  // Another entry of the package, on this session's device and memory: what both keep in common (the caches of a prefill and of a decoding
  // step) is the same for both, and calls of both take turns. Other sessions know nothing of it. UserError for a name that the package has
  // not.
  PackageSession entry(const std::string& name) const;
  // One tensor an output (undefined for None), on the caller's tensors in the order of the inputs. UserError naming the input when count,
  // dtype or sizes do not fit, and when one that the program writes shares memory with another. Safe to call from several threads; calls of
  // programs that keep memory take turns.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) { return run(std::span(inputs.begin(), inputs.size())); }
  // The same by name: inputs of equal dtype and sizes cannot be mistaken for each other. Results that are no tensor are left out. UserError
  // for an input that is missing, and for a name that the program does not have, with the nearest one.
  std::map<std::string, Tensor> run(const std::map<std::string, Tensor>& inputs);

  // What run() takes and returns, in order. Equal names of open sizes in `text` are equal sizes.
  std::vector<TensorSpec> inputs() const;
  std::vector<TensorSpec> outputs() const;
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;

 private:
  friend class PackageFile;
  struct Signature {
    std::string name;  // of the entry
    std::vector<TensorSpec> inputs, outputs;
  };
  const Signature& signature() const;
  static PackageSession begin(const std::shared_ptr<package::Package>& package, const std::string& entry, const Device& device,
                              std::shared_ptr<package::Memory> memory);

  std::shared_ptr<package::Package> package_;
  std::shared_ptr<package::Session> session_;
  std::shared_ptr<const Signature> signature_;
};

// An open package. Cheap to copy; safe to use from several threads; its sessions may outlive it. One that was not opened has nothing: its
// functions are UserErrors.
class PackageFile {
 public:
  // Maps the file, which must not be written to while it or a session of it lives. UserError for a file that is no whole package, or that
  // this library cannot take: it names the field, both values and what makes one that fits.
  // weights_folder: of the files that the package has beside it (PackageOptions::weights_beside); empty: `weights` in the file's folder.
  // They are looked for when a session is made, and may not be written to either.
  static PackageFile open(const std::string& path, const std::string& weights_folder = {});
  std::vector<std::string> entries() const;
  // entry: its name; empty: the only one. Sessions share code and weights. EnvironmentError where no program of the entry fits this
  // machine.
  PackageSession session(const std::string& entry = "", const Device& device = Device::cpu()) const;

  // Names of the weights that can be swapped, of those that a program uses: none where the package was made without
  // PackageOptions::swappable.
  std::vector<std::string> weights() const;
  // Gives the programs other weights while sessions run: calls that have begun end with the weights that they began with, later ones have
  // the new ones, and no call a mixture. What was folded or packed is made anew before, on the calling thread; the tensors are copied.
  // Memory that sessions keep stays. Weights that are not given stay as they are, unless a folded constant needs them along with a given
  // one. UserError, before anything changes, for an unknown name, another dtype or size, contents of what cannot be swapped (integers, and
  // what programs write to) that differ from the package's, and for weights that are needed too, with their names.
  // entry: one whose model the tensors are of, by the names that they have there: of entries with different weights under one name the
  // package has ENTRY/NAME (see save_package). Empty: names are those of weights().
  void swap_weights(const std::map<std::string, Tensor>& tensors, const std::string& entry = "") const;
  // Those of a safetensors file, a folder of shards or their index.
  void swap_weights(const std::string& path, const std::string& entry = "") const;

  // Hashes every part and the files beside the package, elements of weights too, which opening does not. UserError naming the one that is
  // damaged.
  void verify() const;

 private:
  std::shared_ptr<package::Package> package_;
};

}  // namespace toroid

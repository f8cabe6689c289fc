// One face for everything that can run a model: the interpreter and compiled programs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace toroid::cli {

enum class Backend { Compiled, Interpreter };
// UserError, with the nearest names, for an unknown one.
Backend backend_from_name(const std::string& name);

class Runner {
 public:
  virtual ~Runner() = default;
  // On tensors of the host, for any device. One tensor an output that is returned (undefined for literals). Buffers that the model writes
  // keep their contents between runs.
  virtual std::vector<Tensor> run(std::span<const Tensor> user_inputs) = 0;
};

// `device` by name: "cpu", "cuda", "cuda:1". The interpreter runs on the CPU alone.
std::unique_ptr<Runner> make_runner(Backend backend, std::unique_ptr<graph::Graph> graph, const std::string& device);

// Of a model file. Compiled ones are those of the cache of programs where that has them. inputs: see import::load_model.
std::unique_ptr<Runner> make_model_runner(Backend backend, const std::string& path, std::span<const Tensor> inputs,
                                          const std::string& device);

// UserError, with the names and the option, for a package of several entries of which none is named, and for an entry that it has not.
void check_entry(const std::string& path, const std::string& entry);

// An entry of a package; empty: its only one. weights: a safetensors file whose tensors take the place of the package's; empty: none.
// folder: of the weights beside it, see package::Package::open().
struct PackageRunner {
  std::unique_ptr<Runner> runner;
  double tolerance = 0;  // of the program that runs, see package::Program
};
PackageRunner make_package_runner(const std::string& path, const std::string& entry, const std::string& device, const std::string& weights,
                                  const std::string& folder);

}  // namespace toroid::cli

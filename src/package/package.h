// Reads packages: checks them, and loads their programs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "exec/run/executable.h"
#include "import/zip.h"
#include "package/manifest.h"
#include "package/recipes.h"

namespace toroid::package {

class Loaded;
class Session;

// What the programs of one caller keep from run to run. Those of several entries may have some of it in common.
class Memory {
 public:
  std::mutex turn;  // of the calls
  // `parts` of a program on the caller's memory, which begins as it was stored. Within a turn.
  exec::Loaded bound(const Loaded& program, exec::Loaded parts);

 private:
  // By the program and the number of its input; by null and the number of the manifest's state.
  std::map<std::pair<const Loaded*, int>, Tensor> tensors_;
};

// A program with the constants of a time. Calls that begin with it end with it.
struct Version {
  exec::Loaded parts;
  std::shared_ptr<exec::Executable> shared = nullptr;  // what all sessions run; null: each has its own, as the program keeps memory

  // A call is about to begin on the current stream: when nobody has this version any more, its work there may still be under way.
  void begin_call(const exec::Plan& plan) const;

 private:
  mutable std::mutex mutex_;
  mutable std::vector<device::StreamKey> streams_;  // that the memory of the constants knows of
};

// A program of a package on a device. Kernels and weights are shared; memory that the program keeps from run to run (caches, counters) is a
// session's own.
class Loaded : public std::enable_shared_from_this<Loaded> {
 public:
  // states: see Program::states.
  Loaded(exec::Plan plan, const exec::Store& store, std::shared_ptr<void> file, std::vector<StateUse> states = {});

  struct Input {
    std::string name;
    TensorType type;
    bool written = false;
  };
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<TensorType>& outputs() const { return outputs_; }  // that of None means nothing
  const std::vector<bool>& defined_outputs() const { return defined_; }
  const exec::Plan& plan() const { return plan_; }
  const std::vector<StateUse>& states() const { return states_; }

  // What runs it for a caller with this memory, or with one of its own.
  std::shared_ptr<Session> session(std::shared_ptr<Memory> memory = std::make_shared<Memory>());

  std::shared_ptr<const Version> version() const;
  // The program with other constants, by name, which are moved to its device in `constants` too; nothing runs it yet.
  std::shared_ptr<const Version> with(Tensors& constants) const;
  // Calls that begin from now on run it.
  void use(std::shared_ptr<const Version> version) noexcept;

 private:
  std::shared_ptr<const Version> made_of(exec::Loaded parts) const;

  const std::shared_ptr<void> file_;
  const exec::Plan plan_;
  const std::vector<StateUse> states_;
  std::vector<Input> inputs_;
  std::vector<TensorType> outputs_;
  std::vector<bool> defined_;
  bool stateful_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const Version> version_;
};

// One caller's program. It may be called by several threads; calls of programs that keep memory take turns, with those of other entries on
// the same memory.
class Session {
 public:
  Session(std::shared_ptr<Loaded> program, std::shared_ptr<Memory> memory) : program_(std::move(program)), memory_(std::move(memory)) {}

  // See exec::Executable::run.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  const Loaded& program() const { return *program_; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  const std::shared_ptr<Loaded> program_;
  const std::shared_ptr<Memory> memory_;
  // Of a program that keeps memory, within a turn:
  std::shared_ptr<const Version> version_;  // that the executable is of
  std::unique_ptr<exec::Executable> own_;
};

// An open package. Safe to use from several threads.
class Package {
 public:
  // Maps the file, which must not be written to while the package or anything of it lives, and checks its manifest. UserError for a file
  // that is no whole package, or that this runtime cannot take; see read_manifest().
  // weights: the folder of what it has beside it; empty: kWeightsFolder in the file's folder.
  static std::shared_ptr<Package> open(const std::filesystem::path& path, const std::filesystem::path& weights = {});
  // Whether the file begins as a package does.
  static bool is_package(const std::filesystem::path& path);

  const Manifest& manifest() const { return manifest_; }
  const std::string& source() const { return zip_.source(); }
  const std::filesystem::path& weights_folder() const { return weights_; }

  // The program of an entry, loaded once for each device. entry: its name; empty: the only one. Plan and kernels are hashed before anything
  // of them is used. UserError for a name that it has not, and for damaged parts; EnvironmentError where no program of the entry fits this
  // machine, which says what it has, what there is, and how to make one.
  std::shared_ptr<Loaded> load(const std::string& entry, const Device& device = Device::cpu());
  // The same before it is loaded: constants are views of the file, which they keep mapped, but for those that are there already (by name).
  exec::Loadable parts(const std::string& entry, const Device& device = Device::cpu(), const Tensors& there = {}) const;
  // The program of an entry that load() takes on a device.
  const Program& choose(const Entry& entry, const Device& device) const;
  const Entry& entry(const std::string& name) const;
  // The plan of a program, hashed.
  exec::Plan plan(const Program& p) const;
  // The bytes of a part, hashed.
  std::string_view part(const std::string& name) const;
  // As they are in the file.
  Tensors constants() const;

  // Gives all programs, those that are loaded later too, other weights: tensors on the CPU by name, which are copied. Calls that have begun
  // end with what they began with, later ones have what is given. UserErrors of remade(), and for a package whose weights cannot be
  // swapped; then nothing has changed.
  // entry: of whose weights these are names; empty: names are the package's.
  void swap_weights(const Tensors& given, const std::string& entry = "");
  // Those of a safetensors file, a folder of shards or their index.
  void swap_weights(const std::filesystem::path& file, const std::string& entry = "");

  // Hashes every part and the files beside the package, the weights too. UserError naming the first that is not as the manifest says.
  void verify() const;

 private:
  Package(const std::filesystem::path& path, const std::filesystem::path& weights);
  const Part& listed(const std::string& name) const;
  exec::Plan with_states(exec::Plan plan, const Program& p) const;
  // Constants that loaded programs have in the memory of a device, by name.
  Tensors constants_on(const Device& device) const;
  void check_operations(const Entry& entry, const Program& p) const;
  // UserError for a weight that other entries' programs read and this one's do not.
  void check_owner(const std::string& whose, const Tensors& given) const;

  const std::shared_ptr<MappedFile> file_;
  const import::ZipArchive zip_;
  const std::filesystem::path weights_;
  Manifest manifest_;
  std::mutex mutex_;                                                               // of what follows
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Loaded>> loaded_;  // by entry and device
  Tensors changed_;                                                                // constants that are not the file's
  MapAhead ahead_;                                                                 // of the weights
};

}  // namespace toroid::package

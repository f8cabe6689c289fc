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

namespace toroid::package {

// A program of a package on a device. Kernels and weights are shared; memory that the program keeps from run to run (caches, counters) is a
// session's own.
class Loaded {
 public:
  Loaded(exec::Plan plan, const exec::Store& store, std::shared_ptr<void> file);

  struct Input {
    std::string name;
    TensorType type;
    bool written = false;
  };
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<TensorType>& outputs() const { return outputs_; }  // that of None means nothing
  const std::vector<bool>& defined_outputs() const { return defined_; }
  const exec::Plan& plan() const { return plan_; }

  // What runs it for one caller, from the state that was stored. Programs without state share it, and it may be called by several threads.
  std::shared_ptr<exec::Executable> session();

 private:
  const std::shared_ptr<void> file_;
  const exec::Plan plan_;
  const exec::Loaded parts_;
  std::vector<Input> inputs_;
  std::vector<TensorType> outputs_;
  std::vector<bool> defined_;
  bool stateful_ = false;
  std::once_flag once_;
  std::shared_ptr<exec::Executable> shared_;
};

// An open package. Safe to use from several threads.
class Package {
 public:
  // Maps the file, which must not be written to while the package or anything of it lives, and checks its manifest. UserError for a file
  // that is no whole package, or that this runtime cannot take; see read_manifest().
  static std::shared_ptr<Package> open(const std::filesystem::path& path);
  // Whether the file begins as a package does.
  static bool is_package(const std::filesystem::path& path);

  const Manifest& manifest() const { return manifest_; }
  const std::string& source() const { return zip_.source(); }

  // entry: its name; empty: the only one. Plan and kernels are hashed before anything of them is used. UserError for a name that it has
  // not, and for damaged parts; EnvironmentError where no program of the entry fits this machine, which says what it has, what there is,
  // and how to make one.
  std::shared_ptr<Loaded> load(const std::string& entry, const Device& device = Device::cpu());
  // The same before it is loaded: constants are views of the file, which they keep mapped.
  exec::Loadable parts(const std::string& entry, const Device& device = Device::cpu()) const;
  // The program of an entry that load() takes on a device.
  const Program& choose(const Entry& entry, const Device& device) const;
  const Entry& entry(const std::string& name) const;
  // The plan of a program, hashed.
  exec::Plan plan(const Program& p) const;

  // Hashes every part, the weights too. UserError naming the first that is not as the manifest says.
  void verify() const;

 private:
  explicit Package(const std::filesystem::path& path);
  // The bytes of a part, hashed.
  std::string_view part(const std::string& name) const;
  const Part& listed(const std::string& name) const;

  const std::shared_ptr<MappedFile> file_;
  const import::ZipArchive zip_;
  Manifest manifest_;
};

}  // namespace toroid::package

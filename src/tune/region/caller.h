// One way to compute a region of a program, as something that can be compiled, checked and timed by itself.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/hash.h"
#include "codegen/kernel_text.h"
#include "exec/run/executable.h"
#include "target/program_pass.h"
#include "tune/region/choice.h"

namespace toroid::tune {

// Code of a scheduled program.
class Build {
 public:
  virtual ~Build() = default;
  // Compiles what is in no cache. Touches no device. Any thread.
  virtual void compile() = 0;
  // With its memory, on the device; once, after compile().
  virtual exec::Loadable plan() = 0;
  virtual const std::vector<codegen::KernelText>& kernels() const = 0;
};

// What the tuner is given of the compiler.
struct Pipeline {
  std::shared_ptr<const target::Target> target;
  CompileOptions options;  // that programs are scheduled by
  // Texts of the kernels of a scheduled program. UserError where a configuration does not fit its node.
  std::function<std::unique_ptr<Build>(program::Program)> build;

  const Device& device() const { return target->facts().device; }
  // A lowered program whose choices are made, after the target's passes.
  program::Program schedule(program::Program p) const {
    return target::run_passes(std::move(p), *target, program::Stage::Scheduled, options);
  }
};

// What a caller makes of the region.
enum class CallerKind : uint8_t { Default, Template, Library, Subgraph, Fused };
std::string_view name_of(CallerKind kind);
CallerKind kind_of(const program::Config& way);
// Whether it says how operands lie, and leaves open how the rest is computed.
bool is_layout(const program::Config& way);

// A choice. Any number of threads may call it.
class ChoiceCaller {
 public:
  // region: lowered; see program::region. most_ms: that compiling it may take; 0: no limit. One that takes longer has failed for good: each
  // compile would take as long. What it compiles goes on for itself then, and is dropped when it ends.
  ChoiceCaller(std::string name, CallerKind kind, Choice choice, std::shared_ptr<const program::Program> region,
               std::shared_ptr<const Pipeline> pipeline, double most_ms = 0);

  const std::string& name() const { return name_; }
  CallerKind kind() const { return kind_; }
  const Choice& choice() const { return choice_; }
  // Of the region and the choice: equal in every process, different where dtypes, layouts, device or options differ.
  const Hash128& key() const { return key_; }

  // Compiles, once however many threads ask; the others wait. Needs no memory of the device. An error is kept and is failure() then;
  // nothing is thrown.
  void precompile();
  // Compiles first where precompile() was not called, or failed. Throws where it fails (again).
  std::shared_ptr<exec::Executable> executable();
  // Of the executable's launches, in their order; empty where there is no executable.
  std::vector<codegen::KernelText> texts() const;
  // Forgets the code and its memory; the next call makes them again.
  void release();

  // Hash of its kernels' texts, as they are generated; empty before it was compiled, or named.
  std::string kernels() const;
  // The same, for which texts are made where there are none yet, and nothing is compiled; empty where that fails.
  std::string name_kernels();
  // How often it was compiled.
  int compiles() const { return compiles_.load(); }
  // How long that took, or was waited for; 0 before.
  double compile_ms() const;
  std::string failure() const;
  void mark_failed(std::string why);

 private:
  struct Built {
    std::unique_ptr<Build> build;
    std::string kernels;
  };
  Built built() const;
  void compile_locked();

  const std::string name_;
  const CallerKind kind_;
  const Choice choice_;
  const std::shared_ptr<const program::Program> region_;
  const std::shared_ptr<const Pipeline> pipeline_;
  const Hash128 key_;
  const double most_ms_;
  std::atomic<int> compiles_{0};
  mutable std::mutex mutex_;  // of all below
  std::unique_ptr<Build> build_;
  std::shared_ptr<exec::Executable> executable_;
  std::vector<codegen::KernelText> texts_;  // its kernels
  std::string kernels_;
  double compile_ms_ = 0;
  std::string failure_;
  bool given_up_ = false;  // as compiling it took too long
};

}  // namespace toroid::tune

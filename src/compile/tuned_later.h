// Programs that run untuned until one thread beside the calls has tuned them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compile/model.h"

namespace toroid::compiler {

// Whether a program is tuned so: by the option tune_in_background, in a mode that tunes, where something is timed and no ranks do it
// together.
bool is_tuned_later(const graph::Graph& g, const Setup& setup);

// A program, now and later. Safe to use from several threads; one that writes to tensors it is bound to has its calls take turns.
class TunedLater {
 public:
  using Compile = std::function<CompiledModel(const TuneListener&)>;
  // tuned: compiles what takes the place of `untuned`, on the thread of tuning; what it throws is told by state(), and `untuned` stays.
  TunedLater(CompiledModel untuned, Compile tuned);
  // Where nobody else has the program (rebound()), tuning ends at its next step, for which nobody waits.
  ~TunedLater();

  std::vector<Tensor> run(std::span<const Tensor> inputs);
  // What the next call runs.
  std::shared_ptr<CompiledModel> current();
  // The same program on other tensors, tuned when this one is. Null where CompiledModel::rebound gives nothing.
  std::shared_ptr<TunedLater> rebound(std::span<const std::pair<Tensor, Tensor>> others);
  // How far tuning has come, what it found, or why it ended, for people.
  std::string state() const;

 private:
  struct Work;
  TunedLater(std::shared_ptr<Work> work, CompiledModel untuned, std::vector<std::pair<Tensor, Tensor>> others);

  const std::shared_ptr<Work> work_;                     // shared by those on other tensors
  const std::vector<std::pair<Tensor, Tensor>> others_;  // tensors of the program that was compiled, and those of this one
  std::mutex turn_;                                      // of calls, where they take turns
  mutable std::mutex mutex_;                             // of what follows
  bool is_tuned_ = false;                                // what tuning has made is taken, or cannot be
  bool stays_untuned_ = false;
  std::shared_ptr<CompiledModel> program_;
  const bool writes_bound_;
};

}  // namespace toroid::compiler

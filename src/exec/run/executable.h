// Runs plans.
#pragma once

#include "device/index_faults.h"
#include "exec/load.h"
#include "exec/record/recorder.h"

namespace toroid::exec {

class LateSizes;
struct Names;
struct Run;

class Executable {
 public:
  // See load(). is_block: its results are operands of other steps. UserError where the option capture_require asks for more than can be
  // recorded.
  Executable(Plan plan, Loaded loaded, bool is_block = false);
  Executable(const Plan& plan, const Store& store);
  explicit Executable(const Loadable& l) : Executable(l.plan, l.store) {}
  ~Executable();

  // Runs on the caller's tensors, in the order of the user inputs. Mutated inputs are written in place. Returns one tensor an output
  // that is not a mutation (undefined for None). UserError naming the input when count, dtype, sizes or guards do not fit.
  // Safe to call from several threads, except for plans that mutate their own buffers (caches), where calls take turns.
  // symbols: sizes that are known beforehand, such as those that no argument's size tells.
  std::vector<Tensor> run(std::span<const Tensor> arguments, Symbols symbols = {});
  // into: memory for the results (or undefined tensors), where they are left if that can be. What a plan leaves unwritten of a result that
  // it writes in part holds what was there.
  std::vector<Tensor> run(std::span<const Tensor> arguments, Symbols symbols, std::span<const Tensor> into);

  // The same program on other tensors in place of some (first) that it is bound to, each of the same dtype, sizes, strides and device. What
  // it is not bound to does not matter. Null where blocks of control flow hold one.
  std::unique_ptr<Executable> rebound(std::span<const std::pair<Tensor, Tensor>> others) const;

  const Plan& plan() const { return plan_; }
  // What it names; contents may still be on their way: await_constants().
  const Loaded& loaded() const { return loaded_; }
  void await_constants() const {
    if (loaded_.filling.valid()) loaded_.filling.get();
  }
  // What was recorded of its runs, if the plan wants that; the blocks of control flow aside.
  CaptureReport captures() const;
  // Called around every step of later runs (profiling): name of the step and nanoseconds it took. Null switches it off.
  using Observer = std::function<void(const std::string& step, int64_t ns)>;
  void observe(Observer observer);

 private:
  // What stays as it is from call to call, so that a call need not look at it: a large program has hundreds of constants.
  struct Fixed {
    std::vector<void*> at;        // of constants, and of state that lies as the program takes it; null: of other buffers
    std::vector<size_t> inputs;   // those to place for each call
    std::vector<size_t> outputs;  // those to return, or to write back
    std::once_flag once;
  };

  void check_inputs(std::span<const Tensor> arguments, Symbols& symbols) const;
  std::shared_ptr<const Bound> bind(const Symbols& symbols, bool donated);
  bool gives_up(std::span<const Tensor> arguments) const;
  // late: null where all sizes are known.
  std::vector<Tensor> run_bound(const Bound& bound, LateSizes* late, std::span<const Tensor> arguments, std::span<const Tensor> into);
  std::vector<Tensor> run_in(Run& run, Recorder::Way& way, std::span<const Tensor> arguments, std::span<const Tensor> into);
  std::unique_ptr<Lane> take_lane(const Bound& bound, bool fresh);

  // Places (placing.cpp): memory of all buffers that have some before the first step, and the results. recorded: where these may be; or
  // null.
  void fix();
  void place_buffers(std::span<const Tensor> arguments, std::span<const Tensor> into, const Captured* recorded, Run& run);
  void prepare_workspace(Run& run) const;
  void place_inputs(std::span<const Tensor> arguments, Run& run);
  void place_in_donated(Run& run);
  void place_results(std::span<const Tensor> into, const Captured* recorded, Run& run);
  Tensor result(size_t output, const Run& run) const;
  std::vector<Tensor> collect(std::span<const Tensor> arguments, const Run& run);
  const Tensor& input_tensor(size_t i, std::span<const Tensor> arguments) const;

  // Steps (run_step.cpp).
  void run_steps(const Segment& steps, Run& run);
  void watch_step(size_t step, Run& run);  // run_step for the observer, and by name
  void run_step(size_t step, Run& run);
  void run_launch(const Launch& l, size_t step, Run& run);
  void run_host_call(const HostCall& h, Run& run);
  void run_library_call(const LibraryCall& c, size_t step, Run& run);
  void run_collective(const CollectiveCall& c, size_t step, Run& run);  // run_collective.cpp
  // What runs beside the steps that follow, until one needs it (overlap.h): that step's number; 0 for what the next one waits for.
  size_t end_of(size_t step, const Run& run) const;
  // On a GPU: `work`, which starts the step, on the lane's side stream where it runs beside others.
  void on_stream(size_t step, Run& run, const std::function<void()>& work) const;
  void end_collectives(size_t before, Run& run) const;  // those that a step before number `before` waits for
  void abandon_collectives(Run& run) const;             // of a run that fails: nothing of it goes on beside what comes next
  Tensor tensor_at(const HostCall::View& v, const Run& run) const;
  std::vector<Tensor> tensors_at(const std::vector<HostCall::View>& views, const Run& run) const;
  int64_t nanoseconds_of(size_t step, const std::function<void()>& work) const;

  // Indices that kernels check (index_checks.cpp).
  void find_checks();
  // Where the kernels of one run leave what they find wrong with indices; null: the plan checks none.
  std::shared_ptr<device::IndexFaultRecord> take_faults(bool fresh);
  void give_back(std::shared_ptr<device::IndexFaultRecord> faults);
  // On the CPU, after the launches of a step: UserError where the step found an index out of range. On a GPU who waits for it gets that.
  void check_faults(size_t step, const std::shared_ptr<device::IndexFaultRecord>& faults) const;

  // Control flow (run_blocks.cpp): the results of a step, in memory that nothing else uses, are held for its buffers.
  void make_blocks();
  void run_blocks(size_t step, Run& run);
  std::vector<Tensor> run_branch(const Branch& branch, size_t step, const Run& run);
  std::vector<Tensor> run_loop(const Loop& loop, size_t step, const Run& run);
  std::vector<Tensor> run_block(const Block& block, std::span<const Tensor> operands, const Symbols& around, std::span<const Tensor> into);

  // Runs all steps, those that can be recorded by a recording, which is made first where there is none that serves.
  void replay(Recorder::Way& way, Run& run);
  std::vector<Stays> stays(const Run& run) const;

  const Plan plan_;
  const Loaded loaded_;
  bool dynamic_ = false;                                         // some size is known only while running
  std::vector<distributed::nccl::Communicator*> communicators_;  // of loaded_, each once: asked before each replay
  int faults_ = -1;                                              // the buffer of role Faults
  std::vector<bool> checks_;                                     // of each step: whether it takes that
  bool stateful_ = false;
  bool writes_users_ = false;                        // steps write inputs that come with a call
  std::unique_ptr<Recorder> recorder_;               // null: calls are not recorded
  std::mutex mutex_;                                 // of the three below
  std::vector<std::shared_ptr<const Bound>> bound_;  // most recent last
  std::vector<std::unique_ptr<Lane>> idle_;          // without a recorder
  std::vector<std::shared_ptr<device::IndexFaultRecord>> idle_faults_;
  std::mutex state_mutex_;
  std::vector<size_t> user_inputs_;  // those of plan_.inputs that each call gives
  std::vector<size_t> donated_inputs_;
  size_t users_ = 0;
  Fixed fixed_;
  std::vector<std::vector<std::unique_ptr<Executable>>> blocks_;  // of each step
  Observer observer_;
  std::unique_ptr<const Names> names_;  // null: the option nvtx was off
  bool watched_ = false;                // either of the two
};

}  // namespace toroid::exec

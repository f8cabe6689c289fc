// One call, recorded: the recordable parts of a plan at given sizes, working in one lane's memory.
#pragma once

#include "exec/record/coverage.h"
#include "exec/record/recording.h"
#include "exec/run/lane.h"

namespace toroid::exec {

// Whether a buffer of the plan keeps its address from call to call: what the program holds does always, what mark_static_address named
// as long as the caller gives the same.
enum class Stays : uint8_t { No, WhileGiven, Always };

class Captured {
 public:
  // placement: of results in the lane's shared memory; none where each call returns memory of its own.
  Captured(const Plan& plan, const Coverage& coverage, std::shared_ptr<const Bound> bound, const Lane& lane, Placement placement);

  const Bound& bound() const { return *bound_; }
  const Lane* lane() const { return lane_; }
  const Placement& placement() const { return placement_; }

  // What the run that is recorded does: before a step; for one that is no launch; around a launch; and behind the last one.
  struct Steps {
    std::function<void(size_t)> begin, run;
    std::function<void(size_t, const std::function<void()>& launch)> launch;
    std::function<void()> end;
  };
  // Records segment number `segment` of the coverage. What stays is recorded for its address, and a replay elsewhere is not served.
  void record(size_t segment, const Memory& memory, const std::vector<Stays>& stays, const Steps& run);
  // Whether nothing is launched in it at these sizes.
  bool is_empty(size_t segment) const { return parts_[segment] == nullptr; }
  // Forgets what was recorded; the lane is where its memory now is.
  void clear(const Lane& lane);
  // Whether all that was recorded for good is where it was.
  bool serves(const Memory& memory) const;
  // Replays it; returns the number of addresses that were changed before.
  int64_t replay(size_t segment, const Memory& memory);

  // The collectives of a segment's recording, by what carries them: told before each replay.
  struct Calls {
    distributed::nccl::Communicator* communicator;
    distributed::nccl::Communicator::Captured list;
  };
  std::vector<Calls>& calls(size_t segment) { return calls_[segment]; }

  int64_t launches() const;
  int64_t width() const;  // launches of a part that run side by side at most
  int64_t bytes() const;
  // What bytes() will be, and the pool memory that it works in.
  static int64_t forecast(const Plan& plan, const Coverage& coverage, const Bound& bound);
  int64_t pool_bytes() const { return bound_->arena + bound_->zeros + placement_.bytes(); }

  Workspace workspace;  // of the run that has the lane
  std::atomic<int64_t> replays{0};
  std::atomic<uint64_t> last_use{0};
  int64_t forecast_bytes = 0;

 private:
  // Where the lane's memory was when the pointers were last set.
  struct Base {
    const std::byte *arena = nullptr, *zeros = nullptr, *results = nullptr;
    bool operator==(const Base&) const = default;
  };
  Base base_of(const Lane& lane) const;
  int64_t rebase(const Memory& memory);

  const Plan& plan_;
  const Coverage& coverage_;
  const std::shared_ptr<const Bound> bound_;
  const Lane* lane_;
  const Placement placement_;
  Base base_;
  std::vector<std::unique_ptr<Recording>> parts_;  // one a segment; null: not recorded
  std::vector<std::vector<Calls>> calls_;          // of each segment
  std::vector<std::vector<size_t>> steps_;         // of each segment: the steps behind its recorded launches
  std::vector<std::pair<int, void*>> settled_;     // buffers that are recorded for good and might move, with their addresses
  bool opaque_ = false;  // it calls libraries, collectives or functions of users', whose arguments cannot be changed
};

}  // namespace toroid::exec

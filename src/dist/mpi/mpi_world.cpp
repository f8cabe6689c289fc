// The world of processes: how it begins and ends.
#include <fmt/format.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/check.h"
#include "dist/agree.h"
#include "dist/mpi/library.h"
#include "dist/mpi/mpi_group.h"
#include "dist/named_groups.h"
#include "toroid/distributed.h"

namespace toroid::distributed {
namespace mpi {
namespace {

using Seconds = std::chrono::duration<double>;

class MpiWorld : public NamedGroups {
 public:
  MpiWorld(const ToroidMpi& mpi, int rank, int size, int32_t most_tag, double timeout)
      : NamedGroups(rank), mpi_(mpi), most_groups_(MpiGroup::most_groups(most_tag)), timeout_(timeout) {
    add_world(size);
  }

  const ToroidMpi& library() const { return mpi_; }
  double timeout() const { return timeout_; }
  void leave(const std::string& reason) {
    for (Group* group : all()) static_cast<MpiGroup*>(group)->leave(reason);
  }

 private:
  std::unique_ptr<Group> make(const std::string& name, int64_t number, int rank_in_group, const std::vector<int>& members) override {
    if (number >= most_groups_) fail<EnvironmentError>("this MPI has tags for {} groups of a world, all of which have been made", number);
    return std::make_unique<MpiGroup>(mpi_, name, number, rank_in_group, members);
  }

  const ToroidMpi& mpi_;
  const int64_t most_groups_;
  const double timeout_;
};

// What a call of MPI that waits gives, run in a thread of its own; none where it takes longer than `seconds` (0: any). It then goes on, as
// nothing can stop it.
std::optional<int32_t> within(double seconds, std::function<int32_t()> call) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int32_t> code;
  };
  auto shared = std::make_shared<Shared>();
  std::thread([shared, call = std::move(call)] {
    const int32_t code = call();
    std::lock_guard lock(shared->mutex);
    shared->code = code;
    shared->changed.notify_all();
  }).detach();
  std::unique_lock lock(shared->mutex);
  const auto is_over = [&] { return shared->code.has_value(); };
  if (seconds > 0)
    shared->changed.wait_for(lock, Seconds(seconds), is_over);
  else
    shared->changed.wait(lock, is_over);
  return shared->code;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

// Where `toroid launch` has made a folder for it, each rank leaves a file that says that it has come: MPI does not say who is missing.
class Roll {
 public:
  Roll() : folder_(variable("TOROID_LAUNCH")), size_(std::atoi(variable("OMPI_COMM_WORLD_SIZE").c_str())) {
    if (!folder_.empty()) std::ofstream(file(variable("OMPI_COMM_WORLD_RANK"))).put('\n');
  }
  std::string missing() const {
    std::string out;
    std::error_code ignored;
    for (int r = 0; r < size_ && !folder_.empty(); ++r)
      if (!std::filesystem::exists(file(std::to_string(r)), ignored)) out += fmt::format("{}rank {}", out.empty() ? "" : ", ", r);
    return out.empty() ? "other ranks" : out;
  }

 private:
  std::filesystem::path file(const std::string& rank) const { return std::filesystem::path(folder_) / ("came." + rank); }
  const std::string folder_;
  const int size_;
};

struct State {
  std::mutex mutex;
  std::unique_ptr<MpiWorld> world;  // after a failure it stays, as MPI does
  bool has_begun = false, has_left = false;
};

// Never destroyed: threads may outlive main, and MPI's memory is not to end before MPI does.
State& state() {
  static auto& s = *new State;
  return s;
}

MpiWorld& joined(const State& s, const char* what) {
  TOROID_USER_CHECK(s.world, "distributed::{}: this process has no world of processes; call distributed::init first", what);
  return *s.world;
}

void begin(State& s, const InitOptions& options) {
  TOROID_USER_CHECK(!s.has_begun, "distributed::init: it has been called before, and a process has one world");
  TOROID_USER_CHECK(options.timeout_seconds >= 0, "distributed::init: the timeout is {} seconds; expected 0 or more",
                    options.timeout_seconds);
  TOROID_USER_CHECK(!variable("OMPI_COMM_WORLD_SIZE").empty() || !variable("PMIX_RANK").empty(),
                    "distributed::init: this process is not one of those that MPI starts: run the program by `toroid launch -n 4 PROGRAM` "
                    "or mpirun");
  const ToroidMpi& mpi = library();
  s.has_begun = true;
  const Roll roll;
  // What the thread writes that may go on.
  struct Numbers {
    int32_t rank = 0, size = 0, most_tag = 0;
  };
  auto numbers = std::make_shared<Numbers>();
  const auto code =
      within(options.timeout_seconds, [&mpi, numbers] { return mpi.start(&numbers->rank, &numbers->size, &numbers->most_tag); });
  if (!code)
    fail<EnvironmentError>("distributed::init: {} did not come within {} s (timeout_seconds)", roll.missing(), options.timeout_seconds);
  if (*code != 0) fail<EnvironmentError>("distributed::init: MPI does not start: {}", describe(mpi, *code));
  s.world = std::make_unique<MpiWorld>(mpi, numbers->rank, numbers->size, numbers->most_tag, options.timeout_seconds);
  char version[256] = "";
  mpi.version(version, sizeof version);
  agree(s.world->world(), "the version of MPI", version);
  set_process_world(s.world.get());
}

// Notices to ranks that no longer listen may be left, and what came too late.
void let_messages_end(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (Batch::sweep() != 0) {
    if (Seconds(std::chrono::steady_clock::now() - begin).count() > seconds)
      fail<EnvironmentError>("distributed::finalize: messages to other ranks do not arrive, so MPI cannot be ended; end the process");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void end(State& s) {
  MpiWorld& world = joined(s, "finalize");
  TOROID_USER_CHECK(!s.has_left, "distributed::finalize: this rank has left the world, or is at its end already");
  s.has_left = true;
  set_process_world(nullptr);
  world.world().run({.kind = Kind::Barrier, .where = "distributed::finalize"});
  constexpr double kMessages = 5;  // seconds
  let_messages_end(kMessages);
  const auto code = within(world.timeout(), world.library().stop);
  if (!code) fail<EnvironmentError>("distributed::finalize: MPI does not end within {} s (timeout_seconds of init)", world.timeout());
  if (*code != 0) fail<EnvironmentError>("distributed::finalize: MPI does not end: code {}", *code);
  s.world.reset();
}

}  // namespace
}  // namespace mpi

void init(const InitOptions& options) {
  std::lock_guard lock(mpi::state().mutex);
  mpi::begin(mpi::state(), options);
}

void finalize() {
  std::lock_guard lock(mpi::state().mutex);
  mpi::end(mpi::state());
}

void leave(const std::string& reason) {
  auto& s = mpi::state();
  std::lock_guard lock(s.mutex);
  auto& world = mpi::joined(s, "leave");
  TOROID_USER_CHECK(!s.has_left, "distributed::leave: this rank has left the world already");
  s.has_left = true;
  set_process_world(nullptr);
  world.leave("failed: " + reason);
}

void abort(int exit_code) {
  TOROID_USER_CHECK(exit_code >= 1 && exit_code <= 255, "distributed::abort: exit code {}; expected 1 to 255", exit_code);
  auto& s = mpi::state();
  const ToroidMpi* mpi = nullptr;
  {
    std::lock_guard lock(s.mutex);
    auto& world = mpi::joined(s, "abort");
    mpi = &world.library();
    world.leave("failed: it called distributed::abort");  // where the starter of the ranks does not end them
  }
  mpi->abort(exit_code);
  std::abort();  // MPI's does not return
}

}  // namespace toroid::distributed

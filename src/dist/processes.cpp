// The world of processes: how it begins and ends, whatever carries its messages.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/check.h"
#include "dist/agree.h"
#include "dist/host.h"
#include "dist/messages/message_group.h"
#include "dist/mpi/mpi_transport.h"
#include "dist/named_groups.h"
#include "dist/tcp/place.h"
#include "dist/tcp/rendezvous.h"
#include "dist/tcp/tcp_transport.h"
#include "toroid/distributed.h"

namespace toroid::distributed {
namespace {

using messages::Batch;
using messages::MessageGroup;
using messages::Transport;
using Seconds = std::chrono::duration<double>;

class ProcessWorld : public NamedGroups {
 public:
  ProcessWorld(std::unique_ptr<Transport> transport, double timeout)
      : NamedGroups(transport->rank()), transport_(std::move(transport)), timeout_(timeout) {
    add_world(transport_->size());
  }
  ~ProcessWorld() override { end_mail(); }

  void end_mail() {
    for (Group* group : all()) static_cast<MessageGroup*>(group)->end_mail();
  }
  Transport& transport() const { return *transport_; }
  double timeout() const { return timeout_; }
  void leave(const std::string& reason) {
    for (Group* group : all()) static_cast<MessageGroup*>(group)->leave(reason);
  }

 private:
  std::unique_ptr<Group> make(const std::string& name, int64_t number, int rank_in_group, const std::vector<int>& members) override {
    const int64_t most = MessageGroup::most_groups(transport_->most_tag());
    if (number >= most) fail<EnvironmentError>("there are tags for {} groups of a world, all of which have been made", most);
    return std::make_unique<MessageGroup>(*transport_, name, number, rank_in_group, members);
  }

  const std::unique_ptr<Transport> transport_;
  const double timeout_;
};

struct State {
  std::mutex mutex;
  std::unique_ptr<ProcessWorld> world;  // after a failure it stays, as MPI does
  bool has_begun = false, has_left = false;
};

// Never destroyed: threads may outlive main, and MPI's memory is not to end before MPI does.
State& state() {
  static auto& s = *new State;
  return s;
}

ProcessWorld& joined(const State& s, const char* what) {
  TOROID_USER_CHECK(s.world, "distributed::{}: this process has no world of processes; call distributed::init first", what);
  return *s.world;
}

// Ranks of one host are counted, where nobody has said which of them this one is.
int find_local_rank(Group& all) {
  const auto hosts = all_gather_object(all, host_id(), "distributed::init");
  const auto own = hosts.begin() + all.rank();
  return tcp::told_local_rank().value_or(static_cast<int>(std::count(hosts.begin(), own, *own)));
}

void begin(State& s, const InitOptions& options) {
  TOROID_USER_CHECK(!s.has_begun, "distributed::init: it has been called before, and a process has one world");
  TOROID_USER_CHECK(options.timeout_seconds >= 0, "distributed::init: the timeout is {} seconds; expected 0 or more",
                    options.timeout_seconds);
  const auto place = tcp::find_place(options);
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  TOROID_USER_CHECK(
      place || is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMIX_RANK"),
      "distributed::init: this process is not one of several ranks: run the program by `toroid launch -n 4 PROGRAM` or mpirun, "
      "or by what sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun, a script) or Slurm's variables");
  if (!place) mpi::describe_library();  // where it is missing the caller may try again; what starts, once
  s.has_begun = !place;
  auto transport =
      place ? tcp::make_transport(place->rank, tcp::meet(*place, options.timeout_seconds)) : mpi::start(options.timeout_seconds);
  s.has_begun = true;
  s.world = std::make_unique<ProcessWorld>(std::move(transport), options.timeout_seconds);
  Group& all = s.world->world();
  agree(all, "what carries their messages", s.world->transport().version());
  s.world->local_rank = find_local_rank(all);
  set_process_world(s.world.get());
}

// Notices to ranks that no longer listen may be left, and what came too late.
void let_messages_end(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (Batch::sweep() != 0) {
    if (Seconds(std::chrono::steady_clock::now() - begin).count() > seconds)
      fail<EnvironmentError>(
          "distributed::finalize: messages to other ranks do not arrive, so that this world cannot be ended; end the process");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void end(State& s) {
  ProcessWorld& world = joined(s, "finalize");
  TOROID_USER_CHECK(!s.has_left, "distributed::finalize: this rank has left the world, or is at its end already");
  s.has_left = true;
  set_process_world(nullptr);
  world.world().run({.kind = Kind::Barrier, .where = "distributed::finalize"});
  world.end_mail();                // what all have posted has come
  constexpr double kMessages = 5;  // seconds
  let_messages_end(kMessages);
  world.transport().stop(world.timeout());
  s.world.reset();
}

}  // namespace

void init(const InitOptions& options) {
  std::lock_guard lock(state().mutex);
  begin(state(), options);
}

void finalize() {
  std::lock_guard lock(state().mutex);
  end(state());
}

void leave(const std::string& reason) {
  auto& s = state();
  std::lock_guard lock(s.mutex);
  auto& world = joined(s, "leave");
  TOROID_USER_CHECK(!s.has_left, "distributed::leave: this rank has left the world already");
  s.has_left = true;
  set_process_world(nullptr);
  world.leave("failed: " + reason);
}

void abort(int exit_code) {
  TOROID_USER_CHECK(exit_code >= 1 && exit_code <= 255, "distributed::abort: exit code {}; expected 1 to 255", exit_code);
  auto& s = state();
  Transport* transport = nullptr;
  {
    std::lock_guard lock(s.mutex);
    auto& world = joined(s, "abort");
    transport = &world.transport();
    world.leave("failed: it called distributed::abort");  // where the starter of the ranks does not end them
  }
  transport->abort(exit_code);
  std::abort();  // the transport's does not return
}

}  // namespace toroid::distributed

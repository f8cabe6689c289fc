// Process groups: ranks that call the same collectives in the same order.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "dist/collective.h"
#include "dist/mail.h"

namespace toroid::distributed {

namespace nccl {
class Communicator;
}
namespace p2p {
class PeerMemory;
class SymmetricMemory;
}  // namespace p2p

// What carries a group's collectives between GPUs. Made by all ranks together when it is first asked for; null: not yet.
struct OnGpu {
  std::shared_ptr<nccl::Communicator> nccl;
  std::optional<std::string> nccl_refusal;  // why there is none, once all ranks have been asked
  std::shared_ptr<p2p::PeerMemory> peers;
  std::optional<std::string> library_refusal;  // why some rank has no cuBLASLt, once all ranks have been asked
  std::map<std::pair<std::string, int64_t>, std::shared_ptr<p2p::SymmetricMemory>> staging;  // by its use and bytes
};

// One rank's end of a group. Calls of one rank come from one thread at a time.
class Group {
 public:
  Group(std::string name, int rank, std::vector<int> members) : name_(std::move(name)), rank_(rank), members_(std::move(members)) {}
  virtual ~Group() = default;
  Group(const Group&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }  // in this group
  int size() const { return static_cast<int>(members_.size()); }
  const std::vector<int>& members() const { return members_; }  // their ranks in the world, in the order of their ranks here

  // Runs a collective; when it returns, `out` holds the result and `in` may change. UserError where the ranks' calls do not fit together,
  // on each of them. EnvironmentError, on all that wait, where a rank does not come within the option dist_timeout_ms or has failed: it
  // names the rank, the operation and its line. A group that failed stays so: every later call ends with the same reason.
  virtual void run(const Collective& c) = 0;
  // What carries its data, as part of what measured times hold for: "threads", "mpi", "tcp".
  virtual std::string engine() const = 0;
  // This rank's end of the group's mail, which may outlive the group.
  virtual std::shared_ptr<Mail> mail() = 0;
  // What the last collectives of all ranks were, the latest last, a line each: for reports of what hangs.
  virtual std::string history() const = 0;

  // Of this rank's GPU of that index.
  OnGpu& on_gpu(int index) { return on_gpu_[index]; }

 private:
  std::map<int, OnGpu> on_gpu_;
  const std::string name_;
  const int rank_;
  const std::vector<int> members_;
};

// The groups of one rank, by name; "world" is all ranks.
class World {
 public:
  virtual ~World() = default;
  virtual Group& world() = 0;
  // UserError naming those that there are, where there is none of that name or this rank is no member of it.
  virtual Group& group(std::string_view name) = 0;
  // Called by all ranks of the world alike. Ranks that are no members get the group's name, too, but cannot use it. UserError for a name
  // that is taken, for members that are none of the world's ranks or come twice, and where ranks ask for different groups.
  virtual void new_group(const std::string& name, const std::vector<int>& members) = 0;
  // Called by all ranks of the world alike; no member may use the group any more. UserError for a name that there is not, for "world", and
  // where ranks name different groups.
  virtual void destroy_group(const std::string& name) = 0;

  int local_rank = 0;  // among the ranks of this host
  int meshes = 0;      // that were made: a number in the names of their groups
};

// The calling thread's, else that of the process; UserError outside of a world, which says how to get into one.
World& current_world();
bool has_world();
// Makes a world that of all threads that have none of their own; null: there is none any more.
void set_process_world(World* world);

// Makes a world the calling thread's for the lifetime of the scope.
class WorldScope {
 public:
  explicit WorldScope(World& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;

 private:
  World* before_;
};

}  // namespace toroid::distributed

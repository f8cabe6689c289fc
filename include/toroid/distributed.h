// Process groups: ranks that run the same program, each on a part of the data, and exchange tensors by collectives (toroid/collectives.h).
//
// Ranks are processes, started by `toroid launch -n 4 PROGRAM` or by mpirun, whose messages MPI carries, or by torchrun, Slurm or a script,
// which meet at an address or by a file and send their messages by TCP:
//
//   int main() {
//     distributed::init();
//     Tensor sum = distributed::all_reduce(full({8}, distributed::rank()), "sum");
//     distributed::finalize();
//   }
//
// or threads of one process:
//
//   distributed::run_local(4, [] { Tensor sum = distributed::all_reduce(full({8}, distributed::rank()), "sum"); });
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::distributed {

struct InitOptions {
  double timeout_seconds = 120;  // that the start, and the end, may take; 0: any. Of collectives: option dist_timeout_ms
  // How the ranks meet. Empty: as TOROID_RENDEZVOUS says, else "mpi" where mpirun has started this process, else "env".
  //   mpi              MPI, by libtoroid_mpi.so; it is started where the program has not
  //   env              the variables RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them, or those of Slurm, where the
  //   address
  //                    is the first host of the step and the port follows from the number of the job
  //   tcp://HOST:PORT  the address of rank 0
  //   file:PATH        processes of one host; rank 0 writes the file, which is removed when all have come
  std::string rendezvous = {};
  int rank = -1, ranks = -1;  // with all but "mpi": -1: as RANK and WORLD_SIZE, or Slurm's variables, say
};

// Joins this process to the world of those that were started with it; all of them call it, once, and all threads belong to the world then.
// UserError in a process that nobody started as a rank, for variables without meaning, for ranks that disagree about their number, or of
// which two have the same, and for a second call. EnvironmentError where MPI is not installed (what to install), where a rank runs another
// version of Toroid, and where other ranks do not come in time: their numbers (with MPI, where `toroid launch` has started them).
// Connections of other programs and of other jobs (TOROID_JOB, TORCHELASTIC_RUN_ID, SLURM_JOB_ID) are passed over. Messages are neither
// encrypted nor signed: the network is trusted, as torchrun trusts it.
void init(const InitOptions& options = {});
// Leaves the world of processes, and ends MPI where init has started it. All ranks call it; a process that ends without this, or without
// `leave`, fails. EnvironmentError where a rank has failed or does not come in time; there is nothing to finalize then, and the process
// should end with an exit code that is not 0.
void finalize();
// Tells the other ranks that this one does not come any more, instead of finalize: what they wait for it in ends with an EnvironmentError
// that has the reason in it: "rank 2 failed: no space left". The process should end with an exit code that is not 0.
void leave(const std::string& reason);
// Ends all processes of the world, and this one with an exit code (1 to 255): MPI_Abort. Without MPI this process alone; the others are
// told at their next collective, and who started them sees the exit code. UserError in a process without such a world.
[[noreturn]] void abort(int exit_code = 1);

// Runs body once for each of `ranks` ranks (1 to 1024), side by side, each in a thread of its own, and returns when all have ended. The
// first error that one ends with is thrown; others that wait for a rank that failed or has ended get an EnvironmentError that names it.
void run_local(int ranks, const std::function<void()>& body);

// Of the calling thread, in the group of all ranks, "world". UserError outside of a world.
int rank();
int size();
// Of the calling thread's rank among those of its host: the number of its GPU, where each has one. As the starter says (LOCAL_RANK), else
// counted in the order of the ranks. UserError outside of a world.
int local_rank();

// Makes a group of some ranks; every rank of the world calls it alike, members or not. A member's rank in it is its place in `members`.
// UserError on all ranks for a name that is taken, members that are no ranks or come twice, and ranks that ask for different members.
void new_group(const std::string& name, const std::vector<int>& members);
// Every rank of the world calls it alike. UserError on all ranks for a group that there is not, and for "world".
void destroy_group(const std::string& name);

// The ranks of the world as an array with named dimensions, the last one running fastest. The ranks that differ along one dimension alone
// are a group. A handle, whose groups last as long as the world.
class Mesh {
 public:
  // sizes {2, 4}, names {"data", "tensor"}: rank r stands at [r / 4, r % 4]. Every rank of the world calls it alike. UserError on all ranks
  // for sizes whose product is not the size of the world, names that come twice, and ranks that ask for different meshes.
  Mesh(std::vector<int> sizes, std::vector<std::string> names);

  const std::vector<int>& sizes() const { return sizes_; }
  const std::vector<std::string>& names() const { return names_; }
  // Of the dimension of this name; UserError that lists the names for another one. Of this rank: its place along it, and its group.
  int size(std::string_view name) const { return sizes_[find(name)]; }
  int rank(std::string_view name) const { return place_[find(name)]; }
  const std::string& group(std::string_view name) const { return groups_[find(name)]; }

 private:
  size_t find(std::string_view name) const;

  std::vector<int> sizes_;
  std::vector<std::string> names_;
  std::vector<int> place_;           // of this rank
  std::vector<std::string> groups_;  // along each dimension, that this rank is in
};

}  // namespace toroid::distributed

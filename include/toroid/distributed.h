// Process groups: ranks that run the same program, each on a part of the data, and exchange tensors by collectives (toroid/collectives.h).
//
// Ranks are processes, started by `toroid launch -n 4 PROGRAM` or by mpirun, whose messages MPI carries:
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
};

// Joins this process to the world of those that `toroid launch` or mpirun started with it; all of them call it, once, and all threads
// belong to the world then. It opens libtoroid_mpi.so, and starts MPI where the program has not.
// UserError in a process that was started otherwise, and for a second call. EnvironmentError where MPI is not installed (what to install),
// and where other ranks do not come in time: their numbers, where `toroid launch` has started them.
void init(const InitOptions& options = {});
// Leaves the world of processes, and ends MPI where init has started it. All ranks call it; a process that ends without this, or without
// `leave`, fails. EnvironmentError where a rank has failed or does not come in time; there is nothing to finalize then, and the process
// should end with an exit code that is not 0.
void finalize();
// Tells the other ranks that this one does not come any more, instead of finalize: what they wait for it in ends with an EnvironmentError
// that has the reason in it: "rank 2 failed: no space left". The process should end with an exit code that is not 0.
void leave(const std::string& reason);
// Ends all processes of the world, and this one with an exit code (1 to 255): MPI_Abort. UserError in a process without such a world.
[[noreturn]] void abort(int exit_code = 1);

// Runs body once for each of `ranks` ranks (1 to 1024), side by side, each in a thread of its own, and returns when all have ended. The
// first error that one ends with is thrown; others that wait for a rank that failed or has ended get an EnvironmentError that names it.
void run_local(int ranks, const std::function<void()>& body);

// Of the calling thread, in the group of all ranks, "world". UserError outside of a world.
int rank();
int size();

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

// Runs of this test's own program as the ranks of a world of processes.
#pragma once

#include <map>
#include <string>

namespace toroid::test {

struct RanksOutcome {
  int code = -1;     // mpirun's; 124: it was ended, as it ran for too long
  std::string text;  // what all wrote
  double seconds = 0;
};

// The body of this name (rank_bodies.cpp) on `ranks` processes. before: environment variables, "TOROID_FAULT=die:1:3". survive: the others
// go on where one of them dies; otherwise mpirun ends them, too.
RanksOutcome run_ranks(int ranks, const std::string& body, const std::string& before = "", bool survive = true);

// The same without MPI: by a script that gives each process RANK, WORLD_SIZE and, where `before` says nothing of it, a file to meet by. The
// code is that of the last rank that failed. each: more of a rank's environment, by its number.
RanksOutcome run_apart(int ranks, const std::string& body, const std::string& before = "", const std::map<int, std::string>& each = {});
// Variables by which ranks meet at a port of this host that is free now.
std::string at_a_port();

// The rank of this process, as its starter says.
std::string told_rank();
// Runs a body in this process, which is one of the ranks. The exit code.
int run_body(const std::string& name);

}  // namespace toroid::test

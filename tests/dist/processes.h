// Runs of this test's own program as the ranks of a world of processes.
#pragma once

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

// Runs a body in this process, which is one of the ranks. The exit code.
int run_body(const std::string& name);

}  // namespace toroid::test

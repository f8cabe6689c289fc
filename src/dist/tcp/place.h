// Where the processes of a world meet, and which of them this one is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "toroid/distributed.h"

namespace toroid::distributed::tcp {

struct Place {
  int rank = 0, size = 1;
  std::string address;  // of rank 0, which listens there at `port`
  int port = 0;
  std::filesystem::path file;  // in place of an address: by which rank 0 tells its port to processes of this host
  std::string job;             // those of other jobs are passed over
};

// As options say or, where they do not, the variables of the environment: TOROID_RENDEZVOUS (the same texts as InitOptions::rendezvous),
// torchrun's (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID) and Slurm's (SLURM_PROCID, SLURM_NTASKS,
// SLURM_STEP_NODELIST, SLURM_JOB_ID, SLURM_STEP_ID). None where MPI starts this process, or nobody. UserError for a variable that is
// missing beside others or has no meaning: its name and its value.
std::optional<Place> find_place(const InitOptions& options);

// The first host of a list as Slurm writes them: "node[03-07,9],other" gives "node03". UserError for another form.
std::string first_host(const std::string& list);

// Of this process among those of its host, as its starter says (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK, SLURM_LOCALID).
std::optional<int> told_local_rank();

// The variables of starters that are set, a line: "RANK=1 WORLD_SIZE=4"; empty: none.
std::string starter_variables();

}  // namespace toroid::distributed::tcp

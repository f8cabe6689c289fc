#include "dist/tcp/place.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/check.h"
#include "dist/tcp/socket.h"

namespace toroid::distributed::tcp {
namespace {

constexpr int kMostRanks = 65536;

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

bool has(const char* name) { return !variable(name).empty(); }

int whole(const std::string& text, const std::string& what, int least, int most) {
  int out = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), out);
  TOROID_USER_CHECK(end.ec == std::errc() && end.ptr == text.data() + text.size() && out >= least && out <= most,
                    "distributed::init: {} is \"{}\"; expected a whole number from {} to {}", what, text, least, most);
  return out;
}

int number_of(const char* name, int least, int most) {
  TOROID_USER_CHECK(has(name),
                    "distributed::init: the variable {} is not set; RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT belong together", name);
  return whole(variable(name), name, least, most);
}

void take_rank(Place& p, const InitOptions& options) {
  const bool is_slurm = !has("RANK") && has("SLURM_PROCID");
  const char* const size = is_slurm ? "SLURM_NTASKS" : "WORLD_SIZE";
  const char* const rank = is_slurm ? "SLURM_PROCID" : "RANK";
  TOROID_USER_CHECK(options.ranks >= -1 && options.ranks <= kMostRanks && options.ranks != 0,
                    "distributed::init: {} ranks; expected 1 to {}", options.ranks, kMostRanks);
  p.size = options.ranks > 0 ? options.ranks : number_of(size, 1, kMostRanks);
  TOROID_USER_CHECK(options.rank >= -1 && options.rank < p.size, "distributed::init: rank {} of {}; expected 0 to {}", options.rank, p.size,
                    p.size - 1);
  p.rank = options.rank >= 0 ? options.rank : number_of(rank, 0, p.size - 1);
}

// "host:4711", "[::1]:4711".
void take_address(Place& p, const std::string& text) {
  const size_t colon = text.rfind(':');
  TOROID_USER_CHECK(colon != std::string::npos && colon > 0, "distributed::init: \"tcp://{}\": expected tcp://HOST:PORT", text);
  p.address = text.substr(0, colon);
  if (p.address.size() > 2 && p.address.front() == '[' && p.address.back() == ']') p.address = p.address.substr(1, p.address.size() - 2);
  p.port = whole(text.substr(colon + 1), "the port of tcp://" + text, 1, kMostPort);
}

void take_variables(Place& p) {
  p.address = variable("MASTER_ADDR");
  if (p.address.empty() && has("SLURM_STEP_NODELIST")) p.address = first_host(variable("SLURM_STEP_NODELIST"));
  TOROID_USER_CHECK(!p.address.empty(), "distributed::init: the variable MASTER_ADDR is not set: the host of rank 0");
  if (!has("MASTER_PORT") && has("SLURM_JOB_ID")) {
    // All ranks of a job find the same, and jobs on one host hardly ever do.
    constexpr int kFirst = 20000, kPorts = 10000;
    p.port = kFirst + whole(variable("SLURM_JOB_ID"), "SLURM_JOB_ID", 0, 2147483647) % kPorts;
  } else {
    p.port = number_of("MASTER_PORT", 1, kMostPort);
  }
}

std::string job() {
  if (has("TOROID_JOB")) return variable("TOROID_JOB");
  if (has("TORCHELASTIC_RUN_ID")) return variable("TORCHELASTIC_RUN_ID");
  return has("SLURM_JOB_ID") ? variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") : "";
}

}  // namespace

std::optional<Place> find_place(const InitOptions& options) {
  const std::string way = options.rendezvous.empty() ? variable("TOROID_RENDEZVOUS") : options.rendezvous;
  if (way == "mpi") return std::nullopt;
  const bool is_from_mpi = has("OMPI_COMM_WORLD_SIZE") || has("PMIX_RANK");
  const bool is_told = has("RANK") || has("SLURM_PROCID") || options.rank >= 0;
  if (way.empty() && (is_from_mpi || !is_told)) return std::nullopt;
  constexpr std::string_view kFile = "file:", kTcp = "tcp://";
  Place p;
  p.job = job();
  take_rank(p, options);
  if (way.starts_with(kFile)) {
    p.file = way.substr(kFile.size());
    TOROID_USER_CHECK(!p.file.empty(), "distributed::init: \"{}\": expected file:PATH", way);
  } else if (way.starts_with(kTcp)) {
    take_address(p, way.substr(kTcp.size()));
  } else {
    TOROID_USER_CHECK(way.empty() || way == "env",
                      "distributed::init: \"{}\" is no way to meet; expected env, mpi, tcp://HOST:PORT or file:PATH", way);
    take_variables(p);
  }
  return p;
}

std::string first_host(const std::string& list) {
  const auto is_right = [&](bool holds) {
    TOROID_USER_CHECK(holds, "distributed::init: \"{}\" is no list of hosts as Slurm writes them; set MASTER_ADDR", list);
  };
  const size_t end = list.find_first_of(",[");
  is_right(end != 0 && !list.empty());
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const size_t close = list.find(']', end), number_end = list.find_first_of("-,]", end);
  is_right(close != std::string::npos && number_end > end + 1);
  const size_t after = std::min(list.find(',', close), list.size());
  return list.substr(0, end) + list.substr(end + 1, number_end - end - 1) + list.substr(close + 1, after - close - 1);
}

std::optional<int> told_local_rank() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"})
    if (has(name)) return whole(variable(name), name, 0, kMostRanks);
  return std::nullopt;
}

std::string starter_variables() {
  std::string out;
  for (const char* name : {"TOROID_RENDEZVOUS", "TOROID_JOB", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
                           "TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "SLURM_PROCID",
                           "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"})
    if (has(name)) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, variable(name));
  return out;
}

}  // namespace toroid::distributed::tcp

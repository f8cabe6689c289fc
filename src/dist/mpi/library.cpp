#include "dist/mpi/library.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/check.h"
#include "base/shared_library.h"

namespace toroid::distributed::mpi {
namespace {

constexpr const char* kLibraryName = "libtoroid_mpi.so";
constexpr const char* kRemedy =
    "Install Open MPI (Debian: apt-get install libopenmpi-dev openmpi-bin), build Toroid again, and keep libtoroid_mpi.so beside the "
    "program, or name it in TOROID_MPI_LIBRARY.";

// Beside the program, where installed programs have it, and wherever the system's loader looks.
std::vector<std::string> library_places() {
  if (const char* set = std::getenv("TOROID_MPI_LIBRARY"); set && *set) return {set};
  std::vector<std::string> out;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  if (!program.empty())
    for (const char* relative : {"", "../lib", "../lib/toroid"})
      out.push_back((program.parent_path() / relative / kLibraryName).lexically_normal().string());
  out.push_back(kLibraryName);
  return out;
}

struct Opened {
  const ToroidMpi& functions;
  std::string path;
};

Opened open_library() {
  const auto places = library_places();
  std::vector<const char*> names;
  for (auto& place : places) names.push_back(place.c_str());
  const SharedLibrary opened("MPI between processes", names, "", kRemedy);
  const ToroidMpi& mpi = *opened.function<decltype(toroid_mpi)>("toroid_mpi")();
  if (mpi.abi != TOROID_MPI_ABI)
    fail<EnvironmentError>("\"{}\" belongs to another version of Toroid (interface {}, expected {}); install the one of this version",
                           opened.path(), mpi.abi, TOROID_MPI_ABI);
  return {mpi, opened.path()};
}

const Opened& opened_library() {
  static const Opened opened = open_library();
  return opened;
}

}  // namespace

const ToroidMpi& library() { return opened_library().functions; }

const std::string& library_path() { return opened_library().path; }

std::string describe(const ToroidMpi& mpi, int32_t code) {
  char text[512] = "";
  mpi.describe(code, text, sizeof text);
  return text;
}

}  // namespace toroid::distributed::mpi

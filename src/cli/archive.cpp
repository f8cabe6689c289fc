#include "cli/archive.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cstring>

#include "base/check.h"
#include "base/files.h"

extern char** environ;

namespace toroid::cli {

TempFolder::TempFolder() : path_(make_temp_dir("toroid-verify")) {}
TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

TempFolder unpack(const std::filesystem::path& archive) {
  require_file(archive);
  TempFolder out;
  std::string words[] = {"tar", "--use-compress-program=zstd -d", "-xf", archive.string(), "-C", out.path().string()};
  char* argv[7] = {};
  for (size_t i = 0; i < 6; ++i) argv[i] = words[i].data();
  pid_t pid = 0;
  int error = ::posix_spawnp(&pid, "tar", nullptr, nullptr, argv, environ);
  if (error) fail<EnvironmentError>("cannot run tar to unpack {}: {}", archive.string(), std::strerror(error));
  int status = 0;
  ::waitpid(pid, &status, 0);
  TOROID_USER_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                    "{}: tar could not unpack it (are tar and zstd installed, and is the file whole?)", archive.string());
  return out;
}

}  // namespace toroid::cli

#include "dist/host.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace toroid::distributed {

std::string host_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  std::array<char, 256> name{};
  if (id.empty() && ::gethostname(name.data(), name.size() - 1) == 0) id = name.data();
  return id;
}

}  // namespace toroid::distributed

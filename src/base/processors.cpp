#include "base/processors.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

// Files under /proc and /sys tell no size: they are read to their end.
std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(std::move(line));
  return lines;
}

// A path of the system within `root`.
fs::path within(const fs::path& root, const std::string& path) { return root / fs::path(path).relative_path(); }

std::optional<double> ratio(const std::string& quota, const std::string& period) {
  char *quota_end, *period_end;
  const double q = std::strtod(quota.c_str(), &quota_end), p = std::strtod(period.c_str(), &period_end);
  if (quota_end == quota.c_str() || period_end == period.c_str() || q <= 0 || p <= 0) return {};  // "max", -1, or no such file
  return q / p;
}

std::string first_line(const fs::path& path) {
  const auto lines = lines_of(path);
  return lines.empty() ? "" : lines[0];
}

std::optional<double> quota_v2(const fs::path& group) {
  std::istringstream words(first_line(group / "cpu.max"));
  std::string quota, period;
  words >> quota >> period;
  return ratio(quota, period);
}

std::optional<double> quota_v1(const fs::path& group) {
  return ratio(first_line(group / "cpu.cfs_quota_us"), first_line(group / "cpu.cfs_period_us"));
}

struct Mount {
  std::string root, point;  // which group of the hierarchy is mounted, and where
};

// The mount of version 2, or of the controller `cpu` of version 1. A line of mountinfo: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS
// [TAGS...] - TYPE SOURCE SUPEROPTIONS.
std::optional<Mount> find_mount(const fs::path& root, bool version2) {
  for (const std::string& line : lines_of(root / "proc/self/mountinfo")) {
    std::istringstream words(line);
    std::string skipped, type, source, options;
    Mount m;
    words >> skipped >> skipped >> skipped >> m.root >> m.point;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> source >> options;
    const auto list = split_list(options);
    if (version2 ? type == "cgroup2" : type == "cgroup" && std::find(list.begin(), list.end(), "cpu") != list.end()) return m;
  }
  return {};
}

// The group of this process: a line of cgroup is ID:CONTROLLERS:PATH, with ID 0 and no controllers for version 2.
std::optional<std::string> find_group(const fs::path& root, bool version2) {
  for (const std::string& line : lines_of(root / "proc/self/cgroup")) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto list = split_list(controllers);
    if (version2 ? controllers.empty() : std::find(list.begin(), list.end(), "cpu") != list.end()) return line.substr(second + 1);
  }
  return {};
}

// The folders from the process's group up to the mount point. A path outside of what is mounted, which containers see, is its mount point.
std::vector<fs::path> groups(const fs::path& root, bool version2) {
  const auto mount = find_mount(root, version2);
  const auto path = find_group(root, version2);
  if (!mount || !path) return {};
  std::vector<fs::path> out{within(root, mount->point)};
  const fs::path below = fs::path(*path).lexically_relative(mount->root);
  for (const fs::path& part : below) {
    if (part == "..") return {out[0]};
    if (part != "." && !part.empty()) out.push_back(out.back() / part);
  }
  return out;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (bool version2 : {true, false})
    for (const fs::path& group : groups(root, version2))
      if (const auto quota = version2 ? quota_v2(group) : quota_v1(group)) least = std::min(least.value_or(*quota), *quota);
  return least;
}

int processor_count(const fs::path& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  if (const auto quota = cpu_quota(root); quota && *quota < count) count = static_cast<int>(*quota + 1e-6);
  return std::max(1, count);
}

}  // namespace toroid

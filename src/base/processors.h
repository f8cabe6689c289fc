// How many processors this process may use: by its affinity, and by the quotas of the control groups that it is in.
#pragma once

#include <filesystem>
#include <optional>

namespace toroid {

// Processors' worth of time that control groups grant this process: the least of the quotas of its group and of all groups around it
// (cpu.max of version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1). Nothing where there is no quota, or none can be read.
// root: the folder that holds proc and the mount points.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

// Threads that this process can run at a time, at least 1: its processors by affinity, and no more than its quota, rounded down. One
// thread more than the quota would be stopped for a part of each period, and others would wait for it.
int processor_count(const std::filesystem::path& root = "/");

}  // namespace toroid

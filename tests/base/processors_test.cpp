#include "base/processors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>

#include "base/files.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

// A folder in place of "/", with the files that a kernel would show.
class CpuQuota : public ::testing::Test {
 protected:
  void SetUp() override { root_ = make_temp_dir("quota"); }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void mounts(const std::string& lines) {
    write("proc/self/mountinfo", std::string("22 1 0:21 / /proc rw - proc proc rw\n").append(lines));
  }
  void group(const std::string& lines) { write("proc/self/cgroup", lines); }

  fs::path root_;
};

constexpr const char* kVersion2 = "31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kVersion1 =
    "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n";

TEST_F(CpuQuota, NoFilesAreNoQuota) { EXPECT_EQ(cpu_quota(root_), std::nullopt); }

TEST_F(CpuQuota, Version2TakesTheLeastOnTheWholePath) {
  mounts(kVersion2);
  group("0::/pods/one/main\n");
  write("sys/fs/cgroup/pods/one/main/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(root_), std::nullopt);
  write("sys/fs/cgroup/pods/cpu.max", "800000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 8);
  write("sys/fs/cgroup/pods/one/cpu.max", "75000 50000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
  write("sys/fs/cgroup/pods/one/main/cpu.max", "600000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5);
  write("sys/fs/cgroup/pods/two/cpu.max", "10000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 1.5) << "a group that this process is not in";
}

TEST_F(CpuQuota, Version2WithinANamespaceOfItsOwn) {
  mounts(kVersion2);
  group("0::/\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(root_), 0.5);
}

TEST_F(CpuQuota, Version1TakesQuotaAndPeriodOfTheControllerCpu) {
  mounts(kVersion1);
  group("5:cpuset:/elsewhere\n4:cpu,cpuacct:/jobs/a\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/a/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), std::nullopt);
  write("sys/fs/cgroup/cpu,cpuacct/jobs/a/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(cpu_quota(root_), 3);
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "20000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "10000\n");
  EXPECT_EQ(cpu_quota(root_), 2);
}

// In a container without a namespace of groups the path is that of the host, and the container's group is what is mounted.
TEST_F(CpuQuota, APathOfTheHostWithinAContainer) {
  mounts("33 24 0:29 /docker/c1 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
  group("4:cpu:/docker/c1/inner\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 2);
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(root_), 1);
  group("4:cpu:/docker/other\n");
  EXPECT_EQ(cpu_quota(root_), 2) << "a group outside of what is mounted: the mount point";
  group("4:cpu:/../..\n");
  EXPECT_EQ(cpu_quota(root_), 2);
}

TEST_F(CpuQuota, BrokenFilesAreNoQuota) {
  mounts(std::string(kVersion2).append("nonsense\n\n- -\n"));
  group("0::/a\nnonsense\n:\n");
  for (const char* text : {"", "\n", "max", "x y\n", "100000\n", "0 100000\n", "-5 100000\n", "100000 0\n"}) {
    write("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(cpu_quota(root_), std::nullopt) << '"' << text << '"';
  }
}

TEST_F(CpuQuota, ProcessorsAreTheQuotaRoundedDownAndAtLeastOne) {
  const int all = processor_count(root_);  // by affinity
  mounts(kVersion2);
  group("0::/\n");
  for (auto [text, expected] : {std::pair("30000 100000", 1),
                                {"100000 100000", 1},
                                {"190000 100000", 1},
                                {"200000 100000", 2},
                                {"300000 100000", 3},
                                {"6400000 100000", 64}}) {
    write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(processor_count(root_), std::min(all, expected)) << text;
  }
}

}  // namespace
}  // namespace toroid

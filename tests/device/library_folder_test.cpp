// Where NVIDIA's libraries are looked for.
#include "device/cuda/library_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/options.h"

namespace toroid::device::cuda {
namespace {

TEST(LibraryFolder, IsWhereInstallersPutLibraries) {
  const std::filesystem::path root = make_temp_dir("toroid-libraries");
  static constexpr const char* kNames[] = {"libcudnn.so.9"};
  const auto find = [&](const std::string& given) {
    const ScopedOption folder("cuda_dir", given);
    const std::string found = library_folder(kNames, "cudnn");
    return found.empty() ? "" : std::filesystem::weakly_canonical(found).string();
  };
  std::filesystem::create_directories(root / "nvidia/cu13/lib");
  std::filesystem::create_directories(root / "nvidia/cudnn/lib");
  std::filesystem::create_directories(root / "toolkit/lib64");
  const std::string wheels = (root / "nvidia/cu13/lib").string();
  EXPECT_EQ(find(wheels), "");
  write_file_atomic(root / "nvidia/cudnn/lib/libcudnn.so.9", "");
  EXPECT_EQ(find(wheels), (root / "nvidia/cudnn/lib").string());
  EXPECT_EQ(find((root / "nvidia/cu13").string()), (root / "nvidia/cudnn/lib").string());
  EXPECT_EQ(find((root / "nvidia/cudnn").string()), (root / "nvidia/cudnn/lib").string());
  write_file_atomic(root / "toolkit/lib64/libcudnn.so.9", "");
  EXPECT_EQ(find((root / "toolkit").string()), (root / "toolkit/lib64").string());
  std::filesystem::create_directories(root / "cuda/lib64");
  std::filesystem::create_directories(root / "cuda/extras/CUPTI/lib64");
  write_file_atomic(root / "cuda/extras/CUPTI/lib64/libcudnn.so.9", "");
  for (const char* given : {"cuda", "cuda/lib64"})  // the folder of the compiler, and the one that it is in
    EXPECT_EQ(find((root / given).string()), (root / "cuda/extras/CUPTI/lib64").string());
  EXPECT_EQ(find(""), "");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace toroid::device::cuda

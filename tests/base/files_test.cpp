#include "base/files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/options.h"
#include "toroid/error.h"

namespace toroid {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override { dir_ = make_temp_dir("toroid-files-test"); }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

TEST_F(Files, WriteReadAndMapAgree) {
  const std::string bytes("one\0two\n", 8);
  write_file_atomic(dir_ / "f", bytes);
  EXPECT_EQ(read_file(dir_ / "f"), bytes);
  MappedFile mapped(dir_ / "f");
  EXPECT_EQ(mapped.text(), bytes);
  MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.span().size(), 8u);
}

TEST_F(Files, EmptyFileMapsToAnEmptySpan) {
  write_file_atomic(dir_ / "empty", "");
  EXPECT_EQ(MappedFile(dir_ / "empty").size(), 0u);
}

TEST_F(Files, ReplacingLeavesNoTemporaryAndKeepsOldMappings) {
  write_file_atomic(dir_ / "f", "old");
  const MappedFile old(dir_ / "f");
  write_file_atomic(dir_ / "f", "newer");
  EXPECT_EQ(old.text(), "old");
  EXPECT_EQ(read_file(dir_ / "f"), "newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1);
}

TEST_F(Files, MissingFileAndFolderAreUserErrorsThatNameThePath) {
  try {
    read_file(dir_ / "missing");
    FAIL() << "no exception";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("missing\": No such file"), std::string::npos) << error.what();
  }
  EXPECT_THROW(MappedFile{dir_}, UserError);
}

TEST_F(Files, RefusedWriteIsAnEnvironmentErrorThatNamesThePath) {
  try {
    write_file_atomic(dir_ / "no_folder" / "f", "x");
    FAIL() << "no exception";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("no_folder/f\": No such file"), std::string::npos) << error.what();
  }
  write_file_atomic(dir_ / "f", "x");
  EXPECT_THROW(make_directories(dir_ / "f" / "sub"), EnvironmentError);
}

TEST_F(Files, FullDiskIsAnEnvironmentError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  // The device itself cannot be replaced, so the write to a link in place of the temporary is what a full disk looks like.
  for (int i = 0; i < 64; ++i)
    std::filesystem::create_symlink("/dev/full", dir_ / (".toroid-tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i)));
  EXPECT_THROW(write_file_atomic(dir_ / "f", "x"), EnvironmentError);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "f"));
}

TEST_F(Files, CacheDirFollowsTheOptionFirst) {
  const ScopedOption option("cache_dir", "/somewhere/else");
  EXPECT_EQ(cache_dir(), "/somewhere/else");
}

TEST_F(Files, CacheDirFollowsXdgAndIgnoresARelativeOne) {
  const ScopedOption option("cache_dir", "");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(cache_dir(), "/xdg/toroid");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(cache_dir().filename(), "toroid");
  EXPECT_EQ(cache_dir().parent_path().filename(), ".cache");
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace toroid

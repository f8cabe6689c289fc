#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

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

TEST_F(Files, BothWaysOfReadingAgree) {
  const std::string bytes("one\0two\n", 8);
  write_file_atomic(dir_ / "f", bytes);
  EXPECT_EQ(read_file(dir_ / "f"), bytes);
  FileBytes read(dir_ / "f");
  EXPECT_EQ(read.text(), bytes);
  FileBytes moved = std::move(read);
  EXPECT_EQ(moved.span().size(), 8u);
}

TEST_F(Files, AnEmptyFileIsAnEmptySpan) {
  write_file_atomic(dir_ / "empty", "");
  EXPECT_EQ(FileBytes(dir_ / "empty").size(), 0u);
}

TEST_F(Files, ReplacingLeavesNoTemporaryAndKeepsOldBytes) {
  write_file_atomic(dir_ / "f", "old");
  const FileBytes old(dir_ / "f");
  write_file_atomic(dir_ / "f", "newer");
  EXPECT_EQ(old.text(), "old");
  EXPECT_EQ(read_file(dir_ / "f"), "newer");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1);
}

// The sizes go around what one thread and what several read, and around pages.
TEST_F(Files, BytesAreTheirOwnWhateverHappensToTheFile) {
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{70001}, (size_t{48} << 20) + 5}) {
    std::string bytes(size, 'a');
    for (size_t i = 0; i < size; i += 4093) bytes[i] = static_cast<char>(i / 4093);
    write_file_atomic(dir_ / "f", bytes);
    const FileBytes read(dir_ / "f");
    { std::fstream(dir_ / "f", std::ios::in | std::ios::out) << "overwritten in place"; }
    EXPECT_TRUE(read.text() == bytes) << size;
    std::filesystem::resize_file(dir_ / "f", 0);
    EXPECT_TRUE(read.text() == bytes) << size << ", after the file was shortened";
    const_cast<std::byte&>(read.span().back()) = std::byte{7};  // memory of their own may be written
    EXPECT_EQ(std::filesystem::file_size(dir_ / "f"), 0u);
  }
}

TEST_F(Files, HeadsAreNoLongerThanTheFile) {
  write_file_atomic(dir_ / "f", "abc");
  EXPECT_EQ(read_head(dir_ / "f", 2), "ab");
  EXPECT_EQ(read_head(dir_ / "f", 4), "abc");
  EXPECT_THROW(read_head(dir_, 4), UserError);
  EXPECT_THROW(require_file(dir_ / "missing"), UserError);
}

TEST_F(Files, MissingFileAndFolderAreUserErrorsThatNameThePath) {
  try {
    read_file(dir_ / "missing");
    FAIL() << "no exception";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("missing\": No such file"), std::string::npos) << error.what();
  }
  EXPECT_THROW(FileBytes{dir_}, UserError);
}

TEST_F(Files, RefusedWriteIsAnEnvironmentErrorThatNamesThePath) {
  try {
    write_file_atomic(dir_ / "no_folder" / "f", "x");
    FAIL() << "no exception";
  } catch (const EnvironmentError& error) {
    EXPECT_NE(std::string(error.what()).find("no_folder\" does not exist; create it"), std::string::npos) << error.what();
  }
  write_file_atomic(dir_ / "f", "x");
  EXPECT_THROW(make_directories(dir_ / "f" / "sub"), EnvironmentError);
}

// What refuses is named, though the system's answer is that there is no such file.
TEST_F(Files, WritesIntoFoldersThatCannotBeMadeSayWhy) {
  const auto error_of = [](const std::filesystem::path& path) -> std::string {
    try {
      write_file_atomic(path, "x");
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "no error";
  };
  write_file_atomic(dir_ / "f", "x");
  EXPECT_NE(error_of(dir_ / "f" / "a" / "b").find("/f\" takes none: Not a directory; choose another path"), std::string::npos)
      << error_of(dir_ / "f" / "a" / "b");
  EXPECT_EQ(error_of(dir_ / "a" / "b" / "c").find("disk space"), std::string::npos) << error_of(dir_ / "a" / "b" / "c");
  struct statvfs sys {};
  if (::statvfs("/sys/kernel", &sys) == 0 && (sys.f_flag & ST_RDONLY)) {
    EXPECT_NE(error_of("/sys/kernel/none/c").find("Read-only file system; choose a folder that can be written"), std::string::npos)
        << error_of("/sys/kernel/none/c");
  }
}

TEST_F(Files, FullDiskIsAnEnvironmentError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  // The device itself cannot be replaced, so the write to a link in place of the temporary is what a full disk looks like.
  for (int i = 0; i < 64; ++i)
    std::filesystem::create_symlink("/dev/full", dir_ / (".toroid-tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i)));
  EXPECT_THROW(write_file_atomic(dir_ / "f", "x"), EnvironmentError);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "f"));
}

// The time of a stamp is that of the file system's clock, whose ticks may be whole seconds: those of FAT are two.
TEST_F(Files, AStampIsFreshForATickOfItsFileSystem) {
  constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs, kThen = 1'700'000'000 * kSecond;
  const auto fresh = [](int64_t written, int64_t read_at) { return is_fresh({.bytes = 1, .time_ns = written}, read_at); };
  const int64_t fine = kThen + 123'456'789;
  EXPECT_TRUE(fresh(fine, fine));
  EXPECT_TRUE(fresh(fine, fine + 20 * kMs));
  EXPECT_FALSE(fresh(fine, fine + 60 * kMs));
  EXPECT_TRUE(fresh(fine, fine - kSecond)) << "a clock that was set back, or a write after the reading";
  EXPECT_TRUE(fresh(kThen, kThen + 60 * kMs));
  EXPECT_TRUE(fresh(kThen, kThen + 2 * kSecond));
  EXPECT_FALSE(fresh(kThen, kThen + 2 * kSecond + 60 * kMs));
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

#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "temp_folder.h"

namespace toroid {
namespace {

constexpr size_t kPage = 4096, kPages = 2048;

std::shared_ptr<MappedFile> file_of(const test::TempFolder& folder) {
  const auto path = folder.path / "weights";
  std::ofstream(path) << std::string(kPages * kPage, 'w');
  return std::make_shared<MappedFile>(path);
}

// Pages of the part that this process has mapped: those whose entry of its page table is present.
size_t mapped(std::span<const std::byte> part) {
  std::ifstream table("/proc/self/pagemap", std::ios::binary);
  std::vector<uint64_t> entries(part.size() / kPage);
  table.seekg(static_cast<std::streamoff>(reinterpret_cast<uintptr_t>(part.data()) / kPage * sizeof(uint64_t)));
  table.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(entries.size() * sizeof(uint64_t)));
  size_t out = 0;
  for (const uint64_t e : entries) out += e >> 63;
  return table ? out : 0;
}

bool comes_to(std::span<const std::byte> part, size_t pages) {
  for (int i = 0; i < 500; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (mapped(part) == pages) return true;
  return false;
}

bool is_known() {
#ifdef MADV_POPULATE_READ
  alignas(kPage) static char page[kPage];
  return ::madvise(page, kPage, MADV_POPULATE_READ) == 0;
#else
  return false;
#endif
}

TEST(MapAhead, MapsThePartAndNothingElse) {
  if (!is_known()) GTEST_SKIP() << "this kernel maps nothing ahead";
  const test::TempFolder folder;
  const auto file = file_of(folder);
  const auto all = file->span();
  ASSERT_EQ(mapped(all), 0u);
  MapAhead ahead;
  ahead.begin(file, all.subspan(kPage * 512, kPage * 1024));
  EXPECT_TRUE(comes_to(all.subspan(kPage * 512, kPage * 1024), 1024));
  EXPECT_EQ(mapped(all.first(kPage * 512)) + mapped(all.subspan(kPage * 1536)), 0u);
  ahead.begin(file, all);  // once for an object
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(mapped(all), 1024u);
}

TEST(MapAhead, KeepsTheFileAndEndsWithTheObject) {
  const test::TempFolder folder;
  for (int i = 0; i < 50; ++i) {
    auto file = file_of(folder);
    std::weak_ptr<MappedFile> seen = file;
    {
      MapAhead ahead;
      ahead.begin(file, file->span());
      file.reset();
    }
    EXPECT_TRUE(seen.expired());
  }
  MapAhead of_nothing;
  of_nothing.begin(file_of(folder), {});
}

// The thread is not in the child, which does not wait for it.
TEST(MapAhead, IsLeftInAChild) {
  const test::TempFolder folder;
  const auto file = file_of(folder);
  std::optional<MapAhead> ahead(std::in_place);
  ahead->begin(file, file->span());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);
    ahead.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace toroid

#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
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

// Of each page of the part, whether it is in the page table of this process.
std::vector<bool> mapped(std::span<const std::byte> part) {
  std::ifstream table("/proc/self/pagemap", std::ios::binary);
  std::vector<uint64_t> entries(part.size() / kPage);
  table.seekg(static_cast<std::streamoff>(reinterpret_cast<uintptr_t>(part.data()) / kPage * sizeof(uint64_t)));
  table.read(reinterpret_cast<char*>(entries.data()), static_cast<std::streamsize>(entries.size() * sizeof(uint64_t)));
  std::vector<bool> out;
  for (const uint64_t e : entries) out.push_back(table && e >> 63 != 0);
  return out;
}

size_t count(const std::vector<bool>& pages) { return static_cast<size_t>(std::count(pages.begin(), pages.end(), true)); }

// Systems map some pages around one that is touched: 16 by default.
constexpr size_t kAround = 16;

TEST(MapAhead, TouchesThePart) {
  const test::TempFolder folder;
  const auto file = file_of(folder);
  const auto all = file->span();
  ASSERT_EQ(count(mapped(all)), 0u);
  constexpr size_t kFirst = 512, kCount = 1024;
  MapAhead ahead;
  ahead.begin(file, all.subspan(kPage * kFirst, kPage * kCount));
  for (int i = 0; i < 500 && !mapped(all)[kFirst + kCount - kAround]; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto pages = mapped(all);
  for (size_t p = kFirst; p < kFirst + kCount; p += kAround) EXPECT_TRUE(pages[p]) << "page " << p;
  EXPECT_LE(count(mapped(all.first(kPage * (kFirst - kAround)))) + count(mapped(all.subspan(kPage * (kFirst + kCount + kAround)))), 0u);
  ahead.begin(file, all);  // once for an object
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(mapped(all), pages);
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

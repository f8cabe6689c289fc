#include "tune/isolate/worker/guarded.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace toroid::tune {
namespace {

constexpr std::byte kFill{0xcd};
constexpr size_t kAlignment = 64;
// Far enough for a kernel that strides past the end by a row.
constexpr size_t kGuard = size_t{1} << 20;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

Guarded::Guarded(size_t bytes) : bytes_(bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t inner = round_up(std::max<size_t>(bytes, 1), page);
  mapped_ = inner + 2 * kGuard;
  void* p = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED || ::mprotect(static_cast<std::byte*>(p) + kGuard, inner, PROT_READ | PROT_WRITE) != 0)
    fail<EnvironmentError>("a buffer of {} bytes cannot be had: {}", bytes, std::strerror(errno));
  pages_ = static_cast<std::byte*>(p);
  data_ = pages_ + kGuard + inner - round_up(bytes, kAlignment);
  std::fill(pages_ + kGuard, data_, kFill);
  std::fill(data_ + bytes, pages_ + kGuard + inner, kFill);
}

Guarded::~Guarded() {
  if (pages_) ::munmap(pages_, mapped_);
}

Guarded::Guarded(Guarded&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), mapped_(other.mapped_), bytes_(other.bytes_), data_(other.data_) {}

void Guarded::protect() { ::mprotect(pages_ + kGuard, mapped_ - 2 * kGuard, PROT_READ); }

bool Guarded::intact() const {
  const auto filled = [](const std::byte* begin, const std::byte* end) {
    return std::all_of(begin, end, [](std::byte b) { return b == kFill; });
  };
  return filled(pages_ + kGuard, data_) && filled(data_ + bytes_, pages_ + mapped_ - kGuard);
}

bool Guarded::locate(const void* address, int64_t& distance) const {
  const auto* p = static_cast<const std::byte*>(address);
  if (p < pages_ || p >= pages_ + mapped_) return false;
  distance = p < data_ ? p - data_ : p >= data_ + bytes_ ? p - (data_ + bytes_) + 1 : 0;
  return true;
}

}  // namespace toroid::tune

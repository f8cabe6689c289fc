#include "base/files.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/options.h"

namespace toroid {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

// An open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  // Closes now; returns the error, since a full disk may show itself only here.
  int close() { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

struct Opened {
  Descriptor fd;
  size_t size;
};

// The system would take what precedes a byte of 0 for the path.
void require_path(const std::filesystem::path& path, const char* verb) {
  const size_t end = path.native().find('\0');
  TOROID_USER_CHECK(end == std::string::npos, "cannot {} \"{}\": the path has a byte of 0 behind that; check the path", verb,
                    path.native().substr(0, end));
}

[[noreturn]] void read_failure(const std::filesystem::path& path, int error) {
  if (error == ENOENT || error == ENOTDIR) fail<UserError>("cannot read \"{}\": {}; check the path", path.string(), reason(error));
  fail<EnvironmentError>("cannot read \"{}\": {}", path.string(), reason(error));
}

void require_regular(const std::filesystem::path& path, const struct stat& info) {
  TOROID_USER_CHECK(S_ISREG(info.st_mode), "cannot read \"{}\": it is not a regular file", path.string());
}

Opened open_for_reading(const std::filesystem::path& path) {
  require_path(path, "read");
  // Without O_NONBLOCK a named pipe in the file's place would block for ever.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) read_failure(path, errno);
  Opened opened{Descriptor(fd), 0};
  struct stat info {};
  if (::fstat(fd, &info) != 0) read_failure(path, errno);
  require_regular(path, info);
  opened.size = static_cast<size_t>(info.st_size);
  return opened;
}

const char* advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free disk space, or choose another folder";
    case EROFS:
      return "choose a folder that can be written";
    case EACCES:
    case EPERM:
      return "check the permissions of its folder";
    case EISDIR:
      return "a folder has that name: choose another";
    default:
      return "check the disk space and the permissions of its folder";
  }
}

[[noreturn]] void write_failure(const std::filesystem::path& path, int error) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::absolute(path, ignored).parent_path();
  if ((error == ENOENT || error == ENOTDIR) && !std::filesystem::is_directory(folder, ignored)) {
    std::filesystem::path there = folder;  // what there is of its path
    while (!std::filesystem::exists(there, ignored) && there.has_relative_path()) there = there.parent_path();
    const bool is_folder = std::filesystem::is_directory(there, ignored);
    const int refusal = !is_folder ? ENOTDIR : ::access(there.c_str(), W_OK) != 0 ? errno : 0;
    if (refusal == 0)
      fail<EnvironmentError>("cannot write \"{}\": the folder \"{}\" does not exist; create it", path.string(), folder.string());
    fail<EnvironmentError>("cannot write \"{}\": the folder \"{}\" does not exist, and \"{}\" takes none: {}; {}", path.string(),
                           folder.string(), there.string(), reason(refusal), is_folder ? advice(refusal) : "choose another path");
  }
  fail<EnvironmentError>("cannot write \"{}\": {}; {}", path.string(), reason(error), advice(error));
}

}  // namespace

namespace {

// The error of writing all bytes, or 0.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) return errno;
    if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
  }
  return 0;
}

// Reads [from, to) of the file into `into` + from. The error, or 0; -1 where the file ends before.
int read_part(int fd, std::byte* into, size_t from, size_t to) {
  while (from < to) {
    constexpr size_t kMost = size_t{1} << 30;  // the system reads less than 2 GiB at a time
    const ssize_t n = ::pread(fd, into + from, std::min(to - from, kMost), static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    from += static_cast<size_t>(n);
  }
  return 0;
}

// The same by several threads where that is worth their start.
int read_all(int fd, std::byte* into, size_t size) {
  constexpr size_t kWorthAThread = size_t{16} << 20;
  constexpr size_t kMostThreads = 8;
  const size_t cores = std::max<size_t>(std::thread::hardware_concurrency(), 1);
  const size_t parts = std::clamp<size_t>(size / kWorthAThread, 1, std::min(cores, kMostThreads));
  std::vector<int> errors(parts, 0);
  auto part = [&](size_t i) { errors[i] = read_part(fd, into, size / parts * i, i + 1 == parts ? size : size / parts * (i + 1)); };
  std::vector<std::thread> threads;
  size_t started = 1;
  try {
    for (; started < parts; ++started) threads.emplace_back(part, started);
  } catch (const std::system_error&) {  // no more threads: this one reads what is left
  }
  for (size_t i = started; i < parts; ++i) part(i);
  part(0);
  for (auto& t : threads) t.join();
  auto failed = std::find_if(errors.begin(), errors.end(), [](int e) { return e != 0; });
  return failed == errors.end() ? 0 : *failed;
}

}  // namespace

FileBytes::FileBytes(const std::filesystem::path& path) {
  const Opened file = open_for_reading(path);
  if (file.size == 0) return;
  void* data = ::mmap(nullptr, file.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail<EnvironmentError>("cannot read \"{}\" into memory ({} bytes): {}", path.string(), file.size, reason(errno));
  data_ = data;
  size_ = file.size;
  ::madvise(data_, size_, MADV_HUGEPAGE);  // fewer faults; without it is as right
  const int error = read_all(file.fd.get(), static_cast<std::byte*>(data_), size_);
  if (error == 0) return;
  ::munmap(data_, size_);
  fail<EnvironmentError>("cannot read \"{}\": {}", path.string(),
                         error < 0 ? fmt::format("it had {} bytes and became shorter while it was read", size_) : reason(error));
}

FileBytes::~FileBytes() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

FileBytes::FileBytes(FileBytes&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void require_file(const std::filesystem::path& path) { open_for_reading(path); }

std::string read_head(const std::filesystem::path& path, size_t size) {
  const Opened file = open_for_reading(path);
  std::string head(std::min(size, file.size), '\0');
  const int error = read_part(file.fd.get(), reinterpret_cast<std::byte*>(head.data()), 0, head.size());
  if (error > 0) fail<EnvironmentError>("cannot read \"{}\": {}", path.string(), reason(error));
  return head;
}

std::string read_file(const std::filesystem::path& path) {
  const Opened file = open_for_reading(path);
  std::string bytes(file.size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail<EnvironmentError>("cannot read \"{}\": {}", path.string(), reason(errno));
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) { write_file_atomic(path, std::span(&bytes, 1), false); }

void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> parts, bool sync) {
  require_path(path, "write");
  // A rename would put a file in the place of a device for everybody.
  struct stat there {};  // where a link leads to, too
  TOROID_USER_CHECK(::stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode) || S_ISDIR(there.st_mode),
                    "cannot write \"{}\": it is a device, a pipe or a socket, which a file would take the place of", path.string());
  static std::atomic<unsigned> counter{0};
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  const std::filesystem::path temporary = folder / fmt::format(".toroid-tmp-{}-{}", ::getpid(), counter++);
  Descriptor fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (fd.get() < 0) write_failure(path, errno);
  int error = 0;
  for (std::string_view bytes : parts)
    if (error == 0) error = write_all(fd.get(), bytes);
  if (error == 0 && sync && ::fsync(fd.get()) != 0) error = errno;
  if (const int closing = fd.close(); error == 0) error = closing;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    write_failure(path, error);
  }
}

FileStamp stamp_of(const std::filesystem::path& path) {
  require_path(path, "read");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) read_failure(path, errno);
  require_regular(path, info);
  return {static_cast<uint64_t>(info.st_size), int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec, info.st_dev,
          info.st_ino};
}

int64_t wall_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool is_fresh(const FileStamp& stamp, int64_t read_at_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr int64_t kTicks = 50'000'000;  // ns; several of a clock with parts of seconds
  // A file system that has none counts seconds, and FAT every second one.
  const int64_t tick = stamp.time_ns % kSecond == 0 ? 2 * kSecond + kTicks : kTicks;
  return stamp.time_ns + tick > read_at_ns;
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error)
    fail<EnvironmentError>("cannot create the folder \"{}\": {}; check the permissions of its parent", path.string(), error.message());
}

std::filesystem::path make_temp_dir(std::string_view prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/{}-XXXXXX", base != nullptr && *base != '\0' ? base : "/tmp", prefix);
  if (::mkdtemp(name.data()) == nullptr) fail<EnvironmentError>("cannot create a folder like \"{}\": {}", name, reason(errno));
  return name;
}

std::filesystem::path cache_dir() {
  if (std::string set = get_option(options::kCacheDir); !set.empty()) return set;
  // The XDG rules: a relative path there is to be ignored.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') return std::filesystem::path(xdg) / "toroid";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "toroid";
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/')
    return std::filesystem::path(user->pw_dir) / ".cache" / "toroid";
  fail<EnvironmentError>("no folder for the cache: HOME is not set; set TOROID_CACHE_DIR to a folder that can be written");
}

}  // namespace toroid

#include "dist/tcp/port_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/files.h"
#include "base/text.h"

namespace toroid::distributed::tcp {
namespace {

constexpr std::string_view kFirst = "toroid-rendezvous-1";

}  // namespace

void write_port_file(const std::filesystem::path& path, const PortFile& content) {
  const std::string text = fmt::format("{} {} {} {}\n", kFirst, content.host, content.port, to_hex(content.secret));
  const std::string fresh = fmt::format("{}.{}", path.string(), ::getpid());
  constexpr int kOwnerAlone = 0600;
  ::unlink(fresh.c_str());
  const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerAlone);
  const bool is_written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                          ::rename(fresh.c_str(), path.c_str()) == 0;
  const int why = errno;
  if (file >= 0) ::close(file);
  if (is_written) return;
  ::unlink(fresh.c_str());
  fail<EnvironmentError>("distributed::init: {} cannot be written: {}", path.string(), std::strerror(why));
}

std::optional<PortFile> read_port_file(const std::filesystem::path& path) {
  constexpr size_t kMostBytes = 512;
  std::string text;
  try {
    text = read_head(path, kMostBytes);
  } catch (const Error&) {
    return std::nullopt;  // not there yet
  }
  if (text.empty() || text.back() != '\n') return std::nullopt;
  text.pop_back();
  const auto words = split_list(text, ' ');
  if (words.size() != 4 || words[0] != kFirst) return std::nullopt;
  PortFile out{std::string(words[1]), 0, {}};
  const auto end = std::from_chars(words[2].data(), words[2].data() + words[2].size(), out.port);
  const auto secret = secret_from_hex(words[3]);
  if (end.ec != std::errc() || out.port < 1 || out.port > kMostPort || !secret) return std::nullopt;
  out.secret = *secret;
  return out;
}

}  // namespace toroid::distributed::tcp

// The file by which rank 0 tells processes of its host where it listens.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "dist/tcp/greeting.h"

namespace toroid::distributed::tcp {

struct PortFile {
  std::string host;  // host_id()
  int port = 0;
  Secret secret{};
};

// Replaces the file in one step; its owner alone can read it. EnvironmentError where it cannot be written.
void write_port_file(const std::filesystem::path& path, const PortFile& content);
// None where it is not there, or something else.
std::optional<PortFile> read_port_file(const std::filesystem::path& path);

}  // namespace toroid::distributed::tcp

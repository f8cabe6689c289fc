#include "cli/graph_text.h"

#include <filesystem>

#include "base/check.h"
#include "base/files.h"

namespace toroid::cli {

bool is_graph_text(const std::string& path) {
  constexpr size_t kBlanks = 64;  // in front of it, at most
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const std::string head = read_head(path, kBlanks);
  const size_t at = head.find_first_not_of(" \n\r\t");
  return at != head.npos && std::string_view(head).substr(at).starts_with("graph ");
}

std::unique_ptr<graph::Graph> read_graph(const std::string& path) {
  const std::string text = read_file(path);
  try {
    auto g = graph::parse(text);
    graph::verify(*g, "reading it");
    return g;
  } catch (const UserError& error) {
    fail<UserError>("{}: {}", path, error.what());
  } catch (const InternalError& error) {  // what the caller wrote breaks a rule
    fail<UserError>("{}: {}", path, error.what());
  }
}

}  // namespace toroid::cli

#include "cli/known_cases.h"

#include <sstream>

#include "base/check.h"
#include "base/files.h"

namespace toroid::cli {

KnownCases::KnownCases(const std::filesystem::path& path) : path_(path.string()) {
  std::istringstream in(read_file(path));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    size_t colon = line.find(": ");
    TOROID_USER_CHECK(colon != std::string::npos && colon > 0 && colon + 2 < line.size(), "{}, line {}: expected \"case: reason\"", path_,
                      number);
    bool fresh = reasons_.emplace(line.substr(0, colon), line.substr(colon + 2)).second;
    TOROID_USER_CHECK(fresh, "{}, line {}: {} is listed twice", path_, number, line.substr(0, colon));
  }
}

void KnownCases::settle(const VerifyCase& c, CaseResult& result) const {
  auto it = reasons_.find(c.name);
  if (it == reasons_.end()) return;
  if (result.state == CaseState::Passed) {
    result.state = CaseState::Failed;
    result.lines = {fmt::format("passes, though {} lists it ({}); take it out there", path_, it->second)};
  } else {
    result.state = CaseState::Known;
    result.lines = {it->second};
  }
}

}  // namespace toroid::cli

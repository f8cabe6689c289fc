// A list of cases that do not pass, each with its reason: a file that can only shrink.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "cli/verify_case.h"

namespace toroid::cli {

class KnownCases {
 public:
  KnownCases() = default;
  // Lines "case: reason"; those that begin with # are for people. UserError for a line without a reason, or a case that is named twice.
  explicit KnownCases(const std::filesystem::path& path);

  // Turns the result of a case that is listed into Known, or Failed if it passes.
  void settle(const VerifyCase& c, CaseResult& result) const;

 private:
  std::string path_;
  std::map<std::string, std::string> reasons_;
};

}  // namespace toroid::cli

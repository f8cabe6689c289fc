// What the wrapper of a rank tells `toroid launch`, a line a report, over a named pipe.
#pragma once

#include <climits>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace toroid::cli {

struct LaunchReport {
  enum Kind : char {
    Started = 's',    // number: the process
    Exited = 'x',     // number: its exit code
    Killed = 'k',     // number: the signal
    NoProgram = 'f',  // number: errno of what could not be started
    Out = 'o',        // text: a line of its standard output
    OutPart = 'O',    // text: the begin, or more, of a line that goes on
    Error = 'e',      // the same of its standard error
    ErrorPart = 'E',
  };
  Kind kind;
  int rank;
  int number = 0;
  std::string text = {};  // without an end of line
};

// Longer texts come in parts, as only short writes to a pipe are never mixed with those of others.
constexpr size_t kMostReportText = PIPE_BUF - 32;

std::string to_line(const LaunchReport& r);
// Of a line without its end, which to_line has made.
LaunchReport report_from(std::string_view line);

inline std::filesystem::path report_pipe(const std::filesystem::path& folder) { return folder / "reports"; }

// Runs the program of one rank (argv), and reports to the pipe in the folder until it has ended. The exit code of the wrapper.
int run_rank(const std::filesystem::path& folder, const std::vector<std::string>& argv);

}  // namespace toroid::cli

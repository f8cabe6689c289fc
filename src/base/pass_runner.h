// The runner of tables of passes, whatever they change: graphs or programs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/compile_options.h"
#include "base/log.h"

namespace toroid {

// What one pass of a table did.
struct PassTiming {
  std::string name;
  double milliseconds = 0;
  bool changed = false;
};
// One entry for each pass that ran, in order.
struct PassReport {
  std::vector<PassTiming> passes;
};

// Told what each pass made that changed something.
using PassDump = std::function<void(const std::string& pass, const std::function<std::string()>& text)>;

class PassRunner {
 public:
  // What the passes change.
  struct Subject {
    std::optional<Artifact> artifact;   // its log; nothing is logged without
    std::function<std::string()> text;  // its text as it is now
    // Throws where a rule of its IR is broken. pass: the name of the one that ran last; empty before the first.
    std::function<void(const std::string& pass)> verify;
  };
  // options: disable_passes names passes to leave out; verify_passes has the subject verified before the first pass and after each that
  // changed it. report, dump: may be null and empty. All of them outlive the runner.
  PassRunner(Subject subject, const CompileOptions& options, PassReport* report = nullptr, const PassDump& dump = {});

  // pass: returns whether it changed the subject. The log says of each that ran what it made, or "(unchanged)".
  void run(const std::string& name, const std::function<bool()>& pass);

 private:
  const Subject subject_;
  PassReport* const report_;
  const PassDump dump_;
  const std::string disabled_;
  const bool verifies_;
};

// Whether the option disable_passes names it.
bool is_disabled(std::string_view pass, const CompileOptions& options);

}  // namespace toroid

// What tuning found, as a page for people.
#pragma once

#include <string>
#include <vector>

#include "tune/report/tune_report.h"

namespace toroid::tune {

struct ReportCandidate {
  std::string name;
  Measured measured;    // rounds 0: not timed in this run; a ratio may be known from before
  std::string refusal;  // why it was not timed at all (not equivalent, does not compile, does not take the problem); empty: it was
};

// One choice node.
struct ReportNode {
  std::string label, device;
  std::vector<ReportCandidate> candidates;  // the first is the default
  size_t winner = 0;
  double noise = 0, flip = 0, regret_bound = 0, spent_ms = 0;
  std::string source = "timed";  // where the decision is from: "timed", "database", "lock file", ...
};

// A step of the search for fusions and alternatives, with those that were tried from there.
struct ReportStep {
  std::string text;
  double ratio = 0;     // to the start of the search; 0: not known
  std::string status;   // why it was not followed; empty: it was
  bool chosen = false;  // on the way to the result
  std::vector<ReportStep> next;
};

struct ReportPage {
  std::string title;
  std::vector<ReportNode> nodes;
  std::vector<ReportStep> searches;
  std::vector<std::string> notes;  // what else must be known: a database that could not be used, a budget that ended
};

// What tuning a program on a device has found.
ReportPage page_of(const std::string& title, const TuneReport& report, const std::string& device);

// One HTML page that needs no other file, network or script: a table for each node, fastest first, with bars for times (those beyond four
// times the default's are cut, and look it), a ratio for each candidate (the default's is 1) and reasons for what was left out; and the
// trees of the searches. Equal reports give equal bytes.
std::string to_html(const ReportPage& report);

}  // namespace toroid::tune

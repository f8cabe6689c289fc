// toroid verify: runs models on the inputs stored beside them and compares the outputs with the stored ones.
#include <cstdio>
#include <deque>

#include "base/check.h"
#include "cli/archive.h"
#include "cli/compare.h"
#include "cli/known_cases.h"
#include "cli/progress.h"
#include "cli/runner.h"
#include "cli/verify_case.h"
#include "package/package.h"

namespace toroid::cli {
namespace {

const char* text_of(CaseState s) {
  constexpr const char* kTexts[] = {"passed", "failed", "refused", "known"};
  return kTexts[static_cast<size_t>(s)];
}

class Report {
 public:
  Report(const VerifyArgs& args, size_t total) : args_(args), total_(total), progress_(!args.json) {}

  void add(const VerifyCase& c, const CaseResult& r) {
    ++counts_[static_cast<size_t>(r.state)];
    progress_.say("");
    if (args_.json) {
      std::string lines;
      for (auto& l : r.lines) lines += (lines.empty() ? "" : ",") + json_string(l);
      cases_ += fmt::format("{}{{\"case\":{},\"path\":{},\"state\":\"{}\",\"milliseconds\":{:.1f},\"messages\":[{}]}}",
                            cases_.empty() ? "" : ",\n", json_string(c.name), json_string(c.model.string()), text_of(r.state),
                            r.milliseconds, lines);
    } else {
      if (args_.verbose && r.state == CaseState::Passed) fmt::print("{}: passed ({:.0f} ms)\n", c.name, r.milliseconds);
      const char* kind = r.state == CaseState::Refused ? "refused: " : r.state == CaseState::Known ? "known: " : "";
      if (args_.verbose || r.state != CaseState::Known)
        for (auto& l : r.lines) fmt::print("{}: {}{}\n", c.name, kind, l);
      std::fflush(stdout);
    }
    progress_.say(fmt::format("{} of {}", counts_[0] + counts_[1] + counts_[2] + counts_[3], total_));
  }

  int finish() {
    progress_.say("");
    if (args_.json)
      fmt::print("{{\"passed\":{},\"failed\":{},\"refused\":{},\"known\":{},\"cases\":[\n{}\n]}}\n", counts_[0], counts_[1], counts_[2],
                 counts_[3], cases_);
    else
      fmt::print("{} passed, {} failed, {} refused{}\n", counts_[0], counts_[1], counts_[2],
                 args_.known.empty() ? "" : fmt::format(", {} are known not to pass", counts_[3]));
    return counts_[1] || counts_[2] ? kMismatch : kOk;
  }

 private:
  const VerifyArgs& args_;
  size_t total_, counts_[4] = {};
  Progress progress_;
  std::string cases_;
};

}  // namespace

int verify(const VerifyArgs& args) {
  check_tolerance(args.tolerance.value_or(kUsualTolerance));
  backend_from_name(args.backend);  // a wrong name is the caller's error, not that of each case
  const Device device = device_from_name(args.device);
  if (args.paths.size() == 1 && std::filesystem::is_regular_file(args.paths[0]) && package::Package::is_package(args.paths[0]))
    return verify_package(args.paths[0], args.weights_folder, args.json);
  std::deque<TempFolder> unpacked;
  std::vector<VerifyCase> cases;
  for (auto& path : args.paths) {
    std::filesystem::path folder = path;
    if (path.ends_with(".tar.zst")) folder = unpacked.emplace_back(unpack(path)).path();
    for (auto& c : find_cases(folder)) cases.push_back(std::move(c));
  }
  const KnownCases known = args.known.empty() ? KnownCases() : KnownCases(args.known);
  Report report(args, cases.size());
  auto add = [&](const VerifyCase& c, CaseResult result) {
    known.settle(c, result);
    report.add(c, result);
  };
  if (!args.isolate && args.jobs <= 1 && args.timeout <= 0) {
    synchronize(device);  // a GPU that is not there is not the fault of each case; processes of their own must open it themselves
    for (auto& c : cases) add(c, run_case(c, args));
    return report.finish();
  }
  std::deque<std::pair<const VerifyCase*, IsolatedCase>> running;
  for (size_t next = 0; next < cases.size() || !running.empty();) {
    while (next < cases.size() && running.size() < static_cast<size_t>(std::max(args.jobs, 1))) {
      running.emplace_back(&cases[next], start_isolated(cases[next], args));
      ++next;
    }
    auto [c, started] = running.front();
    running.pop_front();
    add(*c, finish_isolated(started));
  }
  return report.finish();
}

}  // namespace toroid::cli

#include "base/pass_runner.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/stopwatch.h"
#include "base/text.h"

namespace toroid {
namespace {

bool is_listed(std::string_view pass, std::string_view list) {
  const auto names = split_list(list);
  return std::find(names.begin(), names.end(), pass) != names.end();
}

}  // namespace

PassRunner::PassRunner(Subject subject, const CompileOptions& options, PassReport* report, const PassDump& dump)
    : subject_(std::move(subject)),
      report_(report),
      dump_(dump),
      disabled_(options.get(options::kDisablePasses)),
      verifies_(options.get(options::kVerifyPasses)) {
  if (verifies_) subject_.verify("");
}

void PassRunner::run(const std::string& name, const std::function<bool()>& pass) {
  if (is_listed(name, disabled_)) return;
  const Stopwatch watch;
  const bool changed = pass();
  const double took_ms = watch.ms();
  if (report_) report_->passes.push_back({name, took_ms, changed});
  if (subject_.artifact && log_enabled(*subject_.artifact))
    log(*subject_.artifact, fmt::format("after {}{}", name, changed ? ":\n" + subject_.text() : " (unchanged)"));
  if (changed && dump_) dump_(name, subject_.text);
  if (changed && verifies_) subject_.verify(name);
}

bool is_disabled(std::string_view pass, const CompileOptions& options) { return is_listed(pass, options.get(options::kDisablePasses)); }

}  // namespace toroid

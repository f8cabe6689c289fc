// toroid tune: what computes each part of a model fastest here, and what the model gains by it.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/files.h"
#include "base/options.h"
#include "cli/ablation.h"
#include "cli/bench_subject.h"
#include "cli/progress.h"
#include "cli/timing.h"
#include "cli/tune_report.h"
#include "compile/model.h"
#include "tune/report.h"

namespace toroid::cli {
namespace {

using compiler::CompiledModel;

// "3 of 12 parts decided, 120 of 400 choices compiled, 5.2 s of 60.0 s".
std::string progress_text(const tune::TuneProgress& p) {
  return fmt::format("{} of {} parts decided, {} of {} choices compiled, {:.1f} s{}", p.decided, p.regions, p.compiled, p.choices,
                     p.spent_ms / 1e3, p.budget_ms > 0 ? fmt::format(" of {:.1f} s", p.budget_ms / 1e3) : "");
}

// One choice that was tried, with those that fuse one neighbour more.
tune::ReportStep step_of(const tune::RegionReport& region, size_t row) {
  const tune::ChoiceRow& r = region.rows[row];
  tune::ReportStep s{r.name, r.measured.ratio, r.measured.status, row == region.winner, {}};
  for (size_t i = 0; i < region.rows.size(); ++i) {
    const std::string& name = region.rows[i].name;
    if (i != row && name.starts_with(r.name + " + ") && name.find(" + ", r.name.size() + 3) == std::string::npos)
      s.next.push_back(step_of(region, i));
  }
  return s;
}

tune::ReportPage page_of(const std::string& title, const tune::TuneReport& report, const std::string& device) {
  tune::ReportPage page;
  page.title = title;
  for (auto& r : report.regions) {
    tune::ReportNode n{r.label, device, {}, r.winner, r.noise, r.flip, r.regret, r.regret, r.spent_ms, r.source};
    tune::ReportStep search{r.label, 1, "", true, {}};
    for (size_t i = 0; i < r.rows.size(); ++i) {
      n.candidates.push_back({r.rows[i].name, r.rows[i].measured, r.rows[i].measured.failed ? r.rows[i].measured.status : ""});
      if (r.rows[i].name.find(" + ") == std::string::npos) search.next.push_back(step_of(r, i));
    }
    page.nodes.push_back(std::move(n));
    if (r.fused > 0) page.searches.push_back(std::move(search));
  }
  if (!report.whole.empty()) page.notes.push_back("the whole program: " + report.whole);
  if (report.out_of_budget) page.notes.push_back("the budget ended before all was decided");
  if (!report.problem.empty()) page.notes.push_back(report.problem);
  return page;
}

int check_lock(const TuneArgs& args, const BenchSubject& subject, ModelOptions options) {
  options.options["tune_lock"] = args.check;
  options.options["tune_lock_check"] = "1";
  const CompiledModel model = CompiledModel::compile(subject.graph(), options);
  const tune::LockFile file = tune::LockFile::read(args.check);
  const std::vector<std::string> devices = file.devices(), drift = file.drift(model.report().tuning.now);
  if (args.subject.json) {
    std::string lines;
    for (auto& line : drift) lines += (lines.empty() ? "" : ",") + json_string(line);
    fmt::print("{{\"holds\":{},\"drift\":[{}]}}\n", drift.empty(), lines);
    return drift.empty() ? kOk : kMismatch;
  }
  for (auto& line : drift) fmt::print("{}\n", line);
  fmt::print("{}: {}\n", args.check,
             drift.empty() ? "holds" : fmt::format("{} decisions do not hold; it decides for {}", drift.size(), fmt::join(devices, "; ")));
  return drift.empty() ? kOk : kMismatch;
}

ModelOptions options_of(const TuneArgs& args, const Device& device) {
  std::map<std::string, std::string> by_name;
  if (args.budget_ms > 0) by_name["tune_budget_ms"] = std::to_string(args.budget_ms);
  if (args.exhaustive) by_name["tune_all_tried"] = "1000000";
  if (args.isolated) by_name["tune_isolated"] = "1";
  if (args.strict) by_name["tune_strict"] = "1";
  if (args.descent && !args.ablation) by_name["coordinate_descent_tuning"] = "1";
  if (!args.choices.empty()) by_name["tune_choices"] = args.choices;
  if (!args.backends.empty()) by_name["tune_backends"] = args.backends;
  return {.device = device, .mode = Mode::MaxAutotune, .options = by_name};
}

}  // namespace

int tune(const TuneArgs& args) {
  if (args.subject.threads > 0) set_option("threads", std::to_string(args.subject.threads));
  Progress progress(!args.subject.json);
  const Device device = device_from_name(args.subject.device);
  const ModelOptions options = options_of(args, device);
  progress.say("building the model");
  BenchSubject subject = make_subject(args.subject);
  for (Tensor& t : subject.inputs) t = t.to(device);
  if (args.ablation) {
    progress.say("");
    fmt::print("{}\n", subject.description);
    print_ablation(subject, options, std::max(1, args.rounds));
    return kOk;
  }
  if (!args.check.empty()) return check_lock(args, subject, options);
  progress.say("compiling and timing the choices");
  CompiledModel tuned =
      CompiledModel::compile(subject.graph(), options, [&](const tune::TuneProgress& p) { progress.say(progress_text(p)); });
  progress.say("");
  const tune::TuneReport& report = tuned.report().tuning;
  const TuneResult found = tune::result_of(report);
  if (!args.choice.empty()) expect_part(report, args.choice, args.subject.model);
  if (!args.subject.json) fmt::print("{}\n{}", subject.description, tune::to_string(report, args.choice, static_cast<size_t>(args.rows)));
  if (!report.problem.empty()) fmt::print(stderr, "toroid tune: {}\n", report.problem);
  if (!args.lock.empty()) tune::write_lock(args.lock, report.decided);
  if (!args.html.empty()) write_file_atomic(args.html, tune::to_html(page_of(subject.description, report, args.subject.device)));
  const auto print_json = [&](const tune::Verdict* compared) {
    fmt::print("{}", tune_json(subject.description, found, compared));
    return kOk;
  };
  if (args.rounds == 0) return args.subject.json ? print_json(nullptr) : kOk;
  progress.say("comparing with the untuned model");
  std::vector<CompiledModel> models;
  const auto untuned = [&] { return CompiledModel::compile(subject.graph(), {.device = device, .mode = Mode::ReduceOverhead}); };
  models.push_back(untuned());
  models.push_back(std::move(tuned));
  models.push_back(untuned());  // how far equal models differ: their memory and recordings are others
  const tune::Verdict v = compare_calls(models, subject.inputs, device, args.rounds);
  progress.say("");
  if (args.subject.json) return print_json(&v);
  const tune::Measured &before = v.candidates[0], &after = v.candidates[1];
  fmt::print(
      "whole model: {:.3f} ms tuned, {:.3f} ms not; ratio {:.3f} (between {:.3f} and {:.3f}), {} rounds; another one that is not tuned: "
      "ratio {:.3f} (between {:.3f} and {:.3f})\n",
      after.median_ns / 1e6, before.median_ns / 1e6, after.ratio, after.ratio_low, after.ratio_high, after.rounds, v.candidates[2].ratio,
      v.candidates[2].ratio_low, v.candidates[2].ratio_high);
  return kOk;
}

}  // namespace toroid::cli

// toroid tune: what computes each part of a model fastest here, and what the model gains by it.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/files.h"
#include "base/options.h"
#include "cli/ablation.h"
#include "cli/bench_subject.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/timing.h"
#include "cli/tune_report.h"
#include "front/compile_model.h"
#include "tune/report/report.h"

namespace toroid::cli {
namespace {

using compiler::CompiledModel;

// "3 of 12 parts decided, 120 of 400 choices compiled, 5.2 s of 60.0 s".
std::string progress_text(const tune::TuneProgress& p) {
  return fmt::format("{} of {} parts decided, {} of {} choices compiled, {:.1f} s{}", p.decided, p.regions, p.compiled, p.choices,
                     p.spent_ms / 1e3, p.budget_ms > 0 ? fmt::format(" of {:.1f} s", p.budget_ms / 1e3) : "");
}

// UserError where nothing can be tuned, as nobody says how large open sizes usually are.
void expect_usual_sizes(const tune::TuneReport& report, const std::string& model) {
  constexpr const char* kRemedy = "give the tensors of a usual call by --inputs FILE (safetensors)";
  const tune::UnseenSizes unseen = tune::unseen_sizes(report);
  if (unseen.nothing_tuned) fail<UserError>("{}: nothing was tuned: {}; {}", model, unseen.why, kRemedy);
  if (unseen.parts > 0)
    fmt::print(stderr, "toroid tune: {} of {} parts are not tuned: {}; {}\n", unseen.parts, report.regions.size(), unseen.why, kRemedy);
}

// Says which parts a lock file lacks.
void tell_not_reached(const tune::TuneReport& report, const std::string& lock) {
  const auto count = std::count_if(report.regions.begin(), report.regions.end(), [](auto& r) { return r.source == tune::kNotReached; });
  if (count > 0 && !lock.empty())
    fmt::print(stderr,
               "toroid tune: {} has the default for {} of {} parts, which the budget did not reach; the same call with a larger --budget "
               "goes on from here\n",
               lock, count, report.regions.size());
}

int check_lock(const TuneArgs& args, const BenchSubject& subject, ModelOptions options) {
  options.options["tune_lock"] = args.check;
  options.options["tune_lock_check"] = "1";
  const CompiledModel model = front::compile_model(subject.graph(), options);
  expect_usual_sizes(model.report().tuning, args.subject.model);
  const tune::LockFile file = tune::LockFile::read(args.check);
  const std::vector<std::string> devices = file.devices(), drift = file.drift(model.report().tuning.now);
  if (args.subject.json) {
    std::string lines;
    for (auto& line : drift) lines += (lines.empty() ? "" : ",") + json_string(line);
    fmt::print("{{\"holds\":{},\"untimed\":{},\"drift\":[{}]}}\n", drift.empty(), file.untimed(), lines);
    return drift.empty() ? kOk : kMismatch;
  }
  for (auto& line : drift) fmt::print("{}\n", line);
  if (file.untimed() > 0)
    fmt::print("{}: {} of {} decisions are defaults that were not timed, as the budget ended before\n", args.check, file.untimed(),
               file.size());
  fmt::print("{}: {}\n", args.check,
             drift.empty() ? "holds"
                           : fmt::format("{} decisions do not hold; it decides {}", drift.size(),
                                         devices.empty() ? "nothing" : fmt::format("for {}", fmt::join(devices, "; "))));
  return drift.empty() ? kOk : kMismatch;
}

// What is kept of a tuning that is interrupted. done: the files that were asked for are written.
std::string kept_text(const TuneArgs& args, const ModelOptions& options, bool done) {
  std::string files;
  for (auto* file : {&args.lock, &args.html})
    if (!file->empty()) files += fmt::format("; {} is{} written", *file, done ? "" : " not");
  if (front::setup_of(options).options.get(options::kTuneDatabase) == "none")
    return "nothing that was timed is kept, as the option tune_database is \"none\"" + files;
  return "the tuning database keeps the parts that were decided, and the same call goes on from there" + files;
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
  OnInterrupt interrupt(kept_text(args, options, false));
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
      front::compile_model(subject.graph(), options, [&](const tune::TuneProgress& p) { progress.say(progress_text(p)); });
  progress.say("");
  const tune::TuneReport& report = tuned.report().tuning;
  const TuneResult found = tune::result_of(report);
  if (!args.choice.empty()) expect_part(report, args.choice, args.subject.model);
  if (!args.subject.json) fmt::print("{}\n{}", subject.description, tune::to_string(report, args.choice, static_cast<size_t>(args.rows)));
  if (!report.problem.empty()) fmt::print(stderr, "toroid tune: {}\n", report.problem);
  expect_usual_sizes(report, args.subject.model);
  tell_not_reached(report, args.lock);
  if (!args.lock.empty()) tune::write_lock(args.lock, report.decided);
  if (!args.html.empty()) write_file_atomic(args.html, tune::to_html(tune::page_of(subject.description, report, args.subject.device)));
  interrupt.say(kept_text(args, options, true));
  const auto print_json = [&](const tune::Verdict* compared) {
    fmt::print("{}", tune_json(subject.description, found, compared));
    return kOk;
  };
  if (args.rounds == 0) return args.subject.json ? print_json(nullptr) : kOk;
  progress.say("comparing with the untuned model");
  std::vector<CompiledModel> models;
  const auto untuned = [&] { return front::compile_model(subject.graph(), {.device = device, .mode = Mode::ReduceOverhead}); };
  models.push_back(untuned());
  models.push_back(std::move(tuned));
  models.push_back(untuned());  // how far equal models differ: their memory and recordings are others
  const tune::Verdict v = compare_calls(models, subject.inputs, device, args.rounds);
  progress.say("");
  if (args.subject.json) return print_json(&v);
  const tune::Measured &before = v.candidates[0], &after = v.candidates[1];
  fmt::print(
      "whole model: {:.3f} ms tuned, {:.3f} ms not; ratio {:.3f} ({}), {} rounds; another one that is not tuned: ratio {:.3f} ({})\n",
      after.median_ns / 1e6, before.median_ns / 1e6, after.ratio, tune::interval_text(after), after.rounds, v.candidates[2].ratio,
      tune::interval_text(v.candidates[2]));
  return kOk;
}

}  // namespace toroid::cli

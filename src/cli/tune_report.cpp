#include "cli/tune_report.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"
#include "cli/commands.h"

namespace toroid::cli {
namespace {

// Of numbers that may be infinite, which JSON has no word for.
std::string number(double v) { return std::isfinite(v) ? fmt::format("{:.6g}", v) : "null"; }

// Of numbers that are 0 where nothing is known.
std::string known(double v) { return v > 0 ? number(v) : "null"; }

std::string choice_json(const TunedChoice& c, size_t row) {
  return fmt::format(
      "{{\"row\":{},\"name\":{},\"kind\":{},\"text\":{},\"status\":{},\"failed\":{},\"us\":{},\"ratio\":{},\"ratio_low\":{},\"ratio_high\":"
      "{},"
      "\"compile_ms\":{}}}",
      row, json_string(c.name), json_string(c.kind), json_string(c.text), json_string(c.status), c.failed, known(c.microseconds),
      known(c.ratio), known(c.ratio_low), known(c.ratio_high), number(c.compile_ms));
}

std::string part_json(const TunedPart& p) {
  std::string choices;
  for (size_t i = 0; i < p.choices.size(); ++i) choices += (i == 0 ? "\n  " : ",\n  ") + choice_json(p.choices[i], i + 1);
  return fmt::format(
      "{{\"label\":{},\"key\":{},\"places\":{},\"source\":{},\"drift\":{},\"chosen\":{},\"noise\":{},\"flip\":{},\"regret\":{},"
      "\"choices\":[{}]}}",
      json_string(p.label), json_string(p.key), p.places, json_string(p.source), json_string(p.drift), json_string(p.chosen),
      number(p.noise), number(p.flip), number(p.regret), choices);
}

// One end of the ratio's interval.
std::string end_of(const tune::Measured& m, double end) { return tune::has_interval(m) ? number(end) : "null"; }

std::string compared_json(const tune::Verdict& v) {
  const tune::Measured &before = v.candidates[0], &after = v.candidates[1], &again = v.candidates[2];
  return fmt::format(
      "{{\"untuned_ms\":{},\"tuned_ms\":{},\"ratio\":{},\"ratio_low\":{},\"ratio_high\":{},\"rounds\":{},\"again_ratio\":{}}}",
      known(before.median_ns / 1e6), known(after.median_ns / 1e6), known(after.ratio), end_of(after, after.ratio_low),
      end_of(after, after.ratio_high), after.rounds, known(again.ratio));
}

}  // namespace

void expect_part(const tune::TuneReport& report, const std::string& part, const std::string& model) {
  std::vector<std::string_view> labels;
  std::string list;
  for (auto& r : report.regions) {
    if (r.label.find(part) != std::string::npos) return;
    labels.push_back(r.label);
    list += (list.empty() ? "" : "; ") + r.label;
  }
  if (labels.empty()) fail<UserError>("--choice: {} has no part with a choice", model);
  fail<UserError>("--choice: no part's name has \"{}\" in it{}; those with choices are {}", part, did_you_mean(part, labels), list);
}

std::string tune_json(const std::string& model, const TuneResult& found, const tune::Verdict* compared) {
  std::string parts;
  for (auto& p : found.parts) parts += (parts.empty() ? "\n " : ",\n ") + part_json(p);
  return fmt::format(
      "{{\"model\":{},\"parts\":[{}],\n\"whole\":{},\"problem\":{},\"out_of_budget\":{},\"compile_ms\":{},\"timing_ms\":{},\"total_ms\":{},"
      "\"lock\":{},\"compared\":{}}}\n",
      json_string(model), parts, json_string(found.whole), json_string(found.problem), found.out_of_budget, number(found.compile_ms),
      number(found.timing_ms), number(found.total_ms), json_string(found.lock), compared ? compared_json(*compared) : "null");
}

}  // namespace toroid::cli

// toroid why: what the compiler did with a model, and what it did not do, with reasons.
#include <fmt/format.h>

#include <algorithm>

#include "cli/bench_subject.h"
#include "cli/graph_text.h"
#include "cli/tune_report.h"
#include "exec/record/coverage.h"
#include "exec/steps.h"
#include "front/compile_model.h"
#include "tune/report/feedback.h"

namespace toroid::cli {
namespace {

// What is said, as lines or as the members of an object.
class Said {
 public:
  explicit Said(bool json) : json_(json) {}
  // A line of the text.
  template <class... A>
  void line(fmt::format_string<A...> f, A&&... a) const {
    if (!json_) fmt::print(f, std::forward<A>(a)...);
  }
  // A member of the object; `value` is JSON.
  void member(const char* name, const std::string& value) { members(fmt::format("\"{}\":{}", name, value)); }
  void members(const std::string& list) { members_ += (members_.empty() ? "" : ",\n ") + list; }
  // An array of what make(item) gives of each.
  template <class List, class F>
  void array(const char* name, const List& list, F&& make) {
    std::string out;
    for (auto& item : list) out += (out.empty() ? "" : ",") + make(item);
    member(name, "[" + out + "]");
  }
  void finish() const {
    if (json_) fmt::print("{{{}}}\n", members_);
  }

 private:
  const bool json_;
  std::string members_;
};

// The steps of each block that control flow runs, blocks within blocks further to the right. Returns them as JSON.
std::string say_blocks(const Said& said, const exec::Plan& plan, const std::string& indent) {
  std::string out;
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) {
      std::string steps, names;
      for (auto& s : block.plan->steps) {
        steps += (steps.empty() ? "" : ", ") + exec::name_of(s);
        names += (names.empty() ? "" : ",") + json_string(exec::name_of(s));
      }
      said.line("{}block \"{}\" of {}: {}\n", indent, block.name, exec::name_of(step), steps.empty() ? "nothing to run" : steps);
      const std::string within = say_blocks(said, *block.plan, indent + "  ");
      out += fmt::format("{}{{\"name\":{},\"of\":{},\"steps\":[{}],\"blocks\":{}}}", out.empty() ? "" : ",", json_string(block.name),
                         json_string(exec::name_of(step)), names, within);
    }
  return "[" + out + "]";
}

// What mode reduce-overhead would record, of blocks of control flow too. Adds to `rows` a JSON object for each plan.
void say_coverage(const Said& said, const exec::Plan& plan, std::vector<std::string>& rows) {
  const exec::Coverage c = exec::cover(plan, 1);
  said.line("recorded by mode reduce-overhead: {} of {} steps of {}, in {} parts\n", c.steps_recorded, c.steps, plan.name, c.parts);
  std::string skips;
  for (auto& s : c.skips) {
    said.line("not recorded: {}\n", exec::to_string(s));
    skips += (skips.empty() ? "" : ",") + json_string(exec::to_string(s));
  }
  rows.push_back(fmt::format("{{\"plan\":{},\"steps\":{},\"steps_recorded\":{},\"parts\":{},\"skips\":[{}]}}", json_string(plan.name),
                             c.steps, c.steps_recorded, c.parts, skips));
  for (auto& step : plan.steps)
    for (auto& block : exec::blocks_of(step)) say_coverage(said, *block.plan, rows);
}

// Timed now, unless that was done before.
int why_choice(const WhyArgs& args) {
  const Device device = device_from_name(args.subject.device);
  const auto model = front::compile_model(make_graph(args.subject), {.device = device, .mode = Mode::MaxAutotune});
  const auto& tuning = model.report().tuning;
  expect_part(tuning, args.choice, args.subject.model);
  if (args.subject.json) {
    TuneResult found = tune::result_of(tuning);
    std::erase_if(found.parts, [&](auto& part) { return part.label.find(args.choice) == part.label.npos; });
    fmt::print("{}", tune_json(args.subject.model, found, nullptr));
    return kOk;
  }
  fmt::print("{}", tune::to_string(tuning, args.choice));
  for (auto& line : model.report().schedule.choices)
    if (line.find(args.choice) != line.npos) fmt::print("{}\n", line);
  return kOk;
}

}  // namespace

int why(const WhyArgs& args) {
  if (!args.choice.empty()) return why_choice(args);
  const ModelOptions options{.device = device_from_name(args.subject.device)};
  Said said(args.subject.json);
  auto graph = make_graph(args.subject);
  const std::string cached = is_built_in(args.subject.model)     ? "built-in models are not kept"
                             : is_graph_text(args.subject.model) ? "graphs in text are not kept"
                                                                 : front::why_cached(args.subject.model, options);
  said.line("cache: {}\n", cached);
  said.member("cache", json_string(cached));
  auto model = front::compile_model(std::move(graph), options);
  const auto& report = model.report();
  std::vector<PassTiming> passes;
  for (auto* list : {&report.passes, &report.schedule.passes}) passes.insert(passes.end(), list->passes.begin(), list->passes.end());
  for (auto& p : passes) said.line("pass {:<28} {:>8.2f} ms{}\n", p.name, p.milliseconds, p.changed ? "" : ", changed nothing");
  said.line("{}\n", compiler::time_text(report));
  said.line("{} graph nodes, {} loops before fusion, {} kernels, {} library calls, {} kernels compiled (the others were cached)\n",
            report.graph_nodes, report.kernels_unfused, report.kernels, report.host_calls, report.kernels_compiled);
  const exec::Plan& plan = model.executable().plan();
  said.member("blocks", say_blocks(said, plan, ""));
  std::vector<std::string> coverage;
  say_coverage(said, plan, coverage);
  said.array("recorded", coverage, [](auto& row) { return row; });
  const auto& memory = report.memory;
  said.line("memory beside the inputs: {:.3f} MB of temporaries, most of them at {}; {:.3f} MB of outputs\n",
            static_cast<double>(memory.temporaries) / 1e6, memory.fullest.empty() ? "no node" : memory.fullest,
            static_cast<double>(memory.outputs) / 1e6);
  if (!report.layers.empty()) said.line("layers: {}\n", report.layers);
  if (!report.partition.empty()) said.line("partition: {}", report.partition);
  for (auto& line : report.schedule.choices) said.line("chosen: {}\n", line);
  for (auto& m : report.schedule.fusion.misses) said.line("not fused: {} and {}: {}\n", m.first, m.second, m.reason);
  for (auto& u : report.schedule.fusion.unsplit) said.line("not split: {}: {}\n", u.node, u.reason);
  said.members(compiler::json_members(report));
  said.finish();
  return kOk;
}

}  // namespace toroid::cli

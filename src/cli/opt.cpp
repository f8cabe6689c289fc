// toroid opt: passes on a graph or on a lowered program in its text form; and the tables of all passes.
#include <fmt/core.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/graph_text.h"
#include "graph/pass.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::cli {
namespace {

// A table of passes as it is written: lines below a title, or objects of one array.
class PassList {
 public:
  explicit PassList(bool json) : json_(json) {}
  void title(std::string text) {
    title_ = std::move(text);
    if (!json_) fmt::print("{}\n", title_);
  }
  void row(const char* name, const std::string& when, const char* doc) {
    if (!json_) return fmt::print("  {:<27} {:<23} {}\n", name, when, doc);
    rows_ += fmt::format("{}{{\"table\":{},\"name\":{},\"when\":{},\"doc\":{}}}", rows_.empty() ? "" : ",\n ", json_string(title_),
                         json_string(name), json_string(when), json_string(doc));
  }
  void finish() const {
    if (json_) fmt::print("[{}]\n", rows_);
  }

 private:
  const bool json_;
  std::string title_, rows_;
};

int list_passes(bool json) {
  PassList list(json);
  list.title("graphs");
  for (auto& row : graph::all_passes()) list.row(row.name, graph::conditions_of(row), row.doc);
  for (auto& table : backend::pass_tables()) {
    if (table.passes.empty()) continue;
    list.title(fmt::format("programs for {}, {}", table.backend, table.to == program::Stage::Lowered ? "before tuning" : "schedule"));
    for (auto& pass : table.passes) list.row(pass.name, target::conditions_of(pass), pass.doc);
  }
  list.finish();
  return kOk;
}

int print_text(const std::string& text, bool json) {
  if (json)
    fmt::print("{{\"text\":{}}}\n", json_string(text));
  else
    fmt::print("{}", text);
  return kOk;
}

// Of those that schedule programs for the CPU.
const target::ProgramPass& find_program_pass(std::string_view name, const target::Target& target) {
  std::string all;
  for (auto& pass : target.passes(program::Stage::Scheduled)) {
    if (pass.name == name) return pass;
    if (all.find(pass.name) == std::string::npos) all += (all.empty() ? "" : ", ") + std::string(pass.name);
  }
  fail<UserError>("there is no pass \"{}\" over programs; expected some of {}", name, all);
}

// error: what the caller wrote breaks a rule.
void verify(const program::Program& p, const std::string& after) {
  try {
    program::verify(p, program::Stage::Lowered, after);
  } catch (const InternalError& error) {
    fail<UserError>("{}", error.what());
  }
}

int opt_program(const std::string& text, const std::vector<std::string_view>& passes, bool pipeline, bool json) {
  CompileOptions options = CompileOptions::of_process();
  options.set("max_threads", "2");  // wherever this runs
  const auto target = backend::make_backend(Device::cpu(), options);
  target::ScheduleReport report;
  target::PassContext context{*target, options, report};
  program::Program p = program::parse(text);
  verify(p, "reading it");
  for (auto to : {program::Stage::Lowered, program::Stage::Scheduled})
    if (pipeline) p = target::run_passes(std::move(p), *target, to, options, &report);
  for (auto name : passes) {
    find_program_pass(name, *target).run(p, context);
    program::verify(p, program::Stage::Lowered, std::string(name));
  }
  return print_text(program::to_string(p), json);
}

}  // namespace

int opt(const OptArgs& args) {
  if (args.list) return list_passes(args.json);
  TOROID_USER_CHECK(!args.graph.empty(), "opt: the text of a graph or a program is required, or --list");
  const std::string text = read_file(args.graph);
  if (text.starts_with("program")) return opt_program(text, split_list(args.passes), args.pipeline, args.json);
  auto g = read_graph(args.graph);
  const CompileOptions options = CompileOptions::of_process();
  graph::Purpose purpose = graph::kInference;
  purpose.padding_apart = !options.get(options::kFoldPadding);
  purpose.all_probabilities = !options.get(options::kFoldProbabilities);
  std::vector<graph::PassRow> rows;
  if (args.pipeline) rows = graph::pipeline(purpose);
  for (auto name : split_list(args.passes)) rows.push_back(graph::find_pass(name));
  g = graph::run_passes(std::move(g), rows, nullptr, options);
  graph::verify(*g, "the end of the passes");
  return print_text(graph::to_string(*g), args.json);
}

}  // namespace toroid::cli

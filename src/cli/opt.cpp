// toroid opt: passes on a graph or on a lowered program in its text form; and the tables of all passes.
#include <fmt/core.h>

#include "backend/backend.h"
#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "cli/commands.h"
#include "graph/pass.h"
#include "program/parse.h"
#include "program/verify.h"

namespace toroid::cli {
namespace {

void print_row(const char* name, const std::string& when, const char* doc) { fmt::print("  {:<27} {:<23} {}\n", name, when, doc); }

int list_passes() {
  fmt::print("graphs\n");
  for (auto& row : graph::all_passes()) print_row(row.name, graph::conditions_of(row), row.doc);
  for (auto& table : backend::pass_tables()) {
    if (table.passes.empty()) continue;
    fmt::print("programs for {}, {}\n", table.backend, table.to == program::Stage::Lowered ? "before tuning" : "schedule");
    for (auto& pass : table.passes) print_row(pass.name, target::conditions_of(pass), pass.doc);
  }
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

int opt_program(const std::string& text, const std::vector<std::string_view>& passes) {
  CompileOptions options = CompileOptions::of_process();
  options.set("max_threads", "2");  // wherever this runs
  const auto target = backend::make_backend(Device::cpu(), options);
  target::ScheduleReport report;
  target::PassContext context{*target, options, report};
  program::Program p = program::parse(text);
  verify(p, "reading it");
  for (auto name : passes) {
    find_program_pass(name, *target).run(p, context);
    program::verify(p, program::Stage::Lowered, std::string(name));
  }
  fmt::print("{}", program::to_string(p));
  return kOk;
}

}  // namespace

int opt(const OptArgs& args) {
  if (args.list) return list_passes();
  TOROID_USER_CHECK(!args.graph.empty(), "opt: the text of a graph or a program is required, or --list");
  const std::string text = read_file(args.graph);
  if (text.starts_with("program")) return opt_program(text, split_list(args.passes));
  auto g = graph::parse(text);
  std::vector<graph::PassRow> rows;
  for (auto name : split_list(args.passes)) rows.push_back(graph::find_pass(name));
  g = graph::run_passes(std::move(g), rows);
  graph::verify(*g, "the end of the passes");
  fmt::print("{}", graph::to_string(*g));
  return kOk;
}

}  // namespace toroid::cli

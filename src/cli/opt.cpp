// toroid opt: passes on a graph or on a lowered program in its text form.
#include <fmt/core.h>

#include "base/check.h"
#include "base/files.h"
#include "base/text.h"
#include "choice/dead_code.h"
#include "choice/inline.h"
#include "choice/parse.h"
#include "choice/verify.h"
#include "cli/commands.h"
#include "graph/pass.h"
#include "sched/absorb.h"
#include "sched/share.h"
#include "sched/split.h"

namespace toroid::cli {
namespace {

using choice::Program;

constexpr int kThreads = 8;  // that kernels are cut for, wherever this runs

struct ProgramPass {
  std::string_view name;
  Program (*run)(Program);
};

constexpr ProgramPass kProgramPasses[] = {
    {"dead_code",
     [](Program p) {
       choice::eliminate_dead(p);
       return p;
     }},
    {"decide",
     [](Program p) {
       std::vector<std::string> lines;
       return choice::inline_defaults(std::move(p), lines);
     }},
    {"fuse", [](Program p) { return sched::fuse(std::move(p)); }},
    {"absorb", [](Program p) { return sched::absorb_producers(std::move(p), sched::producers_on_threads(kThreads)); }},
    {"split", [](Program p) { return sched::split_reductions(std::move(p), kThreads); }},
    {"share", [](Program p) { return sched::share_launches(std::move(p)); }},
};

const ProgramPass& find_program_pass(std::string_view name) {
  std::string all;
  for (auto& pass : kProgramPasses) {
    if (pass.name == name) return pass;
    all += (all.empty() ? "" : ", ") + std::string(pass.name);
  }
  fail<UserError>("there is no pass \"{}\" over programs; expected some of {}", name, all);
}

Program checked(Program p) {
  try {
    choice::verify(p, choice::Stage::Lowered, "reading it");
  } catch (const InternalError& e) {
    fail<UserError>("{}", e.what());  // of what the caller wrote
  }
  return p;
}

}  // namespace

int opt(const OptArgs& args) {
  const std::string text = read_file(args.graph);
  if (text.starts_with("program")) {
    Program p = checked(choice::parse(text));
    for (auto name : split_list(args.passes)) {
      p = find_program_pass(name).run(std::move(p));
      choice::verify(p, choice::Stage::Lowered, std::string(name));
    }
    fmt::print("{}", choice::to_string(p));
    return kOk;
  }
  auto g = graph::parse(text);
  std::vector<graph::PassRow> rows;
  for (auto name : split_list(args.passes)) rows.push_back(graph::find_pass(name));
  g = graph::run_passes(std::move(g), rows);
  graph::verify(*g, "the end of the passes");
  fmt::print("{}", graph::to_string(*g));
  return kOk;
}

}  // namespace toroid::cli

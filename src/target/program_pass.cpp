#include "target/program_pass.h"

#include "base/check.h"

namespace toroid::target {

program::Program run_passes(program::Program p, const Target& target, program::Stage to, const CompileOptions& options,
                            ScheduleReport* report, const PassDump& dump, Reach reach) {
  ScheduleReport unseen;
  PassContext context{target, options, report ? *report : unseen};
  // Until the last one has run, what holds of the program is what held of it before.
  const auto verify = [&](const std::string& pass) {
    const std::string before = to == program::Stage::Lowered ? "lowering" : "what comes before scheduling";
    program::verify(p, program::Stage::Lowered, pass.empty() ? before : pass);
  };
  PassRunner runner({report ? std::optional(Artifact::Schedule) : std::nullopt, [&] { return program::to_string(p); }, verify}, options,
                    &context.report.passes, dump);
  bool is_whole = false;
  for (auto& pass : target.passes(to)) {
    is_whole = is_whole || pass.begins_whole;
    if (reach != Reach::All && is_whole != (reach == Reach::Whole)) continue;
    if (!(pass.fusions & with(options.fusion()))) continue;
    TOROID_USER_CHECK(!pass.required || !is_disabled(pass.name, options),
                      "the option disable_passes names \"{}\", which no program can be compiled without", pass.name);
    runner.run(pass.name, [&] { return pass.run(p, context); });
  }
  if (options.get(options::kVerifyPasses) && reach != Reach::Neighbours)
    program::verify(p, to, to == program::Stage::Lowered ? "what comes before tuning" : "scheduling");
  return p;
}

std::string conditions_of(const ProgramPass& pass) {
  if (pass.fusions == kEachFusion) return "always";
  std::string out = "fusion ";
  for (auto f : {Fusion::None, Fusion::PerNode, Fusion::All})
    if (pass.fusions & with(f)) out += (out.size() > 7 ? " or " : "") + std::string(kFusionNames[static_cast<size_t>(f)]);
  return out;
}

}  // namespace toroid::target

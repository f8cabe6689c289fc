// Passes over programs: one signature, run in the order of a target's table.
#pragma once

#include <string>
#include <vector>

#include "base/pass_runner.h"
#include "target/target.h"
#include "toroid/mode.h"

namespace toroid::target {

struct FusionReport {
  size_t nodes_before = 0, nodes_after = 0;
  struct Miss {
    std::string first, second, reason;
  };
  std::vector<Miss> misses;  // one a pair that shares memory and was not joined
  struct Unsplit {
    std::string node, reason;
  };
  std::vector<Unsplit> unsplit;  // long reductions with few results that stayed one loop
};

// What the passes did to a program.
struct ScheduleReport {
  PassReport passes;
  FusionReport fusion;
  std::vector<std::string> choices;  // a line for each decision that had an alternative
};

struct PassContext {
  const Target& target;
  const CompileOptions& options;
  ScheduleReport& report;
  bool parted = false;  // a pass has cut off what a library cannot do of an epilogue: the rest may join what reads it
};

// Fusions with which a pass runs: bits of (1 << Fusion).
using Fusions = uint8_t;
constexpr Fusions with(Fusion f) { return static_cast<Fusions>(1 << static_cast<int>(f)); }
constexpr Fusions kEachFusion = with(Fusion::None) | with(Fusion::PerNode) | with(Fusion::All);

struct ProgramPass {
  const char* name;
  const char* doc;
  bool (*run)(program::Program& p, PassContext& context);  // whether it changed the program
  Fusions fusions = kEachFusion;
  bool required = false;  // without it nothing can be made of the program
  // The passes before it look at nodes that touch the same memory, so that what they make of a layer does not depend on how many layers
  // there are. This one and those behind it look at the program as a whole.
  bool begins_whole = false;
};

// Passes of a table: all, or those before or from the one that begins_whole.
enum class Reach : uint8_t { All, Neighbours, Whole };

// The program, after the target's passes to the stage, run as PassRunner does, but for those that the options' fusion leaves out.
// report null: nobody is told what happens, and no log either. UserError where the options leave out a pass that is required, and what the
// passes throw: a choice that does not fit its node.
program::Program run_passes(program::Program p, const Target& target, program::Stage to, const CompileOptions& options,
                            ScheduleReport* report = nullptr, const PassDump& dump = {}, Reach reach = Reach::All);

// The fusions with which a pass runs, for people: "always", "fusion all".
std::string conditions_of(const ProgramPass& pass);

}  // namespace toroid::target

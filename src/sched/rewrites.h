// Rewritings of a program that change how one of its nodes is computed: the table of what tuning may choose beside templates and
// libraries.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "target/target.h"

namespace toroid::sched {

struct Rewrite {
  const char* name;  // Config::form of its ways
  const char* doc;   // with its fields
  // Why a way does not apply to a node; empty when it does.
  std::string (*refusal)(const program::Program& p, size_t node, const program::Config& way);
  // Of one that is not refused.
  void (*apply)(program::Program& p, size_t node, const program::Config& way);
  // Ways worth a trial for a node of a scheduled program, the most hopeful first. Null: it is proposed elsewhere, for whole programs.
  std::vector<program::Config> (*proposals)(const program::Program& p, size_t node, const target::Facts& facts,
                                            const CompileOptions& options);
  bool layout = false;  // says how operands lie, and leaves open how the rest is computed
};

// In the order in which they are proposed.
std::span<const Rewrite> rewrites();
// The one that a way names; null where it names none.
const Rewrite* rewrite_of(const program::Config& way);
// Does what the way says, which names one, to a node. UserError with the refusal's reason where it does not apply.
void rewrite(program::Program& p, size_t node, const program::Config& way);
// Of all rows.
std::vector<program::Config> proposed_rewrites(const program::Program& p, size_t node, const target::Facts& facts,
                                               const CompileOptions& options);

}  // namespace toroid::sched

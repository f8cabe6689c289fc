// The compiler as the tuner sees it.
#pragma once

#include <memory>

#include "compile/assembly.h"
#include "compile/model.h"
#include "compile/target.h"
#include "tune/search.h"

namespace toroid::compiler {

// Joins, orders and cuts a lowered program; `choices` and `report` as in Target::schedule.
choice::Program schedule(choice::Program p, const Target& target, const ModelOptions& options, sched::FusionReport& report,
                         std::vector<std::string>& choices);

// options, target: what regions are compiled with.
// constants: where they keep what they bring to a GPU.
std::shared_ptr<const tune::Pipeline> pipeline_for(const ModelOptions& options, std::shared_ptr<const Target> target,
                                                   std::shared_ptr<MovedConstants> constants);

// What the options say of the search, and of what is known before it.
tune::SearchOptions search_options();
// lock: the file that the option tune_lock names, read; null without one.
std::unique_ptr<tune::Memory> memory_for(const tune::Pipeline& pipeline, const Target& target, const tune::LockFile* lock);
std::unique_ptr<tune::LockFile> lock_file();

}  // namespace toroid::compiler

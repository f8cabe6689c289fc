// Choices made by timing them: the stage of tuning, and the compiler as the tuner sees it.
#pragma once

#include <memory>

#include "compile/job.h"
#include "tune/search/search.h"

namespace toroid::compiler {

// Compiles scheduled regions of the job's program.
std::shared_ptr<const tune::Pipeline> pipeline_for(const Job& job);

// What the options say of the search, and of what is known before it.
tune::SearchOptions search_options(const CompileOptions& options);
// lock: the file that the option tune_lock names, read; null without one. decided: by the parts of a program that were tuned before.
std::unique_ptr<tune::Memory> memory_for(const target::Target& target, const CompileOptions& options, const tune::LockFile* lock,
                                         tune::LockFile decided = {});
std::unique_ptr<tune::LockFile> lock_file(const CompileOptions& options);

}  // namespace toroid::compiler

// The compiler as the tuner sees it.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "compile/assembly.h"
#include "compile/model.h"
#include "tune/search/search.h"

namespace toroid::compiler {

// Takes a graph that is run as a block to its kernels' texts.
using BlockMaker = std::function<Assembly::Inner(const graph::Graph&, const Setup&, std::shared_ptr<const backend::Backend>)>;

// setup, target: what regions are compiled with.
// constants: where they keep what they bring to a GPU. blocks: for programs with branches; these are not tuned there.
std::shared_ptr<const tune::Pipeline> pipeline_for(const Setup& setup, std::shared_ptr<const backend::Backend> target,
                                                   std::shared_ptr<MovedConstants> constants, BlockMaker blocks = {});

// What the options say of the search, and of what is known before it.
tune::SearchOptions search_options(const CompileOptions& options);
// lock: the file that the option tune_lock names, read; null without one. decided: by the parts of a program that were tuned before.
std::unique_ptr<tune::Memory> memory_for(const target::Target& target, const CompileOptions& options, const tune::LockFile* lock,
                                         tune::LockFile decided = {});
std::unique_ptr<tune::LockFile> lock_file(const CompileOptions& options);

}  // namespace toroid::compiler

// One compile: what it is for, and by what means. Every stage reads it, and none changes it.
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"
#include "compile/debug_folder.h"
#include "compile/moved_constants.h"
#include "compile/setup.h"
#include "graph/graph.h"
#include "tune/search/search.h"

namespace toroid::compiler {

using TuneListener = std::function<void(const tune::TuneProgress&)>;

struct Job {
  Setup setup = {};
  std::shared_ptr<const backend::Backend> target = {};
  TuneListener listener = {};   // told how far tuning has come; blocks of control flow begin anew
  tune::LockFile decided = {};  // by the program that this is a part of, and by its parts before
  bool may_tune = true;         // else the untuned schedule in modes that tune, too
  bool uploads = true;          // large constants go to a GPU while kernels are compiled, else when the plan is made
  bool absent = false;          // the machine need not be there: constants stay where they are
  bool tries = false;           // it compiles what tuning tries; for counts alone
  bool makes_code = false;      // kernels are compiled as soon as they are known, beside the stages before
  int compile_threads = 0;      // of jit::compile_all
  DebugFolder debug = {};       // off by default
  // Constants that timing has brought to a GPU, and which several programs share there. Null: each program brings its own.
  std::shared_ptr<MovedConstants> constants = {};

  const CompileOptions& options() const { return setup.options; }
  // Whether choices are made by timing them.
  bool tunes() const;
};

// Of a whole program. name: the graph's. absent: see backend::make_backend.
Job job_of(const std::string& name, const Setup& setup, const TuneListener& listener = {}, const device::cuda::GpuInfo* absent = nullptr);
// Of a block of control flow. options: what it has in place of the program's. decided: up to here.
Job job_of_block(const Job& program, const std::string& name, const program::OptionValues* options, const tune::LockFile& decided);
// Of regions, which the tuner asks for: by a thread each, untuned, with constants that are brought to a GPU once.
Job job_of_regions(const Job& program);

}  // namespace toroid::compiler

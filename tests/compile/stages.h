// The compiler from a graph to a plan in two steps, for tests that decide about the program in between.
#pragma once

#include "compile/pipeline.h"
#include "compile/tuning.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"

namespace toroid::test {

struct Stages {
  compiler::Setup setup = front::setup_of({});
  compiler::CompileReport report = {};
  std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);

  compiler::Job job(int threads = 0) const {
    return {.setup = setup, .target = target, .compile_threads = threads, .debug = compiler::DebugFolder("test", setup.options)};
  }

  program::Program lowered(const graph::Graph& g) {
    auto p = lower::lower(*graph::run_passes(graph::clone(g), graph::pipeline(graph::kFrozen), nullptr, setup.options),
                          {.options = setup.options, .target = target.get()});
    return target::run_passes(std::move(p), *target, program::Stage::Lowered, setup.options, &report.schedule);
  }

  // p: lowered, with its choices made. threads: of jit::compile_all.
  exec::Loadable plan(program::Program p, int threads = 0) {
    return compiler::advance<exec::Loadable>(compiler::Tuned{std::move(p)}, job(threads), report);
  }
};

}  // namespace toroid::test

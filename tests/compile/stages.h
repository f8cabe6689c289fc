// The compiler from a graph to a plan in two steps, for tests that decide about the program in between.
#pragma once

#include "compile/assembly.h"
#include "compile/tuning.h"
#include "front/compile_model.h"
#include "graph/pass.h"
#include "lower/lowering.h"

namespace toroid::test {

struct Stages {
  compiler::Setup setup = front::setup_of({});
  compiler::CompileReport report = {};
  std::shared_ptr<const backend::Backend> target = backend::make_backend(setup.device, setup.options);

  choice::Program lowered(const graph::Graph& g) {
    auto p = lower::lower(*graph::run_passes(graph::clone(g), graph::pipeline(graph::kFrozen), nullptr, setup.options),
                          {.options = setup.options, .target = target.get()});
    return target::run_passes(std::move(p), *target, choice::Stage::Lowered, setup.options, &report.schedule);
  }

  // threads: of jit::compile_all.
  exec::Loadable plan(choice::Program p, int threads = 0) {
    auto a = assembled(std::move(p), report);
    a->build(threads);
    return a->plan();
  }

  // Of control flow, by the same stages.
  compiler::Assembly::Inner block(const graph::Graph& g) {
    compiler::Assembly::Inner inner;
    inner.report = std::make_unique<compiler::CompileReport>();
    inner.block.name = g.name;
    for (size_t i = 0; i < g.outputs.size(); ++i) inner.block.results.push_back(static_cast<int>(i));
    inner.assembly = assembled(lowered(g), *inner.report);
    return inner;
  }

 private:
  std::unique_ptr<compiler::Assembly> assembled(choice::Program p, compiler::CompileReport& into) {
    p = target::run_passes(std::move(p), *target, choice::Stage::Scheduled, setup.options, &into.schedule);
    auto out = std::make_unique<compiler::Assembly>(std::move(p), setup, into, target, compiler::DebugFolder("test", setup.options));
    out->add_blocks([&](const graph::Graph& g, const compiler::Setup&) { return block(g); });
    out->generate();
    return out;
  }
};

}  // namespace toroid::test

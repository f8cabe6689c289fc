// The compiler from a graph to a plan in two steps, for tests that decide about the program in between.
#pragma once

#include "compile/assembly.h"
#include "compile/model.h"
#include "compile/tuning.h"
#include "graph/pass.h"
#include "lower/lowering.h"

namespace toroid::test {

struct Stages {
  compiler::Setup setup = compiler::setup_of({});
  compiler::CompileReport report = {};
  std::shared_ptr<const compiler::Target> target = compiler::make_target(setup);

  choice::Program lowered(const graph::Graph& g) {
    lower::LowerOptions how{.options = setup.options};
    target->set_templates(how);
    auto p = lower::lower(*graph::run_passes(graph::clone(g), graph::default_passes(true, true), nullptr, setup.options), how);
    target->prepare(p, setup.options, report.choices);
    return p;
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
    p = compiler::schedule(std::move(p), *target, setup.options, into.fusion, into.choices);
    auto out = std::make_unique<compiler::Assembly>(std::move(p), setup, into, target, compiler::DebugFolder("test", setup.options));
    out->add_blocks([&](const graph::Graph& g, const compiler::Setup&) { return block(g); });
    out->generate();
    return out;
  }
};

}  // namespace toroid::test

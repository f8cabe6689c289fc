// What holds of an opaque operation on a GPU however it is computed there.
#pragma once

#include <gtest/gtest.h>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "program/interpret.h"
#include "toroid/compile.h"

namespace toroid::test {

// A program computes, and writes to its inputs, what the operations of its graph say.
inline void expect_meaning(const program::Program& p, std::unique_ptr<graph::Graph> g, const std::vector<Tensor>& inputs) {
  const auto fresh = [&] {
    std::vector<Tensor> out;
    for (auto& t : inputs) out.push_back(clone(t));
    return out;
  };
  auto one = fresh(), two = fresh();
  const auto functional = graph::run_passes(std::move(g), graph::pipeline({}), nullptr, front::setup_of({}).options);
  EXPECT_EQ(program::interpret(p, one).at(0).to_vector(), graph::interpret(*functional, two).at(0).to_vector());
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(one[i].to_vector(), two[i].to_vector()) << "input " << i;
}

// body(x [n], cache [3, n]), which writes to the cache, gives on a GPU what it gives on the host: eagerly, compiled, with open sizes and
// replayed.
template <class F>
void expect_as_on_the_host(const F& body, const std::vector<int64_t>& sizes) {
  for (const CompileConfig& config : {CompileConfig{.fullgraph = true}, CompileConfig{.fullgraph = true, .dynamic = true},
                                      CompileConfig{.mode = Mode::ReduceOverhead, .fullgraph = true}}) {
    auto f = compile(body, config);
    for (const int64_t n : sizes) {
      const Tensor host = counting({3, n}), eager = host.to(Device::cuda()), compiled = host.to(Device::cuda());
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Tensor x = counting({n}) + repeat, there = x.to(Device::cuda());
        const std::vector<double> expected = body(x, host).to_vector();
        EXPECT_EQ(body(there, eager).to_vector(), expected);
        EXPECT_EQ(f(there, compiled).to_vector(), expected);
        EXPECT_EQ(eager.to_vector(), host.to_vector());
        EXPECT_EQ(compiled.to_vector(), host.to_vector());
      }
    }
  }
}

}  // namespace toroid::test

// Errors are found at the operation that makes them.
#include "compile/bisect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compile/harness.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using compiler::BisectReport;
using test::contains;

const test::Forward kForward = [](const std::vector<Tensor>& in) {
  const Tensor h = relu(matmul(in[0], in[1]));
  return softmax(matmul(h, in[1]) * 0.5 + in[0], -1);
};

std::vector<Tensor> inputs(DType dtype) {
  std::vector<Tensor> out;
  for (double step : {0.1, 0.3}) {
    Tensor t = Tensor::empty({24, 24}, DType::F32);
    for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
    out.push_back(to(t, dtype));
  }
  return out;
}

std::vector<Tensor> compiled(std::unique_ptr<graph::Graph> g, std::span<const Tensor> in) {
  return front::compile_model(std::move(g)).run(in);
}

// The reference evaluator with an error in one value, from which what follows is computed.
compiler::RunGraph with_error(const std::string& op, const std::function<double(double)>& wrong) {
  return [op, wrong](std::unique_ptr<graph::Graph> g, std::span<const Tensor> in) {
    graph::BoundSymbols symbols = graph::bind_inputs(*g, in);
    std::map<const graph::Value*, Tensor> values;
    size_t next = 0;
    for (auto& i : g->inputs) values[i.value] = i.kind == graph::InputKind::User ? in[next++] : i.data;
    std::vector<Tensor> out;
    for (auto& n : g->nodes) {
      CallArgs args;
      for (auto& a : n->args) args.push_back(map_arg<Tensor>(a, [&](graph::Value* v) { return v ? values.at(v) : Tensor(); }));
      const auto results = graph::interpret_node(*n, std::move(args), symbols);
      for (size_t r = 0; r < results.size(); ++r) {
        std::vector<double> v = results[r].to_vector();
        if (n->op->name == op)
          for (double& x : v) x = wrong(x);
        out.push_back(Tensor::of(v, results[r].sizes(), results[r].dtype()));
        values[n->results[r]] = out.back();
      }
    }
    return out;
  };
}

TEST(Bisect, CompiledProgramsAreWithinTheBound) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    const auto in = inputs(dtype);
    const BisectReport r = compiler::bisect(test::graph_of(kForward, in), in, compiled);
    EXPECT_EQ(r.beyond.size(), 0u) << name_of(dtype) << ": " << (r.beyond.empty() ? "" : r.beyond[0].op + " " + r.beyond[0].difference);
    EXPECT_GE(r.compared, 6u);
    EXPECT_EQ(r.left_out, 0u);
  }
}

// Rounded to 10 bits of mantissa where 24 are asked for.
TEST(Bisect, ARoundingThatShouldNotBeIsFoundWhereItIs) {
  const auto rounded = [](double x) { return std::ldexp(std::round(std::ldexp(x, 10 - std::ilogb(x))), std::ilogb(x) - 10); };
  const auto in = inputs(DType::F32);
  for (const char* op : {"relu", "add.Tensor"}) {
    const BisectReport r =
        compiler::bisect(test::graph_of(kForward, in), in, with_error(op, [&](double x) { return x == 0 ? 0 : rounded(x); }));
    ASSERT_EQ(r.beyond.size(), 1u) << op;
    EXPECT_EQ(r.beyond[0].op, op);
    EXPECT_TRUE(contains(r.beyond[0].where, "bisect_test.cpp")) << r.beyond[0].where;
    EXPECT_TRUE(contains(r.beyond[0].difference, "has an error of ")) << r.beyond[0].difference;
  }
}

TEST(Bisect, RandomNumbersCannotBeCompared) {
  const auto in = inputs(DType::F32);
  const auto g = [&] { return test::graph_of([](auto& x) { return relu(x[0]) + rand_like(x[0]); }, in); };
  const BisectReport r = compiler::bisect(g(), in, compiled);
  EXPECT_EQ(r.beyond.size(), 0u);
  EXPECT_GE(r.left_out, 1u);
  EXPECT_GE(r.compared, 2u);
}

}  // namespace
}  // namespace toroid

// Custom operations: eager, compiled and interpreted alike; variants, what is refused, and what they fuse with.
#include "toroid/custom_op.h"

#include <gtest/gtest.h>

#include "front/compile_model.h"
#include "front/harness.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "lower/lowering.h"
#include "ops/custom.h"
#include "program/inline.h"
#include "toroid/ops.h"

namespace toroid {
namespace {

using test::counting;
using test::Forward;
using test::graph_of;

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_EQ(a.dtype(), b.dtype());
  auto x = a.to_vector(), y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-4 * (1 + std::abs(y[i]))) << "element " << i;
}

// Eager, compiled and interpreted, of fresh inputs each.
void expect_alike(const Forward& forward, const std::vector<Tensor>& inputs) {
  Tensor eager = forward(inputs);
  auto g = graph_of(forward, inputs);
  expect_equal(graph::interpret(*graph::parse(graph::to_string(*g)), inputs).at(0), eager);
  expect_equal(front::compile_model(std::move(g)).run(inputs).at(0), eager);
}

compiler::CompiledModel compiled(const Forward& forward, const std::vector<Tensor>& inputs) {
  return front::compile_model(graph_of(forward, inputs));
}

auto& all_reduce() {
  static auto op = [] {
    auto op = custom_op("test::all_reduce(Tensor x, int split=1) -> Tensor", [](const Tensor& x, int64_t split) {
      Tensor sum = x * 1.0;
      for (int64_t i = 1; i < split; ++i) sum = sum + x * 0.0;
      return sum + x;
    });
    register_custom_op_autotuning(
        op, {{.name = "twice", .decomposition = [](const Tensor& x, int64_t) { return x * 2.0; }}, {.params = {{"split", 4}}}});
    return op;
  }();
  return op;
}

TEST(CustomOp, IsOneNodeOfTheGraph) {
  auto g = graph_of([](auto& in) { return relu(all_reduce()(in[0])); }, {counting({4, 8})});
  ASSERT_EQ(g->nodes.size(), 2u);
  EXPECT_EQ(g->nodes[0]->op->name, "test::all_reduce");
  EXPECT_NE(g->nodes[0]->where.find("custom_op_test.cpp"), std::string::npos) << g->nodes[0]->where;
  graph::verify(*g, "here");
}

TEST(CustomOp, EagerCompiledAndInterpretedAgree) {
  expect_alike([](auto& in) { return relu(all_reduce()(in[0] - 3.0)); }, {counting({4, 8})});
}

// Its function runs at once when called eagerly, and is recorded when compiled.
TEST(CustomOp, FunctionsThatReadElementsAreRefusedByName) {
  const auto doubled = custom_op("test::by_hand", [](const Tensor& x) {
    Tensor y = Tensor::empty(x.sizes(), DType::F32);
    for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = 2 * x.data<float>()[i];
    return y;
  });
  const Tensor x = Tensor::of({1, 2}, {2});
  EXPECT_EQ(doubled(x).to_vector(), (std::vector<double>{2, 4}));
  auto f = compile([&](const Tensor& x) { return doubled(x) + 1.0; });
  const std::string error = test::user_error([&] { f(x); });
  for (const char* part : {"custom_op_test.cpp:", "test::by_hand", "compile_disable()"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
  auto g = compile([](const Tensor& x) {
    return compile_disable([](const Tensor& t) { return Tensor::of({2 * t.to_vector()[0], 2 * t.to_vector()[1]}, {2}); })(x) + 1.0;
  });
  EXPECT_EQ(g(x).to_vector(), (std::vector<double>{3, 5}));
  EXPECT_EQ(ops::running_custom(), "");
}

TEST(CustomOp, LoweringKeepsTheChoicesOpen) {
  auto g = graph_of([](auto& in) { return all_reduce()(in[0]); }, {counting({4, 8})});
  auto p = lower::lower(*graph::run_passes(std::move(g), graph::pipeline(graph::kFrozen)));
  auto open = std::find_if(p.nodes.begin(), p.nodes.end(), [](auto& n) { return n.is_open(); });
  ASSERT_NE(open, p.nodes.end());
  auto& o = std::get<program::Open>(open->problem);
  ASSERT_EQ(o.alternatives.size(), 3u);
  EXPECT_EQ(o.alternatives[0].name, "test::all_reduce");
  EXPECT_EQ(o.alternatives[1].name, "twice");
  EXPECT_NE(o.alternatives[0].key, o.alternatives[1].key);
  EXPECT_NE(o.alternatives[0].key, o.alternatives[2].key);
}

TEST(CustomOp, FusesWithItsNeighbours) {
  auto model = compiled([](auto& in) { return relu(all_reduce()(in[0])) * 0.5; }, {counting({4, 8})});
  EXPECT_EQ(model.report().kernels, 1u);
  EXPECT_EQ(model.report().schedule.choices.size(), 1u);
}

program::Program lowered(const Forward& forward, const std::vector<Tensor>& inputs) {
  return lower::lower(*graph::run_passes(graph_of(forward, inputs), graph::pipeline(graph::kFrozen)));
}

const program::Open& open_in(const program::Program& p) {
  for (auto& n : p.nodes)
    if (n.is_open()) return std::get<program::Open>(n.problem);
  throw std::runtime_error("no open node");
}

TEST(CustomOp, FollowsAProduct) {
  auto model = compiled([](auto& in) { return relu(all_reduce()(matmul(in[0], in[1]))); }, {counting({4, 8}), counting({8, 16})});
  EXPECT_EQ(model.report().kernels, 1u) << "call and relu are the product's epilogue";
}

TEST(CustomOp, WithoutVariantsItIsWhatItIsMadeOf) {
  auto op = custom_op("test::plain", [](const Tensor& x, const Tensor& y) {
    Tensor z = x + y;
    mul_(z, 2.0);  // memory of its own
    return z;
  });
  expect_alike([&](auto& in) { return relu(op(in[0], in[1]) - 9.0); }, {counting({4, 8}), counting({8})});
  auto model = compiled([&](auto& in) { return relu(op(in[0], in[1])); }, {counting({4, 8}), counting({8})});
  EXPECT_EQ(model.report().kernels, 1u);
}

TEST(CustomOp, TwoResults) {
  auto op = custom_op("test::split(Tensor x) -> (Tensor, Tensor)", [](const Tensor& x) { return std::pair(x * 2.0, sum(x, {-1})); });
  register_custom_op_autotuning(op, {{.decomposition = [](const Tensor& x) { return std::pair(x + x, sum(x, {-1})); }}});
  auto forward = [&](auto& in) {
    auto [a, b] = op(in[0] + 1.0);
    return relu(a) + unsqueeze(b, -1);
  };
  expect_alike(forward, {counting({4, 8})});
  EXPECT_EQ(open_in(lowered(forward, {counting({4, 8})})).alternatives.size(), 2u);
}

// A call stays whole until it is inlined; what it is made of goes then as far as nothing needs it, and so does what came before it.
TEST(CustomOp, ResultsThatNobodyReads) {
  auto op = custom_op("test::both(Tensor x, Tensor y) -> (Tensor, Tensor)",
                      [](const Tensor& x, const Tensor& y) { return std::pair(x * 2.0, y * 3.0); });
  auto forward = [&](auto& in) {
    auto x = reshape(in[0], {1, 1, 16, 16});
    return op(scaled_dot_product_attention(x, x, x), in[0] + 1.0).second;
  };
  const std::vector<Tensor> inputs{counting({16, 16}) * 0.01};
  std::vector<std::string> decisions;
  for (auto& n : program::inline_defaults(lowered(forward, inputs), decisions).nodes)
    EXPECT_FALSE(std::holds_alternative<program::Attention>(n.problem)) << n.origins[0];
  expect_alike(forward, inputs);
}

TEST(CustomOp, ViewsOfInputsAreReadWhereTheyLie) {
  auto forward = [](auto& in) { return all_reduce()(transpose(in[0], 0, 1)) + 1.0; };
  expect_alike(forward, {counting({4, 8})});
  EXPECT_EQ(compiled(forward, {counting({4, 8})}).report().kernels, 1u);
  expect_alike([](auto& in) { return all_reduce()(flip(in[0], {1})); }, {counting({4, 8})});
  expect_alike([](auto& in) { return all_reduce()(expand(slice(in[0], 1, 2, 3), {4, 5})); }, {counting({4, 8})});
}

TEST(CustomOp, ProductsInVariantsAndCapturedConstants) {
  static const Tensor weight = counting({8, 8}) * 0.01;
  auto op = custom_op("test::project", [](const Tensor& x) { return matmul(x, weight); });
  register_custom_op_autotuning(
      op, {{.decomposition = [](const Tensor& x) { return matmul(x, weight * 1.0); }, .options = {{"gemm_backends", "template"}}}});
  auto forward = [&](auto& in) { return relu(op(in[0])); };
  expect_alike(forward, {counting({4, 8})});
  EXPECT_EQ(compiled(forward, {counting({4, 8})}).report().kernels, 1u) << "the relu is the product's epilogue";
  auto p = lowered(forward, {counting({4, 8})});
  auto inlined = program::inline_alternative(p, 0, 1);
  ASSERT_TRUE(inlined.nodes[0].options);
  EXPECT_EQ(inlined.nodes[0].options->at(0).second, "template");
}

TEST(CustomOp, WeightsAreConstantsOfTheVariants) {
  static const Tensor weight = counting({8, 8}) * 0.01;
  auto op = custom_op("test::linear(Tensor x, Tensor w) -> Tensor", [](const Tensor& x, const Tensor& w) { return matmul(x, w); });
  register_custom_op_autotuning(op, {{.decomposition = [](const Tensor& x, const Tensor& w) { return matmul(x, w + 0.0); }}});
  auto forward = [&](auto& in) { return relu(op(in[0], weight)) + op(in[0] * 2.0, weight); };
  auto p = lowered(forward, {counting({4, 8})});
  EXPECT_EQ(open_in(p).inputs.size(), 1u);
  const std::vector<Tensor> inputs{counting({4, 8})};
  expect_equal(compiled(forward, inputs).run(inputs)[0], forward(inputs));
  std::vector<std::string> decisions;
  auto inlined = program::inline_defaults(p, decisions);
  EXPECT_EQ(std::count_if(inlined.inputs.begin(), inlined.inputs.end(), [](auto& in) { return in.data.defined(); }), 1) << "one weight";
}

// Runs the function twice on copies of x; the tensor after that.
Tensor after_writing(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  Tensor own = x.to(Device::cpu()) * 1.0;
  f(own);
  f(own);
  return own;
}

void expect_written_alike(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor x = counting({4, 8});
  auto fast = compile(f);
  expect_equal(after_writing([&](const Tensor& t) { return fast(t); }, x), after_writing(f, x));
  expect_equal(fast(x * 1.0), f(x * 1.0));
  auto by_reference = compile(f, test::by_reference());
  expect_equal(after_writing([&](const Tensor& t) { return by_reference(t); }, x), after_writing(f, x));
}

TEST(CustomOp, WritesToItsArguments) {
  auto scale = [](Tensor& x, double by) {
    mul_(x, by);
    return sum(x);
  };
  auto plain = custom_op("test::scale_(Tensor(a!) x, float by=3.0) -> Tensor", scale);
  auto tuned = custom_op("test::tuned_scale_(Tensor(a!) x, float by=3.0) -> Tensor", scale);
  register_custom_op_autotuning(tuned, {{.name = "other", .decomposition = [](Tensor& x, double by) {
                                           Tensor total = sum(x) * by;
                                           copy_(x, x * by);
                                           return total;
                                         }}});
  expect_written_alike([&](const Tensor& x) { return plain(x) + x; });
  expect_written_alike([&](const Tensor& x) { return tuned(x) + x; });
  expect_written_alike([&](const Tensor& x) { return tuned(transpose(x, 0, 1), 0.5) + x; });
  auto p = lowered([&](auto& in) { return tuned(in[0]); }, {counting({4, 8})});
  EXPECT_EQ(open_in(p).name, "test::tuned_scale_.functional");
  EXPECT_EQ(open_in(p).outputs.size(), 2u);
  EXPECT_EQ(open_in(p).alternatives.size(), 2u);
}

// A function sees what it writes by another argument, too; copies of the arguments would not show it.
TEST(CustomOp, ArgumentsThatShareMemorySeeTheWrites) {
  auto own = [](Tensor& x, const Tensor& y) {
    relu_(x);
    return clone(y);
  };
  auto plain = custom_op("test::relu_and_read(Tensor(a!) x, Tensor y) -> Tensor", own);
  auto tuned = custom_op("test::tuned_relu_and_read(Tensor(a!) x, Tensor y) -> Tensor", own);
  register_custom_op_autotuning(tuned, {{.name = "other", .decomposition = [](Tensor& x, const Tensor& y) {
                                           copy_(x, relu(x));
                                           return y * 1.0;
                                         }}});
  for (auto& op : {plain, tuned}) {
    expect_written_alike([&](const Tensor& x) { return op(x - 9.0, x); });
    expect_written_alike([&](const Tensor& x) {
      Tensor y = x - 9.0;
      return op(y, y) + op(transpose(y, 0, 1), y);
    });
    expect_written_alike([&](const Tensor& x) {
      add_(x, -9.0);
      return op(select(x, 0, 1), x) + x;
    });
  }
  const size_t refusals = custom_op_counts(tuned).other_refusals;
  EXPECT_EQ(open_in(lowered([&](auto& in) { return tuned(in[0], in[1]); }, {counting({4, 8}), counting({4, 8})})).alternatives.size(), 2u);
  EXPECT_EQ(custom_op_counts(tuned).other_refusals, refusals);
  for (auto& n : lowered([&](auto& in) { return tuned(in[0], in[0]); }, {counting({4, 8})}).nodes) EXPECT_FALSE(n.is_open());
  EXPECT_EQ(custom_op_counts(tuned).other_refusals, refusals + 1);
}

TEST(CustomOp, FunctionsWriteThroughViews) {
  auto row = custom_op("test::relu_row_(Tensor(a!) x) -> ()", [](Tensor& x) {
    Tensor first = select(x, 0, 1);
    relu_(first);
  });
  auto swap = custom_op("test::swap_(Tensor(a!) x, Tensor(b!) y) -> ()", [](Tensor& x, Tensor& y) {
    Tensor old = clone(x);
    copy_(x, y);
    copy_(y, old);
  });
  expect_written_alike([&](const Tensor& x) {
    add_(x, -20.0);
    row(x);
    return x + 1.0;
  });
  expect_written_alike([&](const Tensor& x) {
    Tensor y = x - 20.0, before = transpose(y, 0, 1);
    row(before);
    swap(select(y, 0, 0), select(y, 0, 2));
    return y + transpose(before, 0, 1);
  });
  expect_written_alike([&](const Tensor& x) {
    Tensor wide = to(x, DType::F64);
    swap(wide, x);
    return to(wide, DType::F32);
  });
}

TEST(CustomOp, ResultsHaveMemoryOfTheirOwn) {
  auto view = custom_op("test::view_of(Tensor x) -> Tensor", [](const Tensor& x) { return transpose(x, 0, 1); });
  auto twice = custom_op("test::shared(Tensor x) -> (Tensor, Tensor)", [](const Tensor& x) {
    Tensor y = x * 2.0;
    return std::pair(y, transpose(y, 0, 1));
  });
  const Tensor x = counting({4, 8});
  auto fast_view = compile([&](const Tensor& t) { return view(t); });
  auto fast_twice = compile([&](const Tensor& t) { return twice(t).second; });
  for (auto& error : {test::user_error([&] { view(x); }), test::user_error([&] { fast_view(x); })})
    EXPECT_TRUE(test::contains(error, "result 0 is")) << error;
  for (auto& error : {test::user_error([&] { twice(x); }), test::user_error([&] { fast_twice(x); })})
    EXPECT_TRUE(test::contains(error, "the results 0 and 1 share memory")) << error;
}

TEST(CustomOp, VariantsThatAreAnotherThingAreRefusedAndCounted) {
  auto op = custom_op("test::picky", [](const Tensor& x) { return x * 2.0; });
  register_custom_op_autotuning(
      op, {{.name = "other dtype", .decomposition = [](const Tensor& x) { return to(x, DType::F64); }},
           {.name = "other size", .decomposition = [](const Tensor& x) { return sum(x); }},
           {.name = "random", .decomposition = [](const Tensor& x) { return x * rand_like(x); }},
           {.name = "reads", .decomposition = [](const Tensor& x) { return x * sum(x).item(); }},
           {.name = "throws",
            .decomposition = [](const Tensor& x) { return x.dim() == 2 ? throw std::runtime_error("not for matrices") : x + x; }},
           {.name = "fine", .decomposition = [](const Tensor& x) { return x + x; }}});
  auto model = compiled([&](auto& in) { return op(in[0]); }, {counting({4, 8})});
  const auto counts = custom_op_counts(op);
  EXPECT_EQ(counts.calls, 1u);
  EXPECT_EQ(counts.variants, 2u);
  EXPECT_EQ(counts.type_refusals, 2u);
  EXPECT_EQ(counts.other_refusals, 3u);
  ASSERT_EQ(model.report().schedule.choices.size(), 1u);
  const std::string& line = model.report().schedule.choices[0];
  for (const char* part : {"other dtype", "f64", "random", "reads", "not for matrices"}) EXPECT_TRUE(test::contains(line, part)) << line;
}

TEST(CustomOp, SymbolicSizesAndGuards) {
  auto op = custom_op("test::halves", [](const Tensor& x) { return x * 2.0; });
  register_custom_op_autotuning(op,
                                {{.name = "even", .decomposition = [](const Tensor& x) { return x.size(0) % 2 == 0 ? x + x : x * 2.0; }},
                                 {.name = "any", .decomposition = [](const Tensor& x) { return x + x; }}});
  auto fast = compile([&](const Tensor& x) { return relu(op(x)) + 1.0; }, {.dynamic = true});
  for (int64_t n : {4, 7, 12}) expect_equal(fast(counting({n, 3})), relu(counting({n, 3}) * 2.0) + 1.0);
  EXPECT_EQ(fast.report().compiles, 1);
  EXPECT_EQ(custom_op_counts(op).guard_refusals, 1u);
  EXPECT_EQ(custom_op_counts(op).variants, 2u);
}

TEST(CustomOp, AFunctionThatDrawsRandomNumbersHasNoChoices) {
  auto op = custom_op("test::noisy", [](const Tensor& x) { return x + rand_like(x); });
  register_custom_op_autotuning(op, {{.decomposition = [](const Tensor& x) { return x; }}});
  auto p = lowered([&](auto& in) { return op(in[0]); }, {counting({4, 8})});
  for (auto& n : p.nodes) EXPECT_FALSE(n.is_open());
  EXPECT_EQ(custom_op_counts(op).other_refusals, 1u);
}

TEST(CustomOp, AVariantMayCallTheOperationItself) {
  static std::optional<CustomOp<Tensor>> op;
  op = custom_op("test::itself", [](const Tensor& x) { return x * 4.0; });
  register_custom_op_autotuning(*op, {{.name = "itself", .decomposition = [](const Tensor& x) { return (*op)(x) + x * 0.0; }}});
  auto p = lowered([&](auto& in) { return (*op)(in[0]); }, {counting({4, 8})});
  EXPECT_EQ(open_in(p).alternatives.size(), 2u);
  for (auto& n : open_in(p).alternatives[1].program->nodes) EXPECT_FALSE(n.is_open());
}

TEST(CustomOp, AGeneratorSeesTheOperands) {
  auto op = custom_op("test::generated(Tensor x, int split=1) -> Tensor", [](const Tensor& x, int64_t split) {
    Tensor out = x;
    for (int64_t i = 0; i < split; ++i) out = out * 2.0;
    return out;
  });
  register_custom_op_autotuning(op, [](const std::vector<CustomOperand>& operands) {
    EXPECT_EQ(operands.at(0).name, "x");
    std::vector<CustomOpConfig> out;
    for (int64_t n = 1; n < operands.at(0).sizes.at(0); n *= 2) out.push_back({.params = {{"split", n}}});
    return out;
  });
  EXPECT_EQ(open_in(lowered([&](auto& in) { return op(in[0]); }, {counting({8, 2})})).alternatives.size(), 4u);
}

TEST(CustomOp, AGeneratorSeesTheDevice) {
  static std::vector<Device> seen;
  auto op = custom_op("test::placed", [](const Tensor& x) { return x * 2.0; });
  register_custom_op_autotuning(op, [](const std::vector<CustomOperand>& operands) {
    seen.push_back(operands.at(0).device);
    return std::vector<CustomOpConfig>{};
  });
  const Forward forward = [&](auto& in) { return op(in[0]); };
  compiled(forward, {counting({8, 2})});
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  front::kernels_for_gpu(graph_of(forward, {counting({8, 2})}), gpu);
  EXPECT_EQ(seen, (std::vector{Device::cpu(), Device::cuda()}));
}

// The line within the operation, and the operation with the line that calls it.
TEST(CustomOp, ErrorsSayInWhichOperationTheyAre) {
  static const auto both = custom_op("places::both", [](const Tensor& a, const Tensor& b) { return a + b; });
  const auto call = [](int& line) { return test::user_error([&] { line = __LINE__, both(ones({2}), ones({3})); }); };
  int line = 0;
  const std::string error = call(line);
  EXPECT_TRUE(test::contains(error, "sizes 2 and 3")) << error;
  EXPECT_TRUE(test::contains(error, fmt::format("(in places::both, called at custom_op_test.cpp:{})", line))) << error;
}

}  // namespace
}  // namespace toroid

// Convolutions of all ranks, plain and transposed, compiled, against the interpreter; none is a call of a reference kernel, on no target.
#include <gtest/gtest.h>

#include <random>

#include "backend/backend.h"
#include "front/compile_model.h"
#include "graph/interpreter.h"
#include "graph/pass.h"
#include "graph/passes/passes.h"
#include "graph/recorder.h"
#include "lower/lowering.h"
#include "toroid/device.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using Ints = std::vector<int64_t>;

struct Case {
  Ints x, weight, stride, padding, dilation, extra;
  int64_t groups = 1;
  bool transposed = false;
};

// With `rank` spatial dimensions.
Case random_case(std::mt19937& random, size_t rank, bool transposed) {
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  auto one_of = [&](const Ints& from) { return from[static_cast<size_t>(draw(0, static_cast<int64_t>(from.size()) - 1))]; };
  Case c;
  c.transposed = transposed;
  c.groups = one_of({1, 1, 2, 8});
  int64_t in = c.groups * one_of({1, 4, 9}), out = c.groups * one_of({1, 3, 8});
  c.x = {draw(1, 3), in};
  c.weight = {out, in / c.groups};
  if (transposed) c.weight = {in, out / c.groups};
  for (size_t d = 0; d < rank; ++d) {
    const int64_t kernel = draw(1, 4);
    c.weight.push_back(kernel);
    c.stride.push_back(draw(1, 3));
    c.dilation.push_back(one_of({1, 1, 2, 3}));
    const int64_t reach = (kernel - 1) * c.dilation.back();
    c.padding.push_back(draw(0, reach));
    c.extra.push_back(transposed ? draw(0, std::max(c.stride.back(), c.dilation.back()) - 1) : 0);
    c.x.push_back(reach + draw(1, 6));
  }
  return c;
}

// The vocoders', decoders' and video models' usual windows.
std::vector<Case> usual_cases() {
  return {
      {{1, 24, 20}, {24, 16, 16}, {8}, {4}, {1}, {0}, 1, true},
      {{2, 20, 17}, {20, 3, 3}, {2}, {1}, {1}, {1}, 1, true},
      {{2, 18, 6, 5}, {18, 16, 2, 2}, {2, 2}, {0, 0}, {1, 1}, {0, 0}, 1, true},
      {{1, 18, 5, 6}, {18, 16, 4, 4}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1, true},
      {{1, 18, 5, 6}, {18, 7, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1, true},
      {{1, 8, 3, 4, 5}, {8, 16, 2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, 1, true},
      {{2, 32, 40}, {32, 32, 3}, {1}, {3}, {3}, {0}, 1, false},
      {{1, 40, 1500}, {24, 40, 3}, {2}, {1}, {1}, {0}, 1, false},
      {{2, 32, 40}, {32, 1, 5}, {1}, {2}, {1}, {0}, 32, false},
      {{1, 3, 5, 8, 9}, {16, 3, 3, 3, 3}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, false},
      {{2, 16, 4, 5, 6}, {16, 16, 1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, false},
      {{1, 32, 3, 8, 8}, {24, 32, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1, false},
      {{0, 4, 6}, {4, 3, 2}, {2}, {0}, {1}, {0}, 1, true},
      {{2, 0, 6}, {3, 0, 2}, {1}, {0}, {1}, {0}, 1, false},
      {{2, 4, 3, 6, 6}, {0, 2, 2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, 2, false},
      {{1, 16, 4, 5, 6}, {16, 1, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, 16, false},
  };
}

std::vector<Case> cases(uint32_t seed, int count) {
  std::vector<Case> out = usual_cases();
  std::mt19937 random(seed);
  for (int i = 0; i < count; ++i) out.push_back(random_case(random, static_cast<size_t>(i % 3) + 1, i / 3 % 2 == 0));
  return out;
}

// relu of each convolution of an input, with a bias. open: the batch and the lengths are symbols. Weights are constants or inputs.
struct Program {
  std::unique_ptr<graph::Graph> graph = std::make_unique<graph::Graph>();
  std::vector<Tensor> inputs;

  Program(const std::vector<Case>& list, DType dtype, bool constants, bool open = false) {
    graph->name = "convolutions";
    graph::Recorder recorder(*graph);
    auto sizes_of = [](const Ints& v) { return std::vector<Expr>(v.begin(), v.end()); };
    for (const Case& c : list) {
      auto operand = [&](const Ints& sizes, bool constant, double scale = 1) {
        const Tensor data = nn::Init(inputs.size() + graph->inputs.size(), dtype).normal(sizes, 0, scale);
        if (constant) return data;
        TensorType type{dtype, sizes_of(sizes), {}};
        if (open && sizes == c.x)
          for (size_t d = 0; d < sizes.size(); ++d)
            if (d != 1 && sizes[d] > 1) type.sizes[d] = symbol(sizes[d]);
        inputs.push_back(data);
        return recorder.proxy(graph->add_input(type, graph::InputKind::User, "in" + std::to_string(inputs.size())));
      };
      const Tensor x = operand(c.x, false), w = operand(c.weight, constants, 0.5);
      const Tensor b = operand({c.transposed ? c.weight[1] * c.groups : c.weight[0]}, constants);
      DispatchScope scope(recorder);
      const Tensor y = ops::call1("convolution", {x, w, b, sizes_of(c.stride), sizes_of(c.padding), sizes_of(c.dilation), c.transposed,
                                                  sizes_of(c.extra), Expr(c.groups)});
      graph->outputs.emplace_back().value = recorder.value_of(ops::call1("relu", {y}));
    }
  }

 private:
  Expr symbol(int64_t size) {
    const Expr s = sym::symbol("s" + std::to_string(graph->symbols.size()), 2, 1 << 20);
    graph->symbols.push_back({s, false, size});
    return s;
  }
};

void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const std::vector<double> x = got[i].to(Device::cpu()).to_vector(), y = want[i].to_vector();
    ASSERT_EQ(got[i].sizes(), want[i].sizes()) << "case " << i;
    double range = 1, off = 0;
    for (size_t k = 0; k < y.size(); ++k) range = std::max(range, std::abs(y[k])), off = std::max(off, std::abs(x[k] - y[k]));
    EXPECT_LE(off, tolerance * range) << "case " << i;
  }
}

// Calls of reference kernels among what the passes and lowering make of a program for a target.
size_t host_calls(const graph::Graph& g, const ModelOptions& given) {
  const device::cuda::GpuInfo absent;
  const compiler::Setup setup = front::setup_of(given);
  const auto target = backend::make_backend(setup.device, setup.options, &absent);
  const program::Program p = lower::lower(*graph::run_passes(graph::clone(g), graph::pipeline(graph::kFrozen)),
                                          {.options = setup.options, .target = target.get()});
  return static_cast<size_t>(std::count_if(p.nodes.begin(), p.nodes.end(), [](auto& n) { return n.is_extern(); }));
}

void check(Program p, double tolerance) {
  EXPECT_EQ(host_calls(*p.graph, {.device = Device::cuda()}), 0u);
  const std::vector<Tensor> want = graph::interpret(*p.graph, p.inputs);
  auto compiled = front::compile_model(std::move(p.graph));
  EXPECT_EQ(compiled.report().host_calls, 0u);
  expect_close(compiled.run(p.inputs), want, tolerance);
}

void check_on_gpu(Program p, double tolerance) {
  const std::vector<Tensor> want = graph::interpret(*p.graph, p.inputs);
  auto compiled = front::compile_model(std::move(p.graph), {.device = Device::cuda()});
  EXPECT_EQ(compiled.report().host_calls, 0u);
  std::vector<Tensor> there;
  for (auto& t : p.inputs) there.push_back(t.to(Device::cuda()));
  expect_close(compiled.run(there), want, tolerance);
}

TEST(Convolutions, WithConstantWeights) { check(Program(cases(1, 12), DType::F32, true), 1e-5); }
TEST(Convolutions, InHalfPrecision) {
  check(Program(cases(2, 0), DType::F16, true), 4e-3);
  check(Program(cases(3, 0), DType::BF16, true), 3e-2);
}
TEST(Convolutions, OfF64) { check(Program(cases(4, 6), DType::F64, true), 1e-12); }
TEST(Convolutions, WithWeightsAsInputs) { check(Program(cases(5, 18), DType::F32, false), 1e-5); }
TEST(Convolutions, OfOpenSizes) { check(Program(cases(6, 6), DType::F32, true, true), 1e-5); }

// Whatever sizes a program takes, it takes as before.
TEST(Convolutions, AddNoGuards) {
  const Program p(cases(6, 6), DType::F32, true, true);
  const auto after = graph::plain_convolutions(*p.graph);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->guards.size(), p.graph->guards.size()) << graph::to_string(*after);
}

// However the phases of a transposed convolution lie, they are the same by themselves.
TEST(Convolutions, PhasesByThemselves) {
  std::mt19937 random(11);
  int apart = 0;
  for (int i = 0; i < 400; ++i) {
    Case c = random_case(random, 2, true);
    if (c.groups != 1) continue;
    const Program p({c}, DType::F32, i % 2 == 0);
    const auto after = graph::plain_convolutions_saving(*p.graph, 0);
    if (!after) continue;
    apart += std::any_of(after->nodes.begin(), after->nodes.end(), [](auto& n) { return n->op->name == "prims.interleave"; });
    expect_close(graph::interpret(*after, p.inputs), graph::interpret(*p.graph, p.inputs), 1e-5);
  }
  EXPECT_GT(apart, 15);
}

// Kernels that pack the weights themselves, but for single pixels, and for windows that are larger than the result.
TEST(Convolutions, TemplatesOfCpusTakeWeightsAsInputs) {
  if (device::host().isa == device::Isa::Scalar) GTEST_SKIP() << "no templates without vectors";
  const auto last_step = [](const Case& c) {
    auto compiled = front::compile_model(std::move(Program({c}, DType::F32, false).graph));
    return std::get<exec::Launch>(compiled.executable().plan().steps.back()).name;
  };
  EXPECT_TRUE(last_step({{2, 20, 9, 8}, {24, 20, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 1, false}).starts_with("convolution"));
  EXPECT_TRUE(last_step({{2, 32, 9, 8}, {32, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, 32, false}).starts_with("convolution"));
  EXPECT_TRUE(last_step({{1, 32, 9, 8}, {32, 8, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {0, 0}, 4, false}).starts_with("convolution"));
  EXPECT_TRUE(last_step({{1, 3, 16, 16}, {8, 3, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, 1, false}).starts_with("convolution"));
  EXPECT_TRUE(last_step({{2, 20, 9, 8}, {24, 20, 1, 1}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, false}).starts_with("gemm"));
  EXPECT_FALSE(last_step({{8, 4, 9, 8}, {16, 4, 8, 7}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, false}).starts_with("convolution"));
}

// By themselves, or after a loop that makes the windows, where more threads would make the same ones.
TEST(Convolutions, OfOpenLengthsAreProducts) {
  Program p({{{1, 64, 40}, {64, 64, 3}, {1}, {2}, {2}, {0}, 1, false}}, DType::F32, true, true);
  auto compiled = front::compile_model(std::move(p.graph));
  const auto& steps = compiled.executable().plan().steps;
  EXPECT_LE(steps.size(), 2u);
  EXPECT_TRUE(std::get<exec::Launch>(steps.back()).name.starts_with("gemm"));
}

TEST(Convolutions, OnAGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (DType t : {DType::F32, DType::F16, DType::BF16})
    for (bool constants : {true, false})
      check_on_gpu(Program(cases(7, 12), t, constants), t == DType::F32 ? 1e-5 : t == DType::F16 ? 4e-3 : 3e-2);
  check_on_gpu(Program(cases(8, 6), DType::F64, true), 1e-12);
  check_on_gpu(Program(cases(9, 6), DType::F16, true, true), 4e-3);
}

}  // namespace
}  // namespace toroid

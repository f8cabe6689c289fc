// Gradients of norms, whose rows and columns one kernel folds on Hopper (sched/rows_and_columns.h): compared with separate kernels and with
// f64 on a GPU; NVRTC compiles them anywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <optional>

#include "compile/model.h"
#include "compile/traced.h"
#include "front/backend.h"
#include "front/compile_model.h"
#include "jit/nvrtc.h"
#include "toroid/autocast.h"
#include "toroid/compile.h"
#include "toroid/device.h"
#include "toroid/error.h"
#include "toroid/grad.h"
#include "toroid/nn.h"
#include "toroid/nn/models/bert.h"
#include "toroid/ops.h"
#include "toroid/random.h"

namespace toroid::norms {
namespace {

using test::Function;
using test::graph_of;
using test::Tensors;

Tensor sample(const std::vector<int64_t>& sizes, DType dtype, unsigned seed, double mean = 0, double deviation = 1) {
  if (cuda_device_count() == 0) return Tensor::empty(sizes, dtype);  // sizes are all that is asked for
  manual_seed(seed);
  return to(mean + deviation * (2 * rand(sizes, DType::F32, Device::cuda()) - 1), dtype);
}

enum class Norm { Layer, Rms, Residual, Bias, Saved };

struct Case {
  std::string name;
  bool taken;  // whether one kernel folds rows and columns
  Function function;
  Tensors inputs;
};

// Gradients of a norm over the last dimension. Residual: of a sum with a bias, scaled by a mask and added to a tensor, all of whose
// gradients are wanted; Bias: of a sum with a bias, whose gradient sums columns of the result; Saved: with the mean and the deviation of
// rows, sums of columns first.
Case gradients_of(Norm norm, DType dtype, int64_t rows, int64_t columns, bool taken) {
  Case c;
  constexpr const char* kNames[] = {"layer_norm", "rms_norm", "residual", "bias", "saved"};
  c.name = fmt::format("{} {} of {} x {}", kNames[static_cast<int>(norm)], name_of(dtype), rows, columns);
  c.taken = taken;
  c.inputs = {sample({rows, columns}, dtype, 1, 0.25),
              sample({columns}, dtype, 2, 1, 0.5),
              sample({columns}, dtype, 3),
              sample({rows, columns}, dtype, 4),
              sample({rows, columns}, dtype, 5),
              sample({rows, norm == Norm::Residual ? columns : 1}, DType::F32, 6),
              sample({rows, 1}, DType::F32, 7, 1, 0.5),
              sample({columns}, dtype, 8)};
  if (norm == Norm::Saved) {
    c.function = [](const Tensors& x) {
      const DType given = x[0].dtype(), wide = x[5].dtype();
      const Tensor dy = to(x[3], wide), normed = (to(x[0], wide) - x[5]) * x[6], scaled = dy * to(x[1], wide);
      const Tensor scale = to(sum(dy * normed, {0}), given), shift = to(sum(dy, {0}), given);
      return Tensors{scale, shift, to((scaled - mean(scaled, {-1}, true) - normed * mean(scaled * normed, {-1}, true)) * x[6], given)};
    };
    return c;
  }
  c.function = [norm, columns](const Tensors& x) {
    const auto forward = [&](const Tensor& y) {
      if (norm == Norm::Layer) return layer_norm(y, columns, x[1], x[2]);
      if (norm == Norm::Rms) return rms_norm(y, columns, x[1], 1e-6);
      if (norm == Norm::Bias) return layer_norm(y + x[2], columns, x[1], x[2]);
      return layer_norm((y + x[7]) * x[4] + x[5], columns, x[1], x[2]);
    };
    Tensors by{x[0], x[1]};
    if (norm != Norm::Rms) by.push_back(x[2]);
    if (norm == Norm::Residual) by.insert(by.end(), {x[5], x[7]});
    return vjp([&] { return Tensors{forward(x[0])}; }, by, Tensors{x[3]}).second;
  };
  return c;
}

std::vector<Case> cases(bool all) {
  std::vector<Case> out;
  for (Norm norm : {Norm::Layer, Norm::Rms, Norm::Residual, Norm::Bias, Norm::Saved})
    for (DType dtype : {DType::BF16, DType::F16, DType::F32}) {
      const auto add = [&](int64_t rows, int64_t columns, bool taken = true) {
        out.push_back(gradients_of(norm, dtype, rows, columns, taken));
      };
      if (!all && dtype != (norm == Norm::Saved ? DType::F32 : DType::BF16)) continue;
      add(2113, 1024);
      if (dtype == DType::F16) continue;
      if (norm != Norm::Residual) add(1057, dtype == DType::F32 ? 4096 : 8192);
      if (!all) continue;
      add(1100, 771, dtype == DType::F32);
      if (dtype == DType::F32) continue;
      add(1056, 768);
      add(1061, 770);
      add(5003, 256);
      add(1200, 3000);
      if (norm == Norm::Rms) add(1056, 16384);
      add(1, 1024, false);
      add(130, 1024, false);
    }
  return out;
}

using Options = std::map<std::string, std::string>;
const Options kTogether, kApart{{"disable_passes", "rows_and_columns"}};

size_t together(const std::vector<std::string>& choices) {
  return static_cast<size_t>(std::count_if(choices.begin(), choices.end(),
                                           [](auto& line) { return line.find("columns are summed with rows") != std::string::npos; }));
}

double squares_in(const Tensor& x) { return sum(x * x).to(Device::cpu()).to_vector()[0]; }

// As a share of what is wanted; where that is as good as nothing, of `least`.
double distance(const Tensor& got, const Tensor& want, double least = 0) {
  if (got.sizes() != want.sizes()) return HUGE_VAL;
  const Tensor right = to(want, DType::F64);
  return std::sqrt(squares_in(to(got, DType::F64) - right)) / std::max(std::sqrt(squares_in(right)), least);
}

TEST(GpuNorms, CompileForHopper) {
  device::cuda::GpuInfo gpu;
  for (auto& c : cases(false))
    for (const char* architecture : {"sm_90a", "sm_80"}) {
      if (architecture == std::string("sm_80") && c.name.find("layer_norm") == std::string::npos) continue;
      SCOPED_TRACE(fmt::format("{} for {}", c.name, architecture));
      gpu.architecture = architecture;
      const auto count = [&](const Options& options) {
        size_t kernels = 0;
        for (auto& k :
             compiler::kernels_of(graph_of(c.function, c.inputs), front::setup_of({.device = Device::cuda(), .options = options}), &gpu)) {
          if (k.plan.find("whose columns are summed") == std::string::npos) continue;
          ++kernels;
          try {
            jit::nvrtc_check(k.source, gpu.architecture, k.name);
          } catch (const EnvironmentError&) {
            continue;  // no NVRTC
          }
        }
        return kernels;
      };
      EXPECT_EQ(count(kTogether), 1u);
      EXPECT_EQ(count(kApart), 0u);
    }
}

TEST(GpuNorms, AreThoseOfSeparateKernels) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  for (auto& c : cases(true)) {
    SCOPED_TRACE(c.name);
    Tensors wide;
    for (auto& t : c.inputs) wide.push_back(t.to(DType::F64));
    const auto compiled = [&](const Tensors& inputs, const Options& options) {
      return std::async(std::launch::async, [&c, inputs, options] {
        return front::compile_model(graph_of(c.function, inputs), {.device = Device::cuda(), .freeze = false, .options = options});
      });
    };
    auto one = compiled(c.inputs, kTogether), several = compiled(c.inputs, kApart), exact = compiled(wide, kApart);
    const auto run = [&](auto model, bool taken) {
      EXPECT_EQ(together(model.report().schedule.choices) > 0, taken);
      const Tensors out = model.run(c.inputs), again = model.run(c.inputs);
      for (size_t i = 0; i < out.size(); ++i)
        EXPECT_EQ(distance(again[i], out[i]), 0) << "result " << i << " is another one in the second run";
      return out;
    };
    const Tensors got = run(one.get(), c.taken), want = run(several.get(), false), right = exact.get().run(wide);
    ASSERT_EQ(got.size(), want.size());
    const DType dtype = c.inputs[0].dtype();
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(distance(got[i], want[i]), dtype == DType::BF16 ? 4e-3 : dtype == DType::F16 ? 5e-4 : 2e-6) << "result " << i;
      EXPECT_LE(distance(got[i], right[i]), 1.5 * distance(want[i], right[i]) + 1e-6) << "result " << i;
    }
  }
}

// Norms among dropout, residual sums and biases, whose gradients all come of the same elements.
TEST(GpuNorms, OfBertAreThoseOfSeparateKernels) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  nn::BertConfig config;
  config.vocab_size = 512, config.hidden_size = 256, config.num_hidden_layers = 2, config.num_attention_heads = 4,
  config.intermediate_size = 512;
  nn::BertForSequenceClassification model(config, 2, nn::Init(1, DType::F32, Device::cuda()));
  model.train();
  const Tensor tokens = to(512 * rand({16, 128}, DType::F32, Device::cuda()), DType::I64),
               labels = to(2 * rand({16}, DType::F32, Device::cuda()), DType::I64);
  const std::vector<Tensor> parameters = model.parameters();
  for (const bool half : {false, true}) {
    SCOPED_TRACE(half ? "bf16" : "f32");
    const auto gradients = [&](const Options& options) {
      auto step = compile(
          [&] {
            std::optional<autocast> cast;
            if (half) cast.emplace(DeviceType::Cuda, DType::BF16);
            return value_and_gradients([&] { return cross_entropy(to(model.forward(tokens, {}), DType::F32), labels); }, parameters).second;
          },
          {.fullgraph = true, .options = options});
      manual_seed(5);
      return step();
    };
    size_t joined = 0;
    front::register_backend("norms", [&](std::unique_ptr<graph::Graph> graph, const front::BackendOptions&) {
      auto inner =
          std::make_shared<compiler::CompiledModel>(front::compile_model(std::move(graph), {.device = Device::cuda(), .freeze = false}));
      joined = together(inner->report().schedule.choices);
      return [inner](std::span<const Tensor> inputs) { return inner->run(inputs); };
    });
    const Tensors got = gradients({{"backend", "norms"}}), want = gradients(kApart);
    EXPECT_GE(joined, 6u);
    ASSERT_EQ(got.size(), want.size());
    double largest = 0;
    for (auto& t : want) largest = std::max(largest, std::sqrt(squares_in(to(t, DType::F64))));
    // A key's bias has no gradient but what is rounded.
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(distance(got[i], want[i], 1e-3 * largest), half ? 2e-2 : 2e-5) << "gradient " << i;
  }
}

}  // namespace
}  // namespace toroid::norms

// Tensors of several devices: what is checked, guarded and reported. Tensors that claim to be on a GPU stand in for those that are, since
// nothing here reads them; programs for them are compiled by NVRTC.
#include "front/backend.h"
#include "front/compile_model.h"
#include "front/harness.h"
#include "jit/nvrtc.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using namespace test;

Tensor claimed(const std::vector<int64_t>& sizes, int index = 0, DType dtype = DType::F32) {
  auto memory = std::make_shared<std::vector<double>>(64);
  return Tensor::from_blob(memory->data(), sizes, dtype, {}, memory, Device::cuda(index));
}

// What a backend was given.
struct Given {
  front::BackendOptions options;
  std::vector<std::string> kernels;  // for a GPU
};
std::vector<Given>& given() {
  static std::vector<Given> list;
  return list;
}

// Generates kernels, and returns tensors of the right device.
CompileConfig by_watcher(CompileConfig c = {}) {
  static const bool registered = [] {
    front::register_backend("watcher", [](std::unique_ptr<graph::Graph> g, const front::BackendOptions& options) -> front::Program {
      Given now{options, {}};
      std::vector<Tensor> results;
      for (auto& d : options.output_devices) results.push_back(d.is_cuda() ? claimed({2}, d.index) : counting({2}));
      if (options.device.is_cuda())
        for (auto& k : front::kernels_for_gpu(std::move(g), {})) now.kernels.push_back(k.source);
      given().push_back(std::move(now));
      return [results](std::span<const Tensor>) { return results; };
    });
    return true;
  }();
  EXPECT_TRUE(registered);
  given().clear();
  c.options["backend"] = "watcher";
  return c;
}

// One more than there are: with no driver, no GPU or one of another index missing, whoever asks is told what was looked for.
TEST(AbsentGpu, IsAnEnvironmentErrorThatSaysWhatIsMissing) {
  const Device absent = Device::cuda(cuda_device_count());
  Tensor x = counting({2});
  nn::Linear layer(2, 2);
  const std::pair<const char*, std::function<void()>> ways[] = {
      {"empty", [&] { Tensor::empty({2}, DType::F32, absent); }},
      {"full", [&] { Tensor::full(std::vector<int64_t>{2}, 1, DType::F32, absent); }},
      {"of",
       [&] {
         Tensor::of({1, 2}, {2}, DType::F32, absent);
       }},
      {"to", [&] { x.to(absent); }},
      {"zeros", [&] { zeros({2}, DType::F32, absent); }},
      {"rand", [&] { rand({2}, DType::F32, absent); }},
      {"scope",
       [&] {
         DeviceScope scope(absent);
         ones({3});
       }},
      {"module", [&] { layer.to(absent); }},
      {"function", [&] { compile([&](const Tensor& t) { return t.to(absent) + 1; })(x); }},
      {"model", [&] { Model::load(std::string(TOROID_SOURCE_DIR) + "/examples/digits/digits.pt2", {.device = absent}); }},
      {"synchronize", [&] { synchronize(absent); }},
  };
  for (auto& [name, way] : ways) {
    const std::string what = environment_error(way);
    EXPECT_TRUE(contains(what, "libcuda.so.1") || contains(what, to_string(absent))) << name << ": " << what;
  }
  EXPECT_FALSE(layer.weight.device().is_cuda()) << "a module that could not move stays whole";
}

TEST(Placement, TwoDevicesAreAnErrorThatNamesBoth) {
  Tensor x = counting({2}), y = claimed({2});
  for (auto& what : {user_error([&] { x + y; }), user_error([&] { compile([](auto& a, auto& b) { return a + b; }, by_watcher())(x, y); }),
                     user_error([&] { compile([&](auto& a) { return x + a; }, by_watcher())(y); })})
    EXPECT_TRUE(contains(what, "add.Tensor: \"self\" is on cpu and \"other\" on cuda:0")) << what;
  EXPECT_TRUE(contains(user_error([&] { cat({claimed({2}), claimed({2}, 1)}); }), "is on cuda:0 and \"tensors\" on cuda:1"));
  EXPECT_TRUE(contains(user_error([&] { add_(Tensor::full({}, 1), claimed({})); }), "is on cpu and \"other\" on cuda:0"));
}

TEST(Placement, NumbersAndIndicesMayComeFromTheCpu) {
  auto f = compile([](const Tensor& a, const Tensor& n, const Tensor& i) { return std::tuple(n * a, index(a, {i})); }, by_watcher());
  auto [scaled, picked] = f(claimed({2}), Tensor::full({}, 3), Tensor::full(std::vector<int64_t>{2}, 1, DType::I64));
  EXPECT_EQ(scaled.device(), Device::cuda());
  EXPECT_EQ(picked.device(), Device::cuda());
  ASSERT_EQ(given().size(), 1u);
  EXPECT_EQ(given()[0].options.device, Device::cuda());
}

TEST(Placement, IsGuarded) {
  auto f = compile([](const Tensor& x) { return x + 1; }, by_watcher({.input_names = {"x"}}));
  f(counting({2}));
  f(claimed({2}));
  f(claimed({2}, 1));
  f(counting({2}));
  f(claimed({2}));
  auto r = f.report();
  EXPECT_EQ(r.compiles, 3);
  EXPECT_EQ(r.recompile_reasons,
            (std::vector<std::string>{"input 0 (x): device was cpu, is cuda:0", "input 0 (x): device was cuda:0, is cuda:1"}));
  ASSERT_EQ(given().size(), 3u);
  EXPECT_EQ(given()[0].options.device, Device::cpu());
  EXPECT_TRUE(given()[0].kernels.empty());
  EXPECT_EQ(given()[1].options.device, Device::cuda());
  EXPECT_EQ(given()[2].options.device, Device::cuda(1));
}

TEST(Placement, AFunctionOfGpuTensorsIsCompiledToKernelsOfThatGpu) {
  nn::Linear layer(8, 8);
  auto f = compile([](const Tensor& x, const Tensor& w) { return softmax(gelu(linear(x, w)) * rand_like(x), -1); }, by_watcher());
  f(claimed({2, 8}), claimed({8, 8}));
  ASSERT_EQ(given().size(), 1u);
  ASSERT_FALSE(given()[0].kernels.empty());
  for (auto& source : given()[0].kernels) {
    EXPECT_TRUE(contains(source, "__global__"));
    try {
      EXPECT_FALSE(jit::nvrtc_compile(source, "sm_90a", "kernel").empty());
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }
}

TEST(Placement, NewTensorsAreWhereTheyAreAskedFor) {
  auto f = compile(
      [](const Tensor& x) {
        EXPECT_EQ(x.device(), Device::cuda());
        EXPECT_EQ(zeros_like(x).device(), Device::cuda());
        EXPECT_EQ(arange(3, DType::I64, x.device()).device(), Device::cuda());
        EXPECT_EQ(transpose(unsqueeze(x, 0), 0, 1).device(), Device::cuda());
        Tensor host = zeros({2});
        EXPECT_EQ(host.device(), Device::cpu());
        return std::tuple(x + host.to(x.device()), host + 1, x.to(Device::cpu()) + host);
      },
      by_watcher());
  auto [a, b, c] = f(claimed({2}));
  EXPECT_EQ(a.device(), Device::cuda());
  EXPECT_EQ(b.device(), Device::cpu());
  EXPECT_EQ(c.device(), Device::cpu());
  EXPECT_EQ(f.report().compiles, 1);
  EXPECT_TRUE(f.report().graph_breaks.empty());
}

TEST(Placement, TheDefaultDeviceIsGuarded) {
  auto f = compile([](int64_t n) { return ones({n}); }, by_watcher());
  EXPECT_EQ(f(2).device(), Device::cpu());
  {
    DeviceScope scope(Device::cuda());
    EXPECT_EQ(f(2).device(), Device::cuda());
  }
  EXPECT_EQ(f(2).device(), Device::cpu());
  EXPECT_EQ(f.report().recompile_reasons, (std::vector<std::string>{"the default device was cpu, is cuda:0"}));
}

TEST(Placement, ASecondGpuBreaksTheGraph) {
  auto body = [](const Tensor& x) { return (x + 1).to(Device::cuda(1)) * 2; };
  EXPECT_TRUE(
      contains(user_error([&] { compile(body, by_watcher({.fullgraph = true}))(claimed({2})); }), "cuda:1 follows cuda:0 in one function"));
  auto f = compile(body, by_watcher());
  EXPECT_EQ(f(claimed({2})).device(), Device::cuda(1));
  EXPECT_EQ(f.report().graph_breaks, (std::vector<std::string>{"cuda:1 follows cuda:0 in one function"}));
  EXPECT_EQ(f.report().compiles, 2);
}

TEST(Placement, ViewsStayOnTheirDevice) {
  Tensor x = claimed({2, 3});
  EXPECT_EQ(transpose(x, 0, 1).device(), Device::cuda());
  EXPECT_EQ(select(x, 1, 2).strides(), (std::vector<int64_t>{3}));
  EXPECT_EQ(select(x, 1, 2).raw_data(), x.raw_data() + 2 * sizeof(float));
}

}  // namespace
}  // namespace toroid

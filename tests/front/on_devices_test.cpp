// The same programs on the CPU and on a GPU (skipped where there is none): eager and compiled calls, modules, random numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "front/compile_model.h"
#include "front/eager.h"
#include "front/harness.h"
#include "toroid/autocast.h"
#include "toroid/nn.h"
#include "toroid/random.h"

namespace toroid {
namespace {

using namespace test;
using front::EagerDispatcher;
using Values = std::vector<double>;

class OnDevices : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    device_ = device_from_name(GetParam());
    if (device_.is_cuda() && cuda_device_count() == 0) GTEST_SKIP() << "no GPU";
  }
  Tensor count(const std::vector<int64_t>& sizes, DType dtype = DType::F32) const { return counting(sizes, dtype).to(device_); }
  Tensor of(std::initializer_list<double> v, std::initializer_list<int64_t> sizes, DType dtype = DType::F32) const {
    return Tensor::of(v, sizes, dtype, device_);
  }
  void expect_near(const Tensor& got, const Tensor& want, double tolerance = 2e-5) const {
    EXPECT_EQ(got.device(), device_);
    ASSERT_EQ(got.sizes(), want.sizes());
    EXPECT_EQ(got.dtype(), want.dtype());
    const Values a = got.to_vector(), b = want.to_vector();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << "element " << i;
  }
  Device device_;
};

TEST_P(OnDevices, EagerComputesAtOnce) {
  Tensor x = of({1, -2, 3}, {3});
  EXPECT_EQ((relu(x) + 1).to_vector(), (Values{2, 1, 4}));
  EXPECT_EQ((1 - x).to_vector(), (Values{0, 3, -2}));
  EXPECT_EQ((0 < x).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(where(x > 0, x, 0.0).to_vector(), (Values{1, 0, 3}));
  EXPECT_EQ(sum(count({2, 3}), 1).to_vector(), (Values{3, 12}));
  EXPECT_EQ(matmul(count({2, 2}), count({2, 1})).to_vector(), (Values{1, 3}));
  EXPECT_EQ((x * Tensor::full({}, 2)).to_vector(), (Values{2, -4, 6})) << "a number from the CPU";
  EXPECT_EQ(x.device(), device_);
  EXPECT_EQ(sum(x).item(), 2);
  EXPECT_EQ((count({2}, DType::F16) + 0.5).dtype(), DType::F16);
  EXPECT_EQ(softmax(count({4, 33}), -1).device(), device_);
}

TEST_P(OnDevices, Prints) { EXPECT_EQ(to_string(of({1, 2.5}, {2})), device_.is_cuda() ? "f32[2] on cuda:0 {1, 2.5}" : "f32[2] {1, 2.5}"); }

TEST_P(OnDevices, ViewsShareMemory) {
  Tensor x = count({2, 3});
  Tensor column = select(x, 1, 2), turned = transpose(x, 0, 1), tail = slice(x, 1, 1), flat = flatten(x);
  fill_(column, 9);
  EXPECT_EQ(x.to_vector(), (Values{0, 1, 9, 3, 4, 9}));
  EXPECT_EQ(turned.to_vector(), (Values{0, 3, 1, 4, 9, 9}));
  add_(tail, 1);
  EXPECT_EQ(flat.to_vector(), (Values{0, 2, 10, 3, 5, 10}));
  EXPECT_EQ(contiguous(turned).to_vector(), (Values{0, 3, 2, 5, 10, 10}));
  EXPECT_EQ((turned + 0).to_vector(), turned.to_vector());
  copy_(turned, count({3, 2}, DType::I32));
  EXPECT_EQ(x.to_vector(), (Values{0, 2, 4, 1, 3, 5}));
}

TEST_P(OnDevices, WritesInPlace) {
  Tensor x = count({3}, DType::F16);
  const std::byte* memory = x.raw_data();
  Tensor same = add_(mul_(x, 2), count({3}));
  EXPECT_EQ(x.to_vector(), (Values{0, 3, 6}));
  EXPECT_EQ(same.raw_data(), memory);
  zero_(x);
  EXPECT_EQ(x.to_vector(), (Values{0, 0, 0}));
  copy_(x, counting({3}));
  EXPECT_EQ(x.to_vector(), (Values{0, 1, 2})) << "from the CPU";
  Tensor y = count({4});
  index_put_(y, {of({1, 3}, {2}, DType::I64)}, of({7, 8}, {2}));
  EXPECT_EQ(y.to_vector(), (Values{0, 7, 2, 8}));
}

TEST_P(OnDevices, Indexing) {
  Tensor x = count({3, 4}), i = of({2, 0}, {2}, DType::I64);
  EXPECT_EQ(index_select(x, 0, i).to_vector(), (Values{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(index(x, {i.to(Device::cpu())}).to_vector(), index_select(x, 0, i).to_vector());
  EXPECT_EQ(gather(x, 1, of({3, 0, 1}, {3, 1}, DType::I64)).to_vector(), (Values{3, 4, 9}));
  EXPECT_EQ(nonzero(x > 9).to_vector(), (Values{2, 2, 2, 3}));
  EXPECT_EQ(sort(of({3, 1, 2}, {3})).first.to_vector(), (Values{1, 2, 3}));
}

TEST_P(OnDevices, NewTensors) {
  for (const Tensor& t : {zeros({3}, DType::F32, device_), arange(3, DType::I64, device_), rand({3}, DType::F32, device_),
                          full({2}, 1, DType::F16, device_), eye(2, DType::F32, device_), zeros_like(count({2})), randn_like(count({2}))})
    EXPECT_EQ(t.device(), device_);
  DeviceScope scope(device_);
  EXPECT_EQ(ones({2}).device(), device_);
  EXPECT_EQ(full({600, 500}, 3).to_vector(), Values(300000, 3)) << "large enough for a kernel";
}

// Whoever draws: the host for few numbers, a kernel for many, a compiled program.
TEST_P(OnDevices, RandomNumbersAreTheStreamOfTheProcess) {
  auto compiled_draw = compile([](const Tensor& like) { return rand_like(like); });
  for (int64_t n : {10, 1 << 18}) {
    toroid::manual_seed(int64_t{5});
    Tensor uniform = rand({n}), normal = randn({n});
    toroid::manual_seed(int64_t{5});
    EXPECT_EQ(rand({n}, DType::F32, device_).to_vector(), uniform.to_vector());
    expect_near(randn({n}, DType::F32, device_), normal);
    toroid::manual_seed(int64_t{5});
    EXPECT_EQ(compiled_draw(zeros({n}, DType::F32, device_)).to_vector(), uniform.to_vector());
  }
}

TEST_P(OnDevices, CompiledFunctions) {
  Tensor w = count({8, 8});
  auto f = compile([&w](const Tensor& x, double scale) { return softmax(gelu(matmul(x, w) * scale), -1) + x; });
  for (int64_t n : {4, 4, 5, 6}) {
    Tensor x = counting({n, 8});
    expect_near(f(x.to(device_) * 0.01, 0.1), softmax(gelu(matmul(x * 0.01, w.to(Device::cpu())) * 0.1), -1) + x * 0.01, 1e-4);
  }
  EXPECT_EQ(f.report().compiles, 2);
  EXPECT_EQ(f.report().eager_calls, 0);
  fill_(w, 0);
  expect_near(f(count({4, 8}), 0.1), counting({4, 8}) + 0.125);
}

TEST_P(OnDevices, CompiledFunctionsWriteAndBreak) {
  auto f = compile([](const Tensor& x) {
    fill_(select(x, 1, 0), 7);
    if (sum(x).item() > 17) return x * 2;
    return x - 1;
  });
  for (int i = 0; i < 3; ++i) {
    Tensor x = count({2, 2});
    EXPECT_EQ(f(x).to_vector(), (Values{14, 2, 14, 6}));
    EXPECT_EQ(x.to_vector(), (Values{7, 1, 7, 3}));
    EXPECT_EQ(f(zeros({2, 2}, DType::F32, device_)).to_vector(), (Values{6, -1, 6, -1}));
  }
  EXPECT_EQ(f.report().graph_breaks.size(), 1u);
}

// What is read from the CPU, and what belongs there.
TEST_P(OnDevices, CompiledFunctionsMoveTensors) {
  Tensor host = counting({3});
  auto f = compile([&](const Tensor& x, const Tensor& number) {
    add_(host, 1);
    return std::pair(x * number + host.to(device_), x.to(Device::cpu()) + host);
  });
  for (double i : {1.0, 2.0}) {
    auto [there, here] = f(count({3}), Tensor::full({}, i));
    expect_near(there, counting({3}) * i + counting({3}) + i);
    EXPECT_EQ(here.device(), Device::cpu());
    EXPECT_EQ(here.to_vector(), (counting({3}) * 2 + i).to_vector());
    EXPECT_EQ(host.to_vector(), (counting({3}) + i).to_vector());
  }
}

// Recorded ones too: a recording holds the addresses of what was captured when it was made.
TEST_P(OnDevices, CompiledFunctionsFollowAssignedTensors) {
  for (Mode mode : {Mode::Default, Mode::ReduceOverhead}) {
    Tensor scale = of({1, 2, 3}, {3}), offset = of({0, 0, 1}, {3});
    auto f = compile([&](const Tensor& x) { return sum(x * scale, {0}, true) + offset; }, {.mode = mode});
    const Tensor x = of({1, 1, 1}, {3});
    for (int round = 0; round < 3; ++round) {
      for (int call = 0; call < 4; ++call) expect_near(f(x), sum(x * scale, {0}, true) + offset);
      if (round == 0) scale = of({4, 5, 6}, {3});
      if (round == 1) offset = of({7, 8, 9}, {3});
    }
    EXPECT_EQ(f.report().compiles, 1);
    EXPECT_EQ(f.report().rebinds, 2);
  }
}

TEST_P(OnDevices, Modules) {
  nn::BertConfig c;
  c.vocab_size = 64, c.hidden_size = 32, c.num_hidden_layers = 2, c.num_attention_heads = 4, c.intermediate_size = 64;
  nn::BertModel model(c, true, nn::Init(1));
  Tensor ids = remainder(counting({2, 9}, DType::I64), 64), mask = Tensor::full(std::vector<int64_t>{2, 9}, 1, DType::I64);
  const Tensor want = model.forward(ids, mask);
  model.to(device_);
  EXPECT_EQ(model.parameters()[0].device(), device_);
  auto f = compile([&](const Tensor& i, const Tensor& m) { return model.forward(i, m); });
  expect_near(f(ids.to(device_), mask.to(device_)), want, 1e-3);
  expect_near(model.forward(ids.to(device_), mask.to(device_)), want, 1e-3);
  model.to(DType::F16);
  EXPECT_EQ(model.parameters()[0].device(), device_);
  EXPECT_EQ(model.forward(ids.to(device_), mask.to(device_)).dtype(), DType::F16);
}

TEST_P(OnDevices, CachedDecodingFollowsTheModule) {
  nn::LlamaConfig c;
  c.vocab_size = 64, c.hidden_size = 32, c.num_attention_heads = 4, c.num_key_value_heads = 2, c.intermediate_size = 64,
  c.num_hidden_layers = 2;
  nn::LlamaForCausalLM model(c, nn::Init(1));
  Tensor ids = remainder(counting({1, 5}, DType::I64) * 7, 64);
  const Tensor want = model.forward(ids, {});
  model.to(device_);
  model.allocate_cache(1, 16);
  auto step = compile([&](const Tensor& i, const Tensor& p) { return model.forward_cached(i, p); }, {.mode = Mode::ReduceOverhead});
  for (int64_t at = 0; at < 5; ++at)
    expect_near(
        step(slice(ids, 1, at, at + 1).to(device_), Tensor::full(std::vector<int64_t>{1}, static_cast<double>(at), DType::I64, device_)),
        slice(want, 1, at, at + 1), 1e-3);
  EXPECT_EQ(step.report().compiles, 1);
}

TEST_P(OnDevices, Autocast) {
  Tensor x = nn::Init(1).normal({8, 64}, 0, 1), w = nn::Init(2).normal({32, 64}, 0, 0.2);
  const Tensor want = softmax(linear(x, w), -1);
  auto f = compile([](const Tensor& a, const Tensor& b) { return softmax(linear(a, b), -1); });
  autocast scope(device_.type, DType::BF16);
  const Tensor a = x.to(device_), b = w.to(device_);
  for (const Tensor& got : {f(a, b), softmax(linear(a, b), -1)}) {
    EXPECT_EQ(got.dtype(), device_.is_cuda() ? DType::F32 : DType::BF16);
    expect_near(to(got, DType::F32), want, 0.03);
  }
}

TEST_P(OnDevices, ParametersAreMadeThere) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    nn::Init host(7, dtype), there(7, dtype, device_);
    for (int64_t n : {1, 7, 4096}) {
      expect_near(there.uniform({n}, -1, 3), host.uniform({n}, -1, 3), dtype == DType::F32 ? 1e-6 : 0.01);
      expect_near(there.normal({n, 3}, 1, 2), host.normal({n, 3}, 1, 2), dtype == DType::F32 ? 1e-5 : 0.01);
    }
    expect_near(there.constant({5}, 2), host.constant({5}, 2));
  }
}

// By several threads, in pieces.
TEST_P(OnDevices, LargeCopiesArriveWhole) {
  Tensor host = Tensor::empty({(40 << 20) + 3}, DType::I32);
  for (int64_t i = 0; i < host.numel(); ++i) host.data<int32_t>()[i] = static_cast<int32_t>(i * 2654435761);
  const Tensor back = host.to(device_).to(Device::cpu());
  EXPECT_EQ(std::memcmp(back.raw_data(), host.raw_data(), static_cast<size_t>(host.numel()) * 4), 0);
}

// Weights of a program come from the host; those of products that are merged are joined on the way.
TEST_P(OnDevices, WeightsFromTheHost) {
  Tensor x = nn::Init(1).normal({4, 256}, 0, 1);
  std::vector<Tensor> w;
  for (uint64_t i = 0; i < 3; ++i) w.push_back(nn::Init(i + 2).normal({256, 256}, 0, 0.1).set_requires_grad(true));
  auto forward = [&](const std::vector<Tensor>& in) { return linear(in[0], w[0]) + linear(in[0], w[1]) * linear(in[0], w[2]); };
  auto model = front::compile_model(graph_of(forward, {x}), {.device = device_});
  expect_near(model.run(std::vector{x.to(device_)})[0], forward({x}), 1e-3);
  EXPECT_EQ(model.report().uploaded_bytes, device_.is_cuda() ? 3u * 256 * 256 * 4 : 0u);
  EXPECT_TRUE(contains(compiler::time_text(model.report()), "compiler"));
}

INSTANTIATE_TEST_SUITE_P(All, OnDevices, testing::Values("cpu", "cuda"), [](auto& i) { return std::string(i.param); });

}  // namespace
}  // namespace toroid

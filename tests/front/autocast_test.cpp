// Autocast: which operation takes what, eager and compiled alike; guards; what the casts cost.
#include "toroid/autocast.h"

#include "front/compile_model.h"
#include "front/harness.h"
#include "ops/autocast.h"
#include "toroid/nn.h"

namespace toroid {
namespace {

using namespace test;

constexpr DType kF32 = DType::F32, kBf16 = DType::BF16, kF16 = DType::F16;

struct Row {
  const char* name;
  Forward f;        // of three f32 tensors: [2, 3], [3, 3], [3]
  DType cpu, cuda;  // dtype of the result under bf16
};

// Results of operations on f32 and on bf16 operands.
const Row kRows[] = {
    {"matmul", [](auto& in) { return matmul(in[0], in[1]); }, kBf16, kBf16},
    {"linear", [](auto& in) { return linear(in[0], in[1], in[2]); }, kBf16, kBf16},
    {"mm_of_casts", [](auto& in) { return mm(matmul(in[0], in[1]), in[1]); }, kBf16, kBf16},
    {"einsum",
     [](auto& in) {
       return einsum("ij,jk->ik", {in[0], in[1]});
     },
     kBf16, kBf16},
    {"attention",
     [](auto& in) {
       Tensor q = unsqueeze(unsqueeze(in[0], 0), 0);
       return scaled_dot_product_attention(q, q, q);
     },
     kBf16, kBf16},
    {"add", [](auto& in) { return in[0] + in[2]; }, kF32, kF32},
    {"add_of_cast", [](auto& in) { return matmul(in[0], in[1]) + in[2]; }, kF32, kF32},
    {"relu_of_cast", [](auto& in) { return relu(matmul(in[0], in[1])); }, kBf16, kBf16},
    {"softmax_of_cast", [](auto& in) { return softmax(matmul(in[0], in[1]), -1); }, kBf16, kF32},
    {"exp_of_cast", [](auto& in) { return exp(matmul(in[0], in[1])); }, kBf16, kF32},
    {"pow_of_cast", [](auto& in) { return pow(matmul(in[0], in[1]), 2); }, kBf16, kF32},
    {"sum_of_cast", [](auto& in) { return sum(matmul(in[0], in[1])); }, kBf16, kF32},
    {"reciprocal_of_cast", [](auto& in) { return 1 / matmul(in[0], in[1]); }, kBf16, kF32},
    {"layer_norm_of_cast", [](auto& in) { return layer_norm(matmul(in[0], in[1]), {3}); }, kBf16, kF32},
    {"pad_of_cast",
     [](auto& in) {
       return pad(matmul(in[0], in[1]), {1, 1});
     },
     kBf16, kBf16},
    {"reflected_of_cast",
     [](auto& in) {
       return pad(matmul(in[0], in[1]), {1, 1}, "reflect");
     },
     kF32, kBf16},
    {"repeated_of_cast",
     [](auto& in) {
       return pad(matmul(in[0], in[1]), {1, 1}, "replicate");
     },
     kF32, kBf16},
    {"gru_cell",
     [](auto& in) {
       const Tensor w = cat({in[1], in[1], in[1]});
       return gru_cell(in[0], in[0], w, w);
     },
     kF32, kBf16},
    {"rnn_tanh_cell", [](auto& in) { return rnn_tanh_cell(in[0], in[0], in[1], in[1]); }, kBf16, kBf16},
    {"matrix_norm_of_cast", [](auto& in) { return linalg_matrix_norm(matmul(in[0], in[1])); }, kBf16, kF32},
    {"mse_loss_of_cast", [](auto& in) { return mse_loss(matmul(in[0], in[1]), matmul(in[0], in[1])); }, kF32, kF32},
    {"cat",
     [](auto& in) {
       return cat({matmul(in[0], in[1]), in[0]});
     },
     kF32, kF32},
    {"cat_of_casts",
     [](auto& in) {
       return cat({matmul(in[0], in[1]), matmul(in[0], in[1])});
     },
     kBf16, kBf16},
    {"f64", [](auto& in) { return matmul(to(in[0], DType::F64), to(in[1], DType::F64)); }, DType::F64, DType::F64},
};

std::vector<Tensor> operands(const Device& device = Device::cpu()) {
  std::vector<Tensor> out;
  for (auto& sizes : std::vector<std::vector<int64_t>>{{2, 3}, {3, 3}, {3}}) {
    Tensor t = nn::Init(3).uniform(sizes, 0.5, 1);
    // Nothing reads the tensors that claim to be on a GPU.
    out.push_back(device.is_cuda() ? Tensor::from_blob(t.raw_data(), sizes, kF32, {}, std::make_shared<Tensor>(t), device) : t);
  }
  return out;
}

DType traced_dtype(const Forward& f, const std::vector<Tensor>& in) {
  DType dtype = kF32;
  auto g = graph_of(
      [&](auto& args) {
        Tensor r = f(args);
        dtype = r.dtype();
        return r;
      },
      in);
  EXPECT_EQ(g->outputs[0].value->type.dtype, dtype);
  return dtype;
}

TEST(Autocast, DtypesOfOperations) {
  for (auto& row : kRows) {
    EXPECT_EQ(traced_dtype(row.f, operands()), row.name == std::string("f64") ? DType::F64 : kF32) << row.name << " without";
    {
      autocast scope(DeviceType::Cpu, kBf16);
      EXPECT_EQ(traced_dtype(row.f, operands()), row.cpu) << row.name << " on the CPU";
      EXPECT_EQ(row.f(operands()).dtype(), row.cpu) << row.name << " eager";
    }
    autocast scope(DeviceType::Cuda, kBf16);
    EXPECT_EQ(traced_dtype(row.f, operands(Device::cuda())), row.cuda) << row.name << " on a GPU";
    EXPECT_EQ(traced_dtype(row.f, operands()), row.name == std::string("f64") ? DType::F64 : kF32) << row.name << " elsewhere";
  }
}

// Every name of the lists that is a row of the op table has its policy by the row's own name.
TEST(Autocast, PoliciesOfRows) {
  using ops::AutocastPolicy;
  auto policy = [](const char* name, DeviceType d) {
    const ops::Op& op = ops::get(name);
    CallArgs args(op.schema.params.size(), Tensor());
    return ops::autocast_policy(op, args, d);
  };
  EXPECT_EQ(policy("addmm", DeviceType::Cpu), AutocastPolicy::Lower);
  EXPECT_EQ(policy("conv2d", DeviceType::Cuda), AutocastPolicy::Lower);
  EXPECT_EQ(policy("pow.Tensor_Scalar", DeviceType::Cuda), AutocastPolicy::F32);
  EXPECT_EQ(policy("pow.Tensor_Scalar", DeviceType::Cpu), AutocastPolicy::None);
  EXPECT_EQ(policy("cross_entropy_loss", DeviceType::Cpu), AutocastPolicy::F32);
  EXPECT_EQ(policy("_prelu_kernel", DeviceType::Cpu), AutocastPolicy::Lower);
  EXPECT_EQ(policy("addmv", DeviceType::Cpu), AutocastPolicy::None);
  EXPECT_EQ(policy("addmv", DeviceType::Cuda), AutocastPolicy::Lower);
  EXPECT_EQ(policy("_fft_r2c", DeviceType::Cpu), AutocastPolicy::F32);
  EXPECT_EQ(policy("scatter_add", DeviceType::Cuda), AutocastPolicy::Promote);
  EXPECT_EQ(policy("add.Tensor", DeviceType::Cuda), AutocastPolicy::None);
  EXPECT_EQ(policy("exp_", DeviceType::Cuda), AutocastPolicy::None) << "in place: the dtype is what it is";
}

TEST(Autocast, ScopesNestAndRefuse) {
  EXPECT_FALSE(is_autocast_enabled(DeviceType::Cpu));
  EXPECT_EQ(autocast_dtype(DeviceType::Cpu), kBf16);
  EXPECT_EQ(autocast_dtype(DeviceType::Cuda), kF16);
  auto in = operands();
  {
    autocast outer(DeviceType::Cpu);
    EXPECT_EQ(matmul(in[0], in[1]).dtype(), kBf16);
    {
      autocast off(DeviceType::Cpu, {}, false);
      EXPECT_EQ(matmul(in[0], in[1]).dtype(), kF32);
      autocast half(DeviceType::Cpu, kF16);
      EXPECT_EQ(matmul(in[0], in[1]).dtype(), kF16);
    }
    EXPECT_EQ(matmul(in[0], in[1]).dtype(), kBf16);
  }
  EXPECT_EQ(matmul(in[0], in[1]).dtype(), kF32);
  EXPECT_TRUE(contains(user_error([] { autocast scope(DeviceType::Cpu, DType::F64); }), "must be bf16 or f16, it is f64"));
}

// A toggle must never give the other dtype's answer.
TEST(Autocast, IsGuarded) {
  auto in = operands();
  auto f = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, by_reference());
  EXPECT_EQ(f(in[0], in[1]).dtype(), kF32);
  {
    autocast scope(DeviceType::Cpu, kBf16);
    EXPECT_EQ(f(in[0], in[1]).dtype(), kBf16);
    autocast half(DeviceType::Cpu, kF16);
    EXPECT_EQ(f(in[0], in[1]).dtype(), kF16);
  }
  EXPECT_EQ(f(in[0], in[1]).dtype(), kF32);
  auto r = f.report();
  EXPECT_EQ(r.compiles, 3);
  EXPECT_EQ(r.recompile_reasons, (std::vector<std::string>{"autocast on cpu was off, is bf16", "autocast on cpu was bf16, is f16"}));
}

TEST(Autocast, WithinAFunctionNeedsNoGuard) {
  auto in = operands();
  auto body = [](const Tensor& a, const Tensor& b) {
    autocast scope(DeviceType::Cpu, kBf16);
    Tensor y = matmul(a, b);
    autocast off(DeviceType::Cpu, {}, false);
    return std::pair(y, matmul(a, b));
  };
  auto f = compile(body, {.mode = Mode::ReduceOverhead});
  for (int i = 0; i < 4; ++i) {
    auto [low, full] = f(in[0], in[1]);
    EXPECT_EQ(low.dtype(), kBf16);
    EXPECT_EQ(full.dtype(), kF32);
    auto [eager_low, eager_full] = body(in[0], in[1]);
    EXPECT_EQ(low.to_vector(), eager_low.to_vector());
    EXPECT_EQ(full.to_vector(), eager_full.to_vector());
  }
  EXPECT_EQ(f.report().compiles, 1);
}

// What is computed is what casts written by hand compute.
TEST(Autocast, EqualsCastsByHand) {
  Tensor x = nn::Init(1).normal({8, 32}, 0, 1), w = nn::Init(2).normal({16, 32}, 0, 1), b = nn::Init(4).normal({16}, 0, 1);
  auto by_hand = [](const Tensor& a, const Tensor& v, const Tensor& c) {
    return layer_norm(gelu(linear(to(a, kBf16), to(v, kBf16), to(c, kBf16))), {16});
  };
  auto automatic = [](const Tensor& a, const Tensor& v, const Tensor& c) { return layer_norm(gelu(linear(a, v, c)), {16}); };
  autocast scope(DeviceType::Cpu, kBf16);
  const auto want = compile(by_hand)(x, w, b).to_vector(), got = compile(automatic)(x, w, b).to_vector();
  EXPECT_EQ(got, want);
  const auto eager = automatic(x, w, b).to_vector();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(eager[i], got[i], 0.02);
}

size_t kernels_of(const Forward& f, const std::vector<Tensor>& in) {
  auto model = front::compile_model(graph_of(f, in));
  return model.report().kernels;
}

// Casts are part of the loops around them; a product's operands are cast by kernels of their own, once each.
TEST(Autocast, CastsFuse) {
  Tensor x = nn::Init(1).normal({8, 32}, 0, 1), w = nn::Init(2).normal({32, 32}, 0, 1).set_requires_grad(true);
  auto norms = [](auto& in) { return layer_norm(relu(in[0] * 2), {32}); };
  auto mlp = [](auto& in) { return matmul(gelu(matmul(layer_norm(in[0], {32}), in[1])), in[1]); };
  const size_t norms_plain = kernels_of(norms, {x}), mlp_plain = kernels_of(mlp, {x, w});
  autocast scope(DeviceType::Cpu, kBf16);
  EXPECT_EQ(kernels_of(norms, {x}), norms_plain);
  EXPECT_LE(kernels_of(mlp, {x, w}), mlp_plain + 1) << "the weight's cast, which both products read, is the only kernel more";
}

}  // namespace
}  // namespace toroid

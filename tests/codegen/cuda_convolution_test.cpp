// The GPU's convolution templates: their text for NVRTC, and on a GPU what they compute, against sums in double.
#include <algorithm>

#include "codegen/cuda/templates/conv_depthwise.h"
#include "codegen/cuda/templates/conv_gemm.h"
#include "codegen/cuda/templates/conv_wgmma.h"
#include "codegen/cuda/templates/conv_wgrad.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

struct Shape {
  int64_t n = 1, in = 64, out = 64, h = 8, w = 8, kernel = 3, stride = 1, pad = 1, dilation = 1, groups = 1;
  bool channels_last = true, symbolic = false;  // symbolic: the number of images
  DType dtype = DType::F16;
  int64_t kernel_w = 0;  // when it differs; padded by half of it
  Tf32 tf32 = Tf32::None;
  bool gradient = false;  // of the weights, in the place of the convolution
};

// Buffers: the input, the weight, a bias, something of the result's size that is added, and the result.
enum Buffer { kInput, kWeight, kBias, kAdded, kResult };

// What x and the gradient of the results, both channels last, give for each weight: images are channels, and channels images.
program::Convolution gradient_of_weights(const program::Convolution& forward) {
  program::Convolution c = forward;
  c.n = forward.in_channels, c.in_channels = forward.n.constant();
  c.kernel_h = forward.out_h.constant(), c.kernel_w = forward.out_w.constant();
  std::swap(c.stride_h, c.dilation_h), std::swap(c.stride_w, c.dilation_w);
  const auto size = [](const Expr& in, int64_t pad, int64_t dilation, int64_t kernel, int64_t stride) {
    return (in.constant() + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  };
  c.out_h = size(c.in_h, c.pad_h, c.dilation_h, c.kernel_h, c.stride_h);
  c.out_w = size(c.in_w, c.pad_w, c.dilation_w, c.kernel_w, c.stride_w);
  const Expr row = c.in_w * c.n, results = Expr(c.kernel_w * c.out_channels);
  c.input.strides = {1, c.in_h * row, row, c.n};
  c.weight.strides = {1, Expr(c.kernel_h) * results, results, c.out_channels};
  return c;
}

program::Convolution problem(const Shape& s) {
  program::Convolution c;
  c.n = s.symbolic ? sym::symbol("images", 1, 1 << 20) : Expr(s.n);
  c.groups = s.groups, c.in_channels = s.in, c.out_channels = s.out;
  c.in_h = s.h, c.in_w = s.w;
  c.kernel_h = c.kernel_w = s.kernel, c.stride_h = c.stride_w = s.stride, c.pad_h = c.pad_w = s.pad;
  c.dilation_h = c.dilation_w = s.dilation;
  c.tf32 = s.tf32 != Tf32::None;
  if (s.kernel_w) c.kernel_w = s.kernel_w, c.pad_w = s.kernel_w / 2;
  c.out_h = (s.h + 2 * c.pad_h - s.dilation * (c.kernel_h - 1) - 1) / s.stride + 1;
  c.out_w = (s.w + 2 * c.pad_w - s.dilation * (c.kernel_w - 1) - 1) / s.stride + 1;
  c.input = {kInput, s.dtype, 0, {s.h * s.w * s.in, 1, s.w * s.in, s.in}};
  if (!s.channels_last) c.input.strides = {s.h * s.w * s.in, s.h * s.w, s.w, 1};
  const int64_t taps = c.kernel_h * c.kernel_w, in = s.in / s.groups;
  c.weight = {kWeight, s.dtype, 0, {in * taps, taps, c.kernel_w, 1}};
  return s.gradient ? gradient_of_weights(c) : c;
}

// relu(convolution + bias + added), in channels-last memory.
program::Node node_of(const program::Convolution& c) {
  program::Node node;
  const std::vector<Expr> sizes = {c.n, c.out_channels, c.out_h, c.out_w};
  std::vector<Expr> at;
  for (size_t d = 0; d < 4; ++d) {
    const Expr var = sym::loop_symbol("i" + std::to_string(d), sizes[d]);
    node.domain.vars.push_back({var, false});
    at.push_back(sizes[d] == Expr(1) ? Expr(0) : var);
  }
  loop::BodyBuilder b(node.body);
  const Expr place = ((at[0] * c.out_h + at[2]) * c.out_w + at[3]) * Expr(c.out_channels) + at[1];
  S sum = b.accumulator(DType::F32) + cast(b.load(kBias, c.input.dtype, at[1]), DType::F32) +
          cast(b.load(kAdded, c.input.dtype, place), DType::F32);
  b.store(kResult, c.input.dtype, place, maximum(sum, b.constant(DType::F32, Number::of(0.0))));
  node.problem = c;
  return node;
}

class CudaConvolution : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  }

  // A buffer's contents, small multiples of 1/64 that 16-bit floats hold, and the same as doubles. tf32: other numbers, and as doubles what
  // they are rounded to.
  struct Memory {
    std::vector<std::byte> bytes;
    std::vector<double> values;
  };
  Memory memory(int64_t numel, DType t, Tf32 tf32 = Tf32::None) {
    Memory m;
    m.bytes.resize(static_cast<size_t>(numel) * size_of(t));
    for (int64_t i = 0; i < numel; ++i) {
      state_ = state_ * 1664525u + 1013904223u;
      m.values.push_back(tf32 != Tf32::None ? static_cast<double>(state_) * 0x1p-31 - 1
                                            : (static_cast<double>(state_ >> 24) - 127.5) / 128);
      store_number(m.bytes.data() + static_cast<size_t>(i) * size_of(t), t, Number::of(m.values.back()));
      m.values.back() = load_number(m.bytes.data() + static_cast<size_t>(i) * size_of(t), t).as_double();
      if (tf32 != Tf32::None) m.values.back() = as_tf32(m.values.back(), tf32);
    }
    return m;
  }

  static std::vector<double> expected(const program::Convolution& c, int64_t n, const std::vector<Memory>& m) {
    const int64_t h = c.in_h.constant(), w = c.in_w.constant(), oh = c.out_h.constant(), ow = c.out_w.constant();
    const int64_t in = c.in_channels / c.groups, out = c.out_channels / c.groups;
    int64_t step[4], weight[4];
    for (size_t d = 0; d < 4; ++d) step[d] = c.input.strides[d].constant(), weight[d] = c.weight.strides[d].constant();
    std::vector<double> result;
    for (int64_t i = 0; i < n * oh * ow; ++i)
      for (int64_t o = 0; o < c.out_channels; ++o) {
        double sum = m[kBias].values[static_cast<size_t>(o)] + m[kAdded].values[static_cast<size_t>(i * c.out_channels + o)];
        for (int64_t r = 0; r < c.kernel_h; ++r)
          for (int64_t s = 0; s < c.kernel_w; ++s) {
            const int64_t y = i / ow % oh * c.stride_h - c.pad_h + r * c.dilation_h, x = i % ow * c.stride_w - c.pad_w + s * c.dilation_w;
            if (y < 0 || y >= h || x < 0 || x >= w) continue;
            const int64_t at = i / ow / oh * step[0] + o / out * in * step[1] + y * step[2] + x * step[3];
            const int64_t from = o * weight[0] + r * weight[2] + s * weight[3];
            for (int64_t k = 0; k < in; ++k)
              sum += m[kInput].values[static_cast<size_t>(at + k * step[1])] * m[kWeight].values[static_cast<size_t>(from + k * weight[1])];
          }
        result.push_back(std::max(sum, 0.0));
      }
    return result;
  }

  // Compiles what `generate` makes of a shape, and where there is a GPU runs and checks it.
  template <class Generate>
  void check(const Shape& s, const Generate& generate) {
    // Texts differ little: without a GPU NVRTC gets some of them.
    constexpr int kOneIn = 12;
    if (!KernelRunner::has_gpu() && checks_++ % kOneIn != 0) return;
    const program::Convolution c = problem(s);
    const program::Node node = node_of(c);
    auto value = [&](const Expr& e) { return sym::evaluate(e, [&](const sym::Node&) { return s.n; }); };
    const int64_t weights = c.out_channels * conv_k(c), results = value(conv_pixels(c)) * c.out_channels;
    std::vector<Memory> m;
    for (int64_t numel : {s.n * s.in * s.h * s.w, weights}) m.push_back(memory(numel, s.dtype, s.tf32));
    for (int64_t numel : {c.out_channels, results, results}) m.push_back(memory(numel, s.dtype));
    program::Program program;
    for (auto& x : m) program.new_buffer("b", s.dtype, static_cast<int64_t>(x.values.size()), loop::BufferKind::Constant);
    ConstantMemory constants;
    constants.tensors[kWeight] = Tensor::from_blob(m[kWeight].bytes.data(), std::vector<int64_t>{weights}, s.dtype);
    const KernelText k = generate(node, c, program, constants);
    const std::string architecture = k.overlaps ? "sm_90a" : KernelRunner::gpu_architecture();
    std::string cubin;
    try {
      if (!KernelRunner::has_gpu() && s.tf32 == Tf32::None) return jit::nvrtc_check(k.source, architecture, k.name);
      cubin = jit::nvrtc_compile(k.source, architecture, k.name);
    } catch (const InternalError& e) {
      FAIL() << e.what() << "\n" << k.plan << k.source.substr(k.source.find("\nextern"));
    }
    if (s.tf32 != Tf32::None) {
      EXPECT_EQ(local_bytes(cubin), 0) << "registers are spilled\n" << k.plan;
    }
    if (!KernelRunner::has_gpu()) return;
    for (auto& job : constants.jobs) job();
    for (auto& [id, tensor] : constants.packed) {
      m.resize(static_cast<size_t>(id) + 1);
      m.back().bytes.assign(tensor.raw_data(), tensor.raw_data() + static_cast<size_t>(tensor.numel()) * size_of(s.dtype));
    }
    std::fill(m[kResult].bytes.begin(), m[kResult].bytes.end(), std::byte{0xff});  // NaN
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    std::vector<std::shared_ptr<void>> held;
    std::vector<void*> addresses;
    for (int id : k.buffers) {
      held.push_back(gpu.allocate((m[static_cast<size_t>(id)].bytes.size() + 15) / 16 * 16));  // of a GPU's memory nobody gets less
      addresses.push_back(held.back().get());
      gpu.copy_in(addresses.back(), m[static_cast<size_t>(id)].bytes.data(), m[static_cast<size_t>(id)].bytes.size());
    }
    for (const Expr& bytes : {k.scratch_bytes, k.counters * Expr(4)}) {
      if (bytes == Expr(0)) continue;
      held.push_back(gpu.allocate(static_cast<size_t>(value(bytes))));
      gpu.fill_zero(held.back().get(), static_cast<size_t>(value(bytes)));
      addresses.push_back(held.back().get());
    }
    std::vector<int64_t> params;
    for (auto& p : k.params) params.push_back(value(p));
    device::cuda::Arguments arguments(k.tensor_maps, params, addresses.size(), value);
    arguments.set_pointers(addresses);
    gpu.launch(gpu.load(cubin, k.name, k.shared_bytes, k.overlaps), {value(k.tasks), k.block, k.shared_bytes, k.overlaps},
               arguments.list());
    for (size_t i = 0; i < k.buffers.size(); ++i)
      if (k.buffers[i] == kResult) gpu.copy_out(m[kResult].bytes.data(), addresses[i], m[kResult].bytes.size());
    const std::vector<double> want = expected(c, value(c.n), m);
    double difference = 0, size = 0;
    int wrong = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      const double got = load_number(m[kResult].bytes.data() + i * size_of(s.dtype), s.dtype).as_double();
      difference += (got - want[i]) * (got - want[i]), size += want[i] * want[i];
      if (!KernelRunner::close(Number::of(got), Number::of(want[i]), s.dtype, 1e-4) && ++wrong <= 3)
        ADD_FAILURE() << "element " << i << ": " << got << ", expected " << want[i];
    }
    if (wrong)
      FAIL() << wrong << " of " << want.size() << " differ; ||difference|| / ||expected|| = " << std::sqrt(difference / size) << "\n"
             << k.plan;
  }

  void check_gemm(const Shape& s, const ConvGemmTile& tile, bool clusters = true) {
    check(s, [&](auto& node, auto& c, auto& program, auto& constants) {
      return generate_conv_gemm(node, c, conv_packed_weight(c, program, constants), tile, clusters);
    });
  }

  // conv_wgmma with every `step`-th tile.
  void check_window(const Shape& s, size_t first, size_t step) {
    const program::Convolution c = problem(s);
    ASSERT_EQ(conv_wgmma_refusal(c), "");
    const std::vector<WgmmaTile> tiles = wgmma_tiles(conv_implicit_product(c), true);
    for (size_t t = first; t < tiles.size(); t += step)
      check(s, [&](auto& node, auto& c, auto& program, auto& constants) {
        return generate_conv_wgmma(node, c, conv_packed_weight(c, program, constants), tiles[t], 132);
      });
  }

  // conv_wgrad with every `step`-th tile.
  void check_gradient(const Shape& s, size_t first, size_t step) {
    const program::Convolution c = problem(s);
    ASSERT_EQ(conv_wgrad_refusal(c), "");
    const std::vector<WgmmaTile> tiles = wgmma_tiles(conv_wgrad_product(c), true);
    for (size_t t = first; t < tiles.size(); t += step)
      check(s, [&](auto& node, auto& c, auto&, auto&) { return generate_conv_wgrad(node, c, tiles[t], 132); });
  }

 private:
  uint32_t state_ = 1;
  int checks_ = 0;
};

bool has_clusters() { return !KernelRunner::has_gpu() || device::cuda::gpu(0).info().is_hopper(); }

TEST_F(CudaConvolution, AllTiles) {
  for (DType t : {DType::F16, DType::F32}) {
    const Shape s{.n = 2, .in = 72, .out = 80, .h = 13, .w = 11, .dtype = t};
    for (const ConvGemmTile& tile : conv_gemm_tiles(problem(s), has_clusters())) check_gemm(s, tile, has_clusters());
    check_gemm(s, conv_gemm_tiles(problem(s), false).front(), false);
  }
}

TEST_F(CudaConvolution, Tf32) {
  const std::vector<Shape> shapes = {
      {.n = 2, .in = 72, .out = 80, .h = 13, .w = 11, .dtype = DType::F32, .tf32 = Tf32::TiesAway},
      {.n = 2,
       .in = 3,
       .out = 20,
       .h = 33,
       .w = 31,
       .kernel = 7,
       .stride = 2,
       .pad = 3,
       .channels_last = false,
       .dtype = DType::F32,
       .tf32 = Tf32::TiesAway},
      {.in = 22, .out = 18, .h = 9, .w = 10, .groups = 2, .dtype = DType::F32, .tf32 = Tf32::TiesAway},
      {.in = 17, .out = 33, .h = 9, .w = 10, .dilation = 2, .dtype = DType::F32, .tf32 = Tf32::TiesAway},
  };
  for (const Shape& s : shapes) {
    ASSERT_STREQ(conv_gemm_name(problem(s)), "conv_mma");
    const auto tiles = conv_gemm_tiles(problem(s), has_clusters());
    for (size_t t = 0; t < tiles.size(); t += &s == shapes.data() ? 1 : 4) check_gemm(s, tiles[t], has_clusters());
    check_gemm(s, conv_gemm_tiles(problem(s), false).front(), false);
  }
}

// Windows, steps, numbers of channels that are no multiples of anything, groups, both layouts.
TEST_F(CudaConvolution, Shapes) {
  const std::vector<Shape> shapes = {
      {.in = 3, .out = 64, .h = 33, .w = 31, .kernel = 7, .stride = 2, .pad = 3, .channels_last = false},
      {.in = 3, .out = 40, .h = 32, .w = 32, .kernel = 16, .stride = 16, .pad = 0, .channels_last = false},
      {.n = 3, .in = 17, .out = 23, .h = 9, .w = 10, .dtype = DType::BF16},
      {.n = 2, .in = 20, .out = 36, .h = 9, .w = 7, .stride = 2},
      {.in = 38, .out = 64, .h = 12, .w = 12, .pad = 2, .dilation = 2},
      {.in = 64, .out = 96, .h = 15, .w = 15, .kernel = 1, .stride = 2, .pad = 0},
      {.in = 48, .out = 24, .h = 14, .w = 14, .kernel = 1, .pad = 0},
      {.n = 2, .in = 64, .out = 128, .h = 10, .w = 10, .groups = 4},
      {.in = 24, .out = 36, .h = 10, .w = 10, .groups = 12},
      {.in = 40, .out = 40, .h = 7, .w = 7, .kernel = 5, .pad = 4, .dilation = 2, .dtype = DType::BF16},
      {.in = 512, .out = 512, .h = 7, .w = 7},
      {.n = 2, .in = 3, .out = 20, .h = 33, .w = 31, .kernel = 7, .stride = 2, .pad = 3, .channels_last = false, .dtype = DType::F32},
      {.n = 3, .in = 40, .out = 24, .h = 9, .w = 8, .symbolic = true},
      {.in = 24, .out = 24, .h = 9, .w = 10, .kernel = 1, .pad = 0, .kernel_w = 5},
      {.in = 22, .out = 18, .h = 9, .w = 10, .groups = 2, .dtype = DType::F32},
      {.in = 17, .out = 33, .h = 9, .w = 10, .dilation = 2, .dtype = DType::F32},
      {.in = 64, .out = 64, .h = 4, .w = 4, .kernel = 4, .pad = 0, .channels_last = false},
  };
  for (const Shape& s : shapes)
    for (int processors : {8, 132}) {
      const program::Convolution c = problem(s);
      check_gemm(s, choose_conv_gemm_tile(c, s.n * s.h * s.w, processors, has_clusters()), has_clusters());
    }
}

TEST_F(CudaConvolution, Hopper) {
  if (!has_clusters()) GTEST_SKIP() << "the GPU has no wgmma";
  const std::vector<Shape> shapes = {
      {.n = 3, .in = 64, .out = 64, .h = 13, .w = 11},
      {.n = 2, .in = 128, .out = 72, .h = 15, .w = 14, .stride = 2},
      {.n = 2, .in = 64, .out = 128, .h = 12, .w = 17, .pad = 2, .dilation = 2, .dtype = DType::BF16},
      {.n = 2, .in = 64, .out = 64, .h = 9, .w = 9, .kernel = 5, .pad = 0},
      {.n = 1, .in = 192, .out = 256, .h = 14, .w = 14, .kernel = 1, .stride = 2, .pad = 0},
      {.n = 3, .in = 64, .out = 40, .h = 9, .w = 8, .symbolic = true},
      {.n = 2, .in = 64, .out = 64, .h = 12, .w = 9, .kernel = 1, .pad = 0, .kernel_w = 5},
      {.n = 2, .in = 64, .out = 64, .h = 12, .w = 9, .kernel = 3, .pad = 1, .kernel_w = 1},
  };
  for (size_t i = 0; i < shapes.size(); ++i) check_window(shapes[i], i % 5, 5);  // other tiles for each shape
}

// Pixels of a result, and of what is added, begin anywhere in memory.
TEST_F(CudaConvolution, HopperOddChannels) {
  if (!has_clusters()) GTEST_SKIP() << "the GPU has no wgmma";
  check_window({.n = 2, .in = 64, .out = 91, .h = 13, .w = 11}, 10, 15);
  check_window({.in = 128, .out = 255, .h = 10, .w = 13, .kernel = 1, .pad = 0, .dtype = DType::BF16}, 4, 15);
}

// Gradients of weights where both operands lie: windows, steps that leave pixels over, rows of tiles that cross taps, pixels that fill no
// step, parts of sums of any number.
TEST_F(CudaConvolution, GradientsOfWeights) {
  if (!has_clusters()) GTEST_SKIP() << "the GPU has no wgmma";
  const std::vector<Shape> shapes = {
      {.n = 7, .in = 64, .out = 64, .h = 13, .w = 11, .gradient = true},
      {.n = 5, .in = 128, .out = 72, .h = 15, .w = 14, .stride = 2, .dtype = DType::BF16, .gradient = true},
      {.n = 4, .in = 64, .out = 128, .h = 12, .w = 17, .pad = 2, .dilation = 2, .dtype = DType::BF16, .gradient = true},
      {.n = 4, .in = 192, .out = 40, .h = 10, .w = 9, .kernel = 5, .pad = 0, .gradient = true},
      {.n = 9, .in = 64, .out = 256, .h = 14, .w = 14, .kernel = 1, .stride = 2, .pad = 0, .gradient = true},
      {.n = 3, .in = 64, .out = 64, .h = 12, .w = 9, .kernel = 1, .pad = 0, .dtype = DType::BF16, .kernel_w = 5, .gradient = true},
  };
  for (size_t i = 0; i < shapes.size(); ++i) check_gradient(shapes[i], i % 17, 17);
}

TEST_F(CudaConvolution, WhichGradientsOfWeights) {
  const auto refusal = [](Shape s) {
    s.gradient = true;
    return conv_wgrad_refusal(problem(s));
  };
  EXPECT_EQ(refusal({.n = 2, .h = 16, .w = 16}), "");
  EXPECT_EQ(refusal({.n = 2, .in = 96, .h = 16, .w = 16}), "channels are no multiple of 64");
  EXPECT_EQ(refusal({.n = 2, .out = 60, .h = 16, .w = 16}), "channels are not aligned to 16 bytes");
  EXPECT_EQ(refusal({.n = 2, .h = 16, .w = 16, .dtype = DType::F32}), "f32 is not to be rounded to tf32 (option allow_tf32)");
  EXPECT_EQ(refusal({.n = 2, .h = 32, .w = 32, .stride = 9}), "a large window");
  // A window of every second pixel would have a place more than there are results.
  program::Convolution c = problem({.n = 2, .h = 16, .w = 16, .pad = 2, .dilation = 2, .gradient = true});
  c.kernel_w -= 1;
  c.weight.strides[2] = c.kernel_w * c.out_channels, c.weight.strides[1] = c.kernel_h * c.kernel_w * c.out_channels;
  EXPECT_EQ(conv_wgrad_refusal(c), "windows end beyond the last result");
  c.weight.strides[1] = c.weight.strides[1] + Expr(c.out_channels);
  EXPECT_EQ(conv_wgrad_refusal(c), "pixels of the results' gradient do not follow each other");
  EXPECT_NE(conv_wgrad_refusal(problem({.n = 2, .h = 16, .w = 16})), "");
  EXPECT_NE(conv_gemm_refusal(problem({.n = 2, .h = 16, .w = 16, .gradient = true})), "");
}

TEST_F(CudaConvolution, Tf32Hopper) {
  if (!has_clusters()) GTEST_SKIP() << "the GPU has no wgmma";
  check_window({.n = 3, .in = 32, .out = 64, .h = 13, .w = 11, .dtype = DType::F32, .tf32 = Tf32::TiesEven}, 0, 12);
  check_window({.n = 2, .in = 96, .out = 72, .h = 15, .w = 14, .stride = 2, .dtype = DType::F32, .tf32 = Tf32::TiesEven}, 5, 12);
}

TEST_F(CudaConvolution, Depthwise) {
  const std::vector<Shape> shapes = {
      {.n = 2, .in = 64, .out = 64, .h = 11, .w = 14, .groups = 64},
      {.in = 40, .out = 40, .h = 15, .w = 13, .kernel = 5, .stride = 2, .pad = 2, .groups = 40},
      {.in = 36, .out = 36, .h = 9, .w = 9, .kernel = 7, .pad = 6, .dilation = 2, .groups = 36, .dtype = DType::BF16},
      {.in = 13, .out = 13, .h = 12, .w = 12, .kernel = 9, .pad = 4, .groups = 13},
      {.in = 24, .out = 24, .h = 9, .w = 10, .groups = 24, .dtype = DType::F32},
      {.n = 2, .in = 16, .out = 16, .h = 7, .w = 7, .groups = 16, .symbolic = true},
      {.n = 2, .in = 24, .out = 24, .h = 1, .w = 70, .kernel = 1, .pad = 0, .groups = 24, .kernel_w = 31},
  };
  // A line in a column of results.
  EXPECT_NE(conv_depthwise_refusal(problem({.in = 8, .out = 8, .h = 1, .w = 40, .kernel = 1, .pad = 1, .groups = 8, .kernel_w = 17})), "");
  for (const Shape& s : shapes)
    for (int pixels : {1, 4}) {
      ASSERT_EQ(conv_depthwise_refusal(problem(s)), "");
      check(s, [&](auto& node, auto& c, auto& program, auto& constants) {
        return generate_conv_depthwise(node, c, conv_weight_by_taps(c, program, constants), {pixels}, has_clusters());
      });
    }
}

}  // namespace
}  // namespace toroid::codegen

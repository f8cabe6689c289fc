// Products by the GPU's templates against sums in float64, in all layouts and odd sizes. Without a GPU their text is compiled only.
#include <functional>
#include <numeric>

#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_simt.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "cuda_jobs.h"

namespace toroid::codegen {
namespace {

struct Problem {
  int64_t m, n, k, batch = 1;
  bool a_transposed = false, b_transposed = true;  // a: [k, m] in memory; b: [n, k]
  DType dtype = DType::BF16;
  bool pair = false;  // the product of what b and b2 give, halves of a matrix [k, 2 n] or [2 n, k], in place of the bias
  Tf32 tf32 = Tf32::None;
  bool gaps = false;  // rows of a and b in memory begin at multiples of 8 elements
  // All rows of a, and all columns of b, are the same, and there is no bias: every element of the result, which is f32, has the same bits.
  bool alike = false;

  int64_t row(int64_t elements) const { return gaps ? (elements + 7) / 8 * 8 : elements; }
  // From one row in memory to the next.
  int64_t row_a() const { return row(a_transposed ? m : k); }
  int64_t row_b(int64_t columns) const { return row(b_transposed ? k : columns); }
  int64_t elements_a() const { return row_a() * (a_transposed ? k : m); }
  int64_t elements_b(int64_t columns) const { return row_b(columns) * (b_transposed ? columns : k); }
  DType result() const { return alike ? DType::F32 : dtype; }
};

std::string to_string(const Problem& p) {
  return fmt::format("{} x {} x {} x {}{}{} {}", p.batch, p.m, p.n, p.k, p.a_transposed ? " a'" : "", p.b_transposed ? " b'" : "",
                     name_of(p.dtype)) +
         (p.tf32 != Tf32::None ? " tf32" : "") + (p.pair ? " pair" : "") + (p.gaps ? " gaps" : "") + (p.alike ? " alike" : "");
}

// out = a b + bias, of buffers 0 to 3: a, b, out, bias.
program::Node node_of(const Problem& p) {
  program::Gemm g;
  g.batch = {p.batch}, g.m = p.m, g.n = p.n, g.k = p.k;
  g.a = {0, p.dtype, 0, {p.elements_a(), p.a_transposed ? 1 : p.row_a(), p.a_transposed ? p.row_a() : 1}};
  g.b = {1, p.dtype, 0, {p.elements_b(p.n), p.b_transposed ? 1 : p.row_b(p.n), p.b_transposed ? p.row_b(p.n) : 1}};
  g.tf32 = p.tf32 != Tf32::None;
  program::Node node;
  node.problem = g;
  loop::Nest nest = loop::parse(fmt::format(
      "loop (i0: {0}, i1: {1}, i2: {2}) {{\n v0: f32 = accumulate\n v1: f32 = load %3 [i2]\n v2: f32 = Add v0 v1\n v3: {3} = Cast v2\n "
      "store %2 [i0*{4} + i1*{2} + i2] v3\n}}",
      p.batch, p.m, p.n, name_of(p.result()), p.m * p.n));
  node.domain = nest.domain, node.body = nest.body;
  return node;
}

class CudaGemm : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  }

  struct Job : CudaJob {
    Problem problem;
  };
  void add(const Problem& p, KernelText k, const std::string& architecture) { jobs_.push_back({{std::move(k), architecture}, p}); }

  void TearDown() override {
    compile_side_by_side(
        jobs_, [](auto& j) { return j.runs_as(); }, true);
    for (auto& j : jobs_) {
      SCOPED_TRACE(to_string(j.problem) + ": " + j.kernel.plan.substr(0, j.kernel.plan.find('\n')));
      EXPECT_EQ(j.error, "") << j.kernel.source.substr(j.kernel.source.find("\nextern"));
      const bool as_meant = !j.runs() || KernelRunner::gpu_architecture() == j.architecture;
      if (j.error.empty() && j.problem.tf32 != Tf32::None && as_meant) {
        EXPECT_EQ(local_bytes(j.cubin), 0) << "registers are spilled";
      }
      if (j.runs() && j.error.empty()) run(j.problem, j.kernel, j.cubin);
      if (HasFatalFailure() || failures_ > 20) return;
    }
  }

 private:
  struct Memory {
    std::vector<std::byte> host;
    DType dtype;
    double at(int64_t i) const { return load_number(host.data() + static_cast<size_t>(i) * size_of(dtype), dtype).as_double(); }
  };

  // Makes all lines of k elements the first one. apart: memory is [k, lines], else [lines, k].
  static void repeat_first(Memory& m, int64_t lines, int64_t k, bool apart) {
    const size_t size = size_of(m.dtype);
    const auto place = [&](int64_t line, int64_t i) {
      return m.host.data() + static_cast<size_t>(apart ? i * lines + line : line * k + i) * size;
    };
    for (int64_t line = 1; line < lines; ++line)
      for (int64_t i = 0; i < k; ++i) std::memcpy(place(line, i), place(0, i), size);
  }

  void run(const Problem& p, const KernelText& k, const std::string& cubin) {
    KernelRunner random;
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    std::vector<Memory> memory(4);
    std::vector<std::shared_ptr<void>> device;
    const int64_t sizes[] = {p.batch * p.elements_a(), p.batch * p.elements_b(p.n * (p.pair ? 2 : 1)), p.batch * p.m * p.n, p.n};
    for (int b = 0; b < 4; ++b) {
      Memory& m = memory[static_cast<size_t>(b)];
      m.dtype = b == 3 ? DType::F32 : b == 2 ? p.result() : p.dtype;
      random.fill(m.host, {b, m.dtype, sizes[b], -1, 1});
      if (p.alike && b == 0) repeat_first(m, p.m, p.k, p.a_transposed);
      if (p.alike && b == 1) repeat_first(m, p.n, p.k, !p.b_transposed);
      if (p.alike && b == 3) std::fill(m.host.begin(), m.host.end(), std::byte{0});
      device.push_back(gpu.allocate(m.host.size()));
      gpu.copy_in(device.back().get(), m.host.data(), m.host.size());
    }
    std::vector<void*> addresses;
    for (int b : k.buffers) addresses.push_back(device[static_cast<size_t>(b)].get());
    std::shared_ptr<void> scratch, counters;
    if (!(k.scratch_bytes == Expr(0))) addresses.push_back((scratch = gpu.allocate(static_cast<size_t>(k.scratch_bytes.constant()))).get());
    if (const int64_t count = k.counters.constant(); count > 0) {
      addresses.push_back((counters = gpu.allocate(static_cast<size_t>(count) * 4)).get());
      gpu.fill_zero(counters.get(), static_cast<size_t>(count) * 4);
    }
    std::vector<int64_t> params;
    for (auto& e : k.params) params.push_back(e.constant());
    device::cuda::Arguments arguments(k.tensor_maps, params, addresses.size(), [](const Expr& e) { return e.constant(); });
    arguments.set_pointers(addresses);
    gpu.launch(gpu.load(cubin, k.name, k.shared_bytes), {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps}, arguments.list());
    std::vector<std::byte> before = memory[2].host;
    gpu.copy_out(memory[2].host.data(), device[2].get(), memory[2].host.size());
    const size_t end = static_cast<size_t>(sizes[2]) * size_of(p.result());
    EXPECT_EQ(0, std::memcmp(before.data() + end, memory[2].host.data() + end, 64)) << "wrote behind the result";
    const std::vector<double>& want = expected(p, memory);
    int wrong = 0;
    for (int64_t i = 0; i < sizes[2]; ++i) {
      const double got = memory[2].at(i), most = p.alike ? 1e-4 : p.dtype == DType::BF16 ? 5e-3 : p.dtype == DType::F16 ? 1e-3 : 1e-5;
      const double w = want[static_cast<size_t>(i)], first = memory[2].at(0);
      if (p.alike && got != first && ++wrong <= 3)
        ADD_FAILURE() << "[" << i / p.n << ", " << i % p.n << "]: " << got << ", the first element is " << first;
      if (!(std::fabs(got - w) <= most * (1 + std::fabs(w))) && ++wrong <= 3)
        ADD_FAILURE() << "[" << i / (p.m * p.n) << ", " << i / p.n % p.m << ", " << i % p.n << "]: " << got << ", expected " << w;
    }
    EXPECT_EQ(wrong, 0) << "of " << sizes[2];
    failures_ += wrong > 0;
  }

  // In float64; of the latest problem.
  const std::vector<double>& expected(const Problem& p, const std::vector<Memory>& memory) {
    if (of_ == to_string(p)) return expected_;
    of_ = to_string(p);
    const int64_t columns = p.n * (p.pair ? 2 : 1);
    const auto operand = [&](const Memory& m, int64_t i) { return p.tf32 == Tf32::None ? m.at(i) : as_tf32(m.at(i), p.tf32); };
    std::vector<double> a(static_cast<size_t>(p.batch * p.m * p.k)),
        b(static_cast<size_t>(p.batch * columns * p.k));  // [m, k], [columns, k]
    for (int64_t i = 0; i < p.batch; ++i)
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t m = 0; m < p.m; ++m)
          a[static_cast<size_t>((i * p.m + m) * p.k + k)] =
              operand(memory[0], i * p.elements_a() + (p.a_transposed ? k * p.row_a() + m : m * p.row_a() + k));
        for (int64_t n = 0; n < columns; ++n)
          b[static_cast<size_t>((i * columns + n) * p.k + k)] =
              operand(memory[1], i * p.elements_b(columns) + (p.b_transposed ? n * p.row_b(columns) + k : k * p.row_b(columns) + n));
      }
    expected_.clear();
    for (int64_t i = 0; i < p.batch; ++i)
      for (int64_t m = 0; m < p.m; ++m)
        for (int64_t n = 0; n < p.n; ++n) {
          const auto sum = [&](int64_t column) {
            const double *x = &a[static_cast<size_t>((i * p.m + m) * p.k)], *y = &b[static_cast<size_t>((i * columns + column) * p.k)];
            return std::inner_product(x, x + p.k, y, 0.0);
          };
          expected_.push_back(p.pair ? sum(n) * sum(p.n + n) : sum(n) + memory[3].at(n));
        }
    return expected_;
  }

  std::vector<Job> jobs_;
  std::string of_;
  std::vector<double> expected_;
  int failures_ = 0;
};

constexpr int kProcessors = 132;

// Numbers of rows and columns that are no multiples of 16 bytes, along which memory is contiguous: the last tiles begin where copies may.
TEST_F(CudaGemm, WgmmaCopiesBeginAtMultiplesOf16Bytes) {
  for (const Problem& p : {Problem{65, 64, 65, 8, true, false},
                           {130, 80, 130, 2, true, true},
                           {64, 65, 65, 2, false, false},
                           {200, 130, 70, 1, false, false},
                           {130, 130, 66, 1, true, false}}) {
    Problem with_gaps = p;
    with_gaps.gaps = true;
    for (const DType t : {DType::BF16, DType::F16}) {
      if (t == DType::F16 && !KernelRunner::has_gpu()) continue;
      with_gaps.dtype = t;
      const program::Node node = node_of(with_gaps);
      const auto& g = std::get<program::Gemm>(node.problem);
      ASSERT_EQ(gemm_wgmma_refusal(node, g), "") << to_string(with_gaps);
      auto tiles = wgmma_tiles(g);
      ASSERT_FALSE(tiles.empty());
      if (!KernelRunner::has_gpu()) {
        const auto fits = [&](const WgmmaTile& t) { return t.block_m <= p.m && t.block_n <= p.n; };
        tiles = {*std::find_if(tiles.begin(), tiles.end(), fits)};
      }
      for (const WgmmaTile& tile : tiles) {
        KernelText k = generate_gemm_wgmma(node, g, tile, kProcessors, true);
        const auto has = [&](const char* text) { return k.source.find(text) != std::string::npos; };
        EXPECT_FALSE(p.a_transposed && p.m % 8 != 0 && has("min(m, M - kBlockM)")) << to_string(with_gaps);
        EXPECT_FALSE(!p.b_transposed && p.n % 8 != 0 && has("min(n, N - kBlockN")) << to_string(with_gaps);
        add(with_gaps, std::move(k), "sm_90a");
      }
    }
  }
}

TEST_F(CudaGemm, WgmmaTiles) {
  const Problem odd{200, 328, 200, 2}, single{8, 16, 8}, whole{512, 640, 200};
  const auto tiles = wgmma_tiles(std::get<program::Gemm>(node_of(odd).problem));
  EXPECT_GT(tiles.size(), 30u);
  // Without a GPU a few, which have each part of the text between them.
  const std::function<bool(const WgmmaTile&)> parts[] = {[](auto& t) { return t.share > 1 && t.slices == 1; },
                                                         [](auto& t) { return t.beside > 1 && t.block_m == 256; },
                                                         [](auto& t) { return t.slices > 1 && t.share > 1; },
                                                         [](auto& t) { return t.slices > 1 && t.split > 1; },
                                                         [](auto& t) { return t.alternate; },
                                                         [](auto& t) { return t.block_n % 32 != 0; }};
  std::vector<WgmmaTile> few;
  for (auto& has : parts) {
    const auto at = std::find_if(tiles.begin(), tiles.end(), has);
    ASSERT_NE(at, tiles.end());
    few.push_back(*at);
  }
  for (const Problem& p : {odd, single, whole}) {
    const program::Node node = node_of(p);
    if (KernelRunner::has_gpu())
      for (auto& t : tiles) add(p, generate_gemm_wgmma(node, std::get<program::Gemm>(node.problem), t, kProcessors, true), "sm_90a");
    else if (p.m != single.m)
      for (size_t i = p.m == whole.m; i < few.size(); i += 2)
        add(p, generate_gemm_wgmma(node, std::get<program::Gemm>(node.problem), few[i], kProcessors, true), "sm_90a");
  }
}

// What a block does from tile to tile: fewer blocks than tiles.
TEST_F(CudaGemm, WgmmaManyTilesABlock) {
  if (!KernelRunner::has_gpu()) GTEST_SKIP() << "no GPU";
  const Problem p{712, 1160, 264};
  const program::Node node = node_of(p);
  for (auto& tile : wgmma_tiles(std::get<program::Gemm>(node.problem)))
    if (tile.split == 1 && tile.slices == 1)
      add(p, generate_gemm_wgmma(node, std::get<program::Gemm>(node.problem), tile, 6, true), "sm_90a");
}

// Wherever an element is in a tile, its sums are added in the same order: tiles may share elements (the last ones begin early), and the
// block that stores one last must not decide its bits.
TEST_F(CudaGemm, ElementsAreSummedAlike) {
  if (!KernelRunner::has_gpu()) GTEST_SKIP() << "no GPU";
  for (bool a : {false, true}) {
    Problem p{264, 328, a ? 1609 : 1608, 1, a, !a, a ? DType::F16 : DType::BF16};
    p.alike = true;
    const program::Node node = node_of(p);
    const auto& g = std::get<program::Gemm>(node.problem);
    ASSERT_EQ(gemm_wgmma_refusal(node, g), "");
    for (auto& tile : wgmma_tiles(g)) add(p, generate_gemm_wgmma(node, g, tile, kProcessors, true), "sm_90a");
    for (auto& tile : mma_tiles(g)) add(p, generate_gemm_mma(node, g, tile), "sm_80");
  }
}

TEST_F(CudaGemm, WgmmaLayouts) {
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      const Problem p{136, 264, 72, 3, a, b, DType::F16};
      const program::Node node = node_of(p);
      const auto& g = std::get<program::Gemm>(node.problem);
      const auto tiles = wgmma_tiles(g);
      const size_t every = KernelRunner::has_gpu() ? 2 : tiles.size();
      for (size_t i = 0; i < tiles.size(); i += every)
        add(p, generate_gemm_wgmma(node, g, tiles[i], KernelRunner::has_gpu() ? 8 : kProcessors, false), "sm_90a");
    }
}

// A gate: silu(a b) * (a b2), where b and b2 are halves of one matrix.
TEST_F(CudaGemm, WgmmaPairs) {
  for (bool b : {false, true}) {
    const Problem p{200, 144, 136, 1, false, b, DType::BF16, true};
    program::Node node = node_of(p);
    auto& g = std::get<program::Gemm>(node.problem);
    // The right operand is [k, 2 n] or [2 n, k] then.
    g.b2 = g.b;
    if (!b) g.b.strides[1] = g.b2->strides[1] = 2 * p.n;
    g.b2->offset = b ? p.n * p.k : p.n;
    loop::Nest nest =
        loop::parse(fmt::format("loop (i0: 1, i1: {0}, i2: {1}) {{\n v0: f32 = accumulate\n v1: f32 = accumulate second\n v2: f32 = Mul v0 "
                                "v1\n v3: bf16 = Cast v2\n store %2 [i1*{1} + i2] v3\n}}",
                                p.m, p.n));
    node.domain = nest.domain, node.body = nest.body;
    const auto tiles = wgmma_tiles(g);
    EXPECT_GT(tiles.size(), 3u);
    for (size_t i = 0; i < tiles.size(); i += KernelRunner::has_gpu() ? 1 : tiles.size())
      add(p, generate_gemm_wgmma(node, g, tiles[i], 6, true), "sm_90a");
  }
}

TEST_F(CudaGemm, MmaLayoutsAndWidths) {
  for (const Problem& p : {Problem{136, 264, 200, 2}, Problem{77, 131, 139, 2, true, false},
                           Problem{78, 132, 46, 1, true, true, DType::F16}, Problem{300, 260, 68, 1, false, false}, Problem{1, 1, 1}}) {
    const program::Node node = node_of(p);
    const auto& g = std::get<program::Gemm>(node.problem);
    for (int64_t m : {p.m, int64_t{8192}})
      if (m == p.m || KernelRunner::has_gpu()) add(p, generate_gemm_mma(node, g, choose_mma_tile(g, m, m, 1, kProcessors)), "sm_80");
  }
}

// f32 rounded to tf32: all layouts and widths of a copy; on a GPU all tiles.
TEST_F(CudaGemm, Tf32MmaLayoutsAndWidths) {
  for (bool a : {false, true})
    for (bool b : {false, true})
      for (const Problem& p : {Problem{136, 264, 200, 2, a, b, DType::F32, false, Tf32::TiesAway},
                               Problem{77, 131, 45, 2, a, b, DType::F32, false, Tf32::TiesAway},
                               Problem{78, 130, 46, 1, a, b, DType::F32, false, Tf32::TiesAway},
                               Problem{1, 1, 1, 1, a, b, DType::F32, false, Tf32::TiesAway}}) {
        const program::Node node = node_of(p);
        const auto& g = std::get<program::Gemm>(node.problem);
        ASSERT_EQ(gemm_mma_refusal(node, g), "");
        const auto tiles = mma_tiles(g);
        for (size_t i = 0; i < tiles.size(); ++i)
          if (KernelRunner::has_gpu() || (p.n == 131 && i == (a ? 1u : 0u) + (b ? 2u : 0u)))
            add(p, generate_gemm_mma(node, g, tiles[i]), "sm_80");
      }
}

TEST_F(CudaGemm, Tf32WgmmaTiles) {
  const Problem odd{200, 328, 100, 2, false, true, DType::F32, false, Tf32::TiesEven},
      single{8, 16, 4, 1, false, true, DType::F32, false, Tf32::TiesEven},
      whole{512, 640, 200, 1, false, true, DType::F32, false, Tf32::TiesEven};
  for (const Problem& p : {odd, single, whole}) {
    const program::Node node = node_of(p);
    const auto& g = std::get<program::Gemm>(node.problem);
    ASSERT_EQ(gemm_wgmma_refusal(node, g), "");
    const auto tiles = wgmma_tiles(g);
    EXPECT_GT(tiles.size(), 30u);
    const size_t every = KernelRunner::has_gpu() ? 1 : tiles.size() / 3;
    for (size_t i = p.m == whole.m; i < tiles.size(); i += every)
      if (KernelRunner::has_gpu() || p.m != single.m) add(p, generate_gemm_wgmma(node, g, tiles[i], kProcessors, true), "sm_90a");
  }
}

// The reader of what is spilled, on a kernel that must.
TEST_F(CudaGemm, SpillsAreSeen) {
  const std::string text = R"(extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* a) {
  float x[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) x[i] = a[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) a[i * 1024 + threadIdx.x + 1] = x[i];
})";
  for (const char* architecture : {"sm_80", "sm_90a"}) EXPECT_GT(local_bytes(jit::nvrtc_compile(text, architecture, "spills")), 0);
}

TEST_F(CudaGemm, Tf32IsTakenOnlyWhereItIsAllowed) {
  Problem p{256, 256, 256, 1, false, true, DType::F32};
  program::Node node = node_of(p);
  auto& g = std::get<program::Gemm>(node.problem);
  EXPECT_NE(gemm_mma_refusal(node, g).find("allow_tf32"), std::string::npos);
  EXPECT_NE(gemm_wgmma_refusal(node, g).find("allow_tf32"), std::string::npos);
  g.tf32 = true;
  EXPECT_EQ(gemm_mma_refusal(node, g), "");
  EXPECT_EQ(gemm_wgmma_refusal(node, g), "");
  g.b.strides = {0, p.n, 1};
  EXPECT_EQ(gemm_mma_refusal(node, g), "");
  EXPECT_NE(gemm_wgmma_refusal(node, g), "") << "wgmma multiplies tf32 that is contiguous along k";
  g.b.strides = {0, 1, p.k + 2};
  EXPECT_EQ(gemm_mma_refusal(node, g), "");
  EXPECT_NE(gemm_wgmma_refusal(node, g), "") << "8 bytes are no row of a tensor map";
}

TEST_F(CudaGemm, SimtLayouts) {
  for (bool a : {false, true})
    for (bool b : {false, true}) {
      const Problem p{77, 131, 45, 2, a, b, DType::F32};
      const program::Node node = node_of(p);
      for (const int tile : {64, 32, 16}) add(p, generate_gemm_simt(node, std::get<program::Gemm>(node.problem), {tile}), "sm_80");
    }
}

}  // namespace
}  // namespace toroid::codegen

// Products whose results, and what is added to them, lie in rows that begin anywhere in memory: on a GPU against the interpreter of loops,
// without one their text is compiled only.
#include <functional>
#include <numeric>

#include "codegen/cuda/templates/gemm_mma.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "cuda_jobs.h"

namespace toroid::codegen {
namespace {

// Buffers of every body: a, b, the result, a residual, a bias, a second result; of the interpreter alone: the sums.
enum Buffer { kA, kB, kOut, kResidual, kBias, kOther, kSums };

struct Sizes {
  int64_t m, n, k;
  DType dtype = DType::BF16;
};

struct Body {
  const char* name;
  const char* text;  // {m}, {n}, {t}: the dtype; rows of results and residuals are n + 3 apart and begin at 5
  bool pair = false;
};

constexpr Body kBodies[] = {
    {"plain", R"(loop (i0: {m}, i1: {n}) {{
  v0: f32 = accumulate
  v1: {t} = Cast v0
  store %2 [i0*{n} + i1] v1
}})"},
    {"bias and residual", R"(loop (i0: {m}, i1: {n}) {{
  v0: f32 = accumulate
  v1: {t} = load %3 [i0*{n} + i0*3 + i1 + 5]
  v2: f32 = Cast v1
  v3: f32 = Add v0 v2
  v4: f32 = load %4 [i1 + 1]
  v5: f32 = Add v3 v4
  v6: {t} = Cast v5
  store %2 [i0*{n} + i0*3 + i1 + 5] v6
}})"},
    {"two results, one transposed", R"(loop (i0: {m}, i1: {n}) {{
  v0: f32 = accumulate
  v1: f32 = const 0
  v2: f32 = Max v0 v1
  v3: {t} = Cast v2
  store %2 [i0*{n} + i1] v3
  store %5 [i1*{m} + i0] v0
}})"},
    {"masks of rows, truths", R"(loop (i0: {m}, i1: {n}) {{
  v0: i64 = index [i0]
  v1: i64 = const 9
  v2: bool = Lt v0 v1
  v3: f32 = accumulate
  v4: {t} = load %3 [i0*{n} + i1 + 1] if v2
  v5: f32 = Cast v4
  v6: f32 = Add v3 v5
  v7: {t} = Cast v6
  store %2 [i0*{n} + i0*3 + i1] v7 if v2
  v9: f32 = const 0
  v10: bool = Lt v5 v9
  v11: u8 = Cast v10
  store %5 [i0*{n} + i1 + 3] v11
}})"},
    {"in place, backwards", R"(loop (i0: {m}, i1: {n}) {{
  v0: f32 = accumulate
  v1: {t} = load %2 [i0*{n} + i1 + 7]
  v2: f32 = Cast v1
  v3: f32 = Add v0 v2
  v4: f32 = load %4 [{n} - i1]
  v5: f32 = Mul v3 v4
  v6: {t} = Cast v5
  store %2 [i0*{n} + i1 + 7] v6
}})"},
    {"a gate", R"(loop (i0: {m}, i1: {n}) {{
  v0: f32 = accumulate
  v1: f32 = accumulate second
  v2: f32 = Mul v0 v1
  v3: {t} = Cast v2
  store %2 [i0*{n} + i1] v3
}})",
     true},
};

// The same body where sums are in memory.
loop::Nest over_sums(loop::Nest nest, const Sizes& s) {
  for (loop::Statement& step : nest.body.steps) {
    if (step.step != loop::Step::Accumulate) continue;
    const int64_t second = step.value.i;
    step.step = loop::Step::Load;
    step.buffer = kSums;
    step.index = nest.domain.vars[0].symbol * Expr(s.n) + nest.domain.vars[1].symbol + Expr(second * s.m * s.n);
  }
  return nest;
}

class CudaOddRows : public testing::Test {
 protected:
  void SetUp() override {
    if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  }

  struct Job : CudaJob {
    Sizes sizes;
    const Body* body;
  };

  static program::Node node_of(const Sizes& s, const Body& body) {
    program::Gemm g;
    g.m = s.m, g.n = s.n, g.k = s.k;
    g.tf32 = s.dtype == DType::F32;
    g.a = {kA, s.dtype, 0, {s.k, 1}};
    g.b = {kB, s.dtype, 0, {1, s.k}};
    if (body.pair) g.b2 = g.b, g.b2->offset = s.n * s.k;
    program::Node node;
    node.problem = g;
    loop::Nest nest = nest_of(s, body);
    node.domain = nest.domain, node.body = nest.body;
    return node;
  }
  static loop::Nest nest_of(const Sizes& s, const Body& body) {
    return loop::parse(fmt::format(fmt::runtime(body.text), fmt::arg("m", s.m), fmt::arg("n", s.n), fmt::arg("t", name_of(s.dtype))));
  }

  void wgmma(const Sizes& s, const Body& body, const std::function<bool(size_t, const WgmmaTile&)>& takes, int processors = 132) {
    const program::Node node = node_of(s, body);
    const auto& g = std::get<program::Gemm>(node.problem);
    ASSERT_EQ(gemm_wgmma_refusal(node, g), "");
    const auto tiles = wgmma_tiles(g);
    for (size_t i = 0; i < tiles.size(); ++i)
      if (takes(i, tiles[i])) jobs_.push_back({{generate_gemm_wgmma(node, g, tiles[i], processors, true), "sm_90a"}, s, &body});
  }
  void mma(const Sizes& s, const Body& body) {
    if (body.pair) return;
    const program::Node node = node_of(s, body);
    const auto& g = std::get<program::Gemm>(node.problem);
    ASSERT_EQ(gemm_mma_refusal(node, g), "");
    const auto tiles = mma_tiles(g);
    for (size_t i = 0; i < tiles.size(); i += KernelRunner::has_gpu() ? 4 : tiles.size())
      jobs_.push_back({{generate_gemm_mma(node, g, tiles[i]), "sm_80"}, s, &body});
  }

  void TearDown() override {
    compile_side_by_side(
        jobs_, [](auto& j) { return j.runs_as(); }, true);
    int failed = 0;
    for (auto& j : jobs_) {
      SCOPED_TRACE(fmt::format("{} x {} x {} {}, {}: {}", j.sizes.m, j.sizes.n, j.sizes.k, name_of(j.sizes.dtype), j.body->name,
                               j.kernel.plan.substr(0, j.kernel.plan.find('\n'))));
      EXPECT_EQ(j.error, "") << j.kernel.source.substr(j.kernel.source.find("\nextern"));
      if (!j.error.empty()) continue;
      if (j.architecture == "sm_90a") {
        constexpr int kFew = 64;  // bytes: of the largest tiles
        EXPECT_LE(local_bytes(j.cubin), kFew) << "registers are spilled";
      }
      EXPECT_NE(j.kernel.source.find("store_around"), std::string::npos);
      if (j.runs()) failed += !run(j);
      constexpr int kEnough = 8;
      if (failed > kEnough) return;
    }
  }

 private:
  struct Memory {
    DType dtype;
    int64_t numel;
    std::vector<std::byte> bytes;
    double at(int64_t i) const { return load_number(bytes.data() + static_cast<size_t>(i) * size_of(dtype), dtype).as_double(); }
  };

  // What is in memory before, and what the interpreter leaves there.
  void prepare(const Job& j) {
    const Sizes& s = j.sizes;
    const std::string name = fmt::format("{} {} {} {} {}", s.m, s.n, s.k, name_of(s.dtype), j.body->name);
    if (name == prepared_) return;
    prepared_ = name;
    const int64_t columns = s.n * (j.body->pair ? 2 : 1), result = s.m * (s.n + 3) + 8;
    const bool truths = std::string_view(j.body->text).find("u8") != std::string_view::npos;
    const std::pair<DType, int64_t> kinds[] = {{s.dtype, s.m * s.k},       {s.dtype, columns * s.k},
                                               {s.dtype, result},          {s.dtype, result},
                                               {DType::F32, s.n + 2},      {truths ? DType::U8 : DType::F32, result},
                                               {DType::F32, s.m * columns}};
    KernelRunner random;
    before_.clear();
    for (int b = kA; b <= kSums; ++b) {
      before_.push_back({kinds[b].first, kinds[b].second, {}});
      random.fill(before_.back().bytes, {b, kinds[b].first, kinds[b].second, kinds[b].first == DType::U8 ? 0.0 : -1.0, 1});
    }
    const Tf32 ties = s.dtype != DType::F32 ? Tf32::None : j.architecture == "sm_80" ? Tf32::TiesAway : Tf32::TiesEven;
    std::vector<double> a, b;
    for (int64_t i = 0; i < before_[kA].numel; ++i) a.push_back(as_tf32_or_same(before_[kA].at(i), ties));
    for (int64_t i = 0; i < before_[kB].numel; ++i) b.push_back(as_tf32_or_same(before_[kB].at(i), ties));
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t c = 0; c < columns; ++c) {
        const double sum = std::inner_product(&a[static_cast<size_t>(i * s.k)], &a[static_cast<size_t>(i * s.k)] + s.k,
                                              &b[static_cast<size_t>(c * s.k)], 0.0);
        const int64_t at = c / s.n * s.m * s.n + i * s.n + c % s.n;
        store_number(before_[kSums].bytes.data() + at * 4, DType::F32, Number::of(sum));
      }
    after_ = before_;
    std::vector<loop::Buffer> buffers;
    std::vector<std::byte*> memory;
    for (int id = kA; id <= kSums; ++id) {
      buffers.push_back(
          {id, "b", after_[static_cast<size_t>(id)].dtype, after_[static_cast<size_t>(id)].numel, loop::BufferKind::Temporary});
      memory.push_back(after_[static_cast<size_t>(id)].bytes.data());
    }
    const loop::Nest nest = over_sums(nest_of(s, *j.body), s);
    loop::interpret(nest.domain, nest.body, buffers, memory, [](const sym::Node&) -> int64_t { return 0; });
  }
  static double as_tf32_or_same(double x, Tf32 ties) { return ties == Tf32::None ? x : as_tf32(x, ties); }

  bool run(const Job& j) {
    prepare(j);
    const KernelText& k = j.kernel;
    device::cuda::Gpu& gpu = device::cuda::gpu(0);
    std::vector<std::shared_ptr<void>> held;
    std::vector<void*> addresses;
    for (int id : k.buffers) {
      const auto& bytes = before_[static_cast<size_t>(id)].bytes;
      held.push_back(gpu.allocate((bytes.size() + 15) / 16 * 16));  // of a GPU's memory nobody gets less
      gpu.copy_in(held.back().get(), bytes.data(), bytes.size());
      addresses.push_back(held.back().get());
    }
    for (const Expr& bytes : {k.scratch_bytes, k.counters * Expr(4)}) {
      if (bytes == Expr(0)) continue;
      held.push_back(gpu.allocate(static_cast<size_t>(bytes.constant())));
      gpu.fill_zero(held.back().get(), static_cast<size_t>(bytes.constant()));
      addresses.push_back(held.back().get());
    }
    device::cuda::Arguments arguments(k.tensor_maps, {}, addresses.size(), [](const Expr& e) { return e.constant(); });
    arguments.set_pointers(addresses);
    gpu.launch(gpu.load(j.cubin, k.name, k.shared_bytes, k.overlaps), {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps},
               arguments.list());
    int wrong = 0;
    for (size_t i = 0; i < k.buffers.size(); ++i) {
      const auto id = static_cast<size_t>(k.buffers[i]);
      Memory got = before_[id];
      gpu.copy_out(got.bytes.data(), addresses[i], got.bytes.size());
      const Memory &was = before_[id], &want = after_[id];
      const size_t size = size_of(got.dtype), end = static_cast<size_t>(got.numel) * size;
      EXPECT_EQ(0, std::memcmp(was.bytes.data() + end, got.bytes.data() + end, got.bytes.size() - end)) << "wrote behind buffer " << id;
      for (int64_t at = 0; at < got.numel; ++at) {
        const std::byte *x = got.bytes.data() + static_cast<size_t>(at) * size, *y = want.bytes.data() + static_cast<size_t>(at) * size;
        const bool stays = std::memcmp(y, was.bytes.data() + static_cast<size_t>(at) * size, size) == 0;
        if (stays ? std::memcmp(x, y, size) == 0
                  : KernelRunner::close(load_number(x, got.dtype), load_number(y, got.dtype), got.dtype, 1e-4))
          continue;
        if (++wrong <= 3) ADD_FAILURE() << "buffer " << id << "[" << at << "]: " << got.at(at) << ", expected " << want.at(at);
      }
    }
    EXPECT_EQ(wrong, 0);
    return wrong == 0;
  }

  std::vector<Job> jobs_;
  std::vector<Memory> before_, after_;
  std::string prepared_;
};

// Without a GPU some texts are enough, which have each part of it between them.
bool gpu() { return KernelRunner::has_gpu(); }

// Tiles that end where the result does, and those that its end cuts.
TEST_F(CudaOddRows, Wgmma) {
  for (size_t i = 0; i < std::size(kBodies); ++i)
    for (const Sizes& s : {Sizes{200, 331, 136}, Sizes{130, 333, 72, DType::F16}, Sizes{70, 27, 64}, Sizes{9, 1001, 264, DType::F16}}) {
      if (gpu())
        wgmma(
            s, kBodies[i], [&](size_t tile, auto&) { return tile % (s.m == 200 ? 8 : 16) == i; }, s.m == 200 ? 3 : 132);
      else if ((i == 1 && s.m == 200) || (i == 3 && s.m == 70))
        wgmma(s, kBodies[i], [](size_t tile, auto&) { return tile == 3; });
    }
}

// Each part of the text that stores.
TEST_F(CudaOddRows, WgmmaParts) {
  const std::function<bool(const WgmmaTile&)> parts[] = {
      [](auto& t) { return t.slices > 1 && t.split > 1; },  [](auto& t) { return t.alternate && t.block_n % 32 != 0; },
      [](auto& t) { return t.slices > 1 && t.split == 1; }, [](auto& t) { return t.split == 4 && t.slices == 1; },
      [](auto& t) { return t.block_n % 32 != 0; },          [](auto& t) { return t.alternate; }};
  for (size_t i = 0; i < (gpu() ? std::size(parts) : 2); ++i) {
    int found = 0;
    wgmma({256, 777, 200}, kBodies[1], [&](size_t, const WgmmaTile& t) { return parts[i](t) && found++ % (gpu() ? 6 : 1000) == 0; });
    EXPECT_GT(found, 0) << i;
  }
}

// Rows that are a multiple of vectors long, at places that are none.
TEST_F(CudaOddRows, EvenRowsAtOddPlaces) {
  for (const Body* body : {&kBodies[1], &kBodies[3]}) {
    if (gpu()) wgmma({136, 328, 72}, *body, [](size_t tile, auto&) { return tile % 12 == 2; });
    if (gpu() || body == &kBodies[1]) mma({136, 328, 72}, *body);
  }
}

TEST_F(CudaOddRows, Tf32) {
  wgmma({200, 331, 136, DType::F32}, kBodies[1], [](size_t tile, auto&) { return gpu() ? tile % 12 == 5 : tile == 5; });
  if (gpu()) wgmma({200, 331, 136, DType::F32}, kBodies[0], [](size_t tile, auto&) { return tile % 12 == 1; });
  if (gpu()) mma({78, 133, 45, DType::F32}, kBodies[1]);
}

TEST_F(CudaOddRows, Mma) {
  for (const Body& body : kBodies)
    for (const Sizes& s : {Sizes{200, 331, 136}, Sizes{77, 91, 45, DType::F16}, Sizes{3, 5, 8}})
      if (gpu() || (s.m == 77 && &body == &kBodies[3])) mma(s, body);
}

}  // namespace
}  // namespace toroid::codegen

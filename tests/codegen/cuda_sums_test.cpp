// Sums of columns of gemm_wgmma's tiles, of each kind: against those of the result that the same launch stores. Without a GPU their text is
// compiled only.
#include <cmath>
#include <set>

#include "codegen/cuda/generate.h"
#include "codegen/cuda/templates/gemm_wgmma.h"
#include "cuda_jobs.h"
#include "program/points.h"

namespace toroid::codegen::sums {
namespace {

struct Product {
  int64_t m, n, k;
  DType dtype;
  int64_t blocks() const { return (m + program::kSummedRows - 1) / program::kSummedRows; }
};

// Buffers 0 to 5: a, b, the result, x, the sums of columns, and those of the result times x.
program::Node node_of(const Product& p) {
  program::Gemm g;
  g.m = p.m, g.n = p.n, g.k = p.k;
  g.a = {0, p.dtype, 0, {p.k, 1}};
  g.b = {1, p.dtype, 0, {1, p.k}};
  program::Node node;
  node.problem = g;
  loop::Nest nest = loop::parse(
      fmt::format("loop (i0: {0}, i1: {1}) {{\nv0: f32 = accumulate\nv1: {2} = Cast v0\nstore %2 [{1}*i0 + i1] v1\nv3: f32 = Cast v1\n"
                  "store %4 [{1}*floordiv(i0, 64) + i1] v3 sum\nv5: {2} = load %3 [{1}*i0 + i1]\nv6: f32 = Cast v5\nv7: f32 = Mul v3 v6\n"
                  "store %5 [{1}*floordiv(i0, 64) + i1] v7 sum\n}}",
                  p.m, p.n, name_of(p.dtype)));
  node.domain = nest.domain, node.body = nest.body;
  return node;
}

struct Job : CudaJob {
  Product product;
};

std::vector<Job> jobs() {
  std::vector<Job> out;
  for (const Product& p : {Product{331, 264, 200, DType::BF16}, Product{1217, 256, 64, DType::F16}}) {
    const program::Node node = node_of(p);
    const auto& g = std::get<program::Gemm>(node.problem);
    std::set<std::string> kinds;
    for (const WgmmaTile& t : wgmma_tiles(g)) {
      const std::string kind = fmt::format("{} {} {} {} {}", t.block_m, t.consumers, t.share, t.beside, t.alternate);
      if (takes_sums(t) && kinds.insert(kind).second) out.push_back({{generate_gemm_wgmma(node, g, t, 132, true), "sm_90a"}, p});
    }
  }
  return out;
}

struct Memory {
  std::vector<std::byte> host;
  DType dtype;
  double at(int64_t i) const { return load_number(host.data() + static_cast<size_t>(i) * size_of(dtype), dtype).as_double(); }
};

void run(const Product& p, const KernelText& k, const std::string& cubin) {
  KernelRunner random;
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  const int64_t sums = p.blocks() * p.n, sizes[] = {p.m * p.k, p.n * p.k, p.m * p.n, p.m * p.n, sums, sums};
  std::vector<Memory> memory(6);
  std::vector<std::shared_ptr<void>> device;
  for (int b = 0; b < 6; ++b) {
    Memory& m = memory[static_cast<size_t>(b)];
    m.dtype = b < 4 ? p.dtype : DType::F32;
    random.fill(m.host, {b, m.dtype, sizes[b], -1, 1});
    device.push_back(gpu.allocate(m.host.size()));
    gpu.copy_in(device.back().get(), m.host.data(), m.host.size());
  }
  std::vector<void*> addresses;
  for (int b : k.buffers) addresses.push_back(device[static_cast<size_t>(b)].get());
  device::cuda::Arguments arguments(k.tensor_maps, {}, addresses.size(), [](const Expr& e) { return e.constant(); });
  arguments.set_pointers(addresses);
  gpu.launch(gpu.load(cubin, k.name, k.shared_bytes), {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps}, arguments.list());
  const std::vector<std::byte> before = memory[4].host;
  for (size_t b : {2, 4, 5}) gpu.copy_out(memory[b].host.data(), device[b].get(), memory[b].host.size());
  const size_t end = static_cast<size_t>(sums) * 4;
  EXPECT_EQ(0, std::memcmp(before.data() + end, memory[4].host.data() + end, before.size() - end)) << "wrote behind the sums";
  int wrong = 0;
  for (int64_t block = 0; block < p.blocks(); ++block)
    for (int64_t column = 0; column < p.n; ++column) {
      double want[2] = {}, size[2] = {};
      for (int64_t row = block * program::kSummedRows; row < std::min(p.m, (block + 1) * program::kSummedRows); ++row) {
        const double y = memory[2].at(row * p.n + column), terms[] = {y, y * memory[3].at(row * p.n + column)};
        for (int s = 0; s < 2; ++s) want[s] += terms[s], size[s] += std::fabs(terms[s]);
      }
      for (int s = 0; s < 2; ++s) {
        const double got = memory[4 + static_cast<size_t>(s)].at(block * p.n + column);
        if (!(std::fabs(got - want[s]) <= 2e-6 * (size[s] + 1e-6)) && ++wrong <= 3)
          ADD_FAILURE() << "sum " << s << " of rows from " << block * program::kSummedRows << ", column " << column << ": " << got
                        << ", expected " << want[s];
      }
    }
  EXPECT_EQ(wrong, 0);
}

TEST(GpuSumsOfTiles, AreThoseOfTheResult) {
  if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  std::vector<Job> all = jobs();
  EXPECT_GE(all.size(), 12u);
  const auto absent = [](const Job& j) { return !j.runs(); };
  if (std::any_of(all.begin(), all.end(), absent)) {  // some are enough to be compiled
    constexpr size_t kEach = 7;
    std::vector<Job> some;
    for (size_t i = 0; i < all.size(); i += kEach) some.push_back(std::move(all[i]));
    all = std::move(some);
  }
  compile_side_by_side(
      all, [](auto& j) { return j.runs_as(); }, false);
  for (auto& j : all) {
    SCOPED_TRACE(j.kernel.plan.substr(0, j.kernel.plan.find('\n')));
    EXPECT_EQ(j.error, "");
    if (j.runs() && j.error.empty()) run(j.product, j.kernel, j.cubin);
  }
}

// Who computes the node decides: by the rule, by a configuration, on a GPU.
TEST(GpuSumsOfTiles, AreOfTilesThatHaveWholeSums) {
  const program::Program none;
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  program::Node node = node_of({1 << 14, 256, 64, DType::BF16});
  EXPECT_EQ(cuda_sums_refusal(node, none, gpu), "");
  const program::Node few = node_of({128, 256, 1 << 14, DType::BF16});
  EXPECT_NE(cuda_sums_refusal(few, none, gpu), "") << "several blocks share a tile";
  const program::Node odd = node_of({1 << 14, 255, 64, DType::BF16});
  EXPECT_NE(cuda_sums_refusal(odd, none, gpu), "") << "rows begin anywhere";
  bool taken[2] = {};
  for (const WgmmaTile& t : wgmma_tiles(std::get<program::Gemm>(node.problem))) {
    node.config = config_of("gemm_wgmma", t);
    const bool takes = cuda_sums_refusal(node, none, gpu).empty();
    EXPECT_EQ(takes, takes_sums(t)) << program::to_string(node.config);
    taken[takes] = true;
  }
  EXPECT_TRUE(taken[0] && taken[1]);
  node.config = {"gemm_mma", {}};
  EXPECT_NE(cuda_sums_refusal(node, none, gpu), "");
  node.config = {};
  gpu.architecture = "sm_80";
  EXPECT_NE(cuda_sums_refusal(node, none, gpu), "");
  node.by = program::Implementation::CublasLt;
  gpu.architecture = "sm_90a";
  EXPECT_NE(cuda_sums_refusal(node, none, gpu), "");
}

}  // namespace
}  // namespace toroid::codegen::sums

// The gradient of attention on a GPU: NVRTC takes its texts without spills, and on a GPU each gradient is that of the problem's definition.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/scalar.h"
#include "codegen/cuda/generate.h"
#include "cuda_jobs.h"
#include "program/fields.h"

namespace toroid::codegen {
namespace {

struct Shape {
  int64_t batch, heads, kv_heads, queries, keys, depth;
  bool causal;
  DType dtype;
  bool positions_first = false;  // memory is [batch, position, head, dim]
};

enum Slot : size_t { kQ, kK, kV, kGradOut, kLogsumexp, kRowSums, kGradQuery, kGradKey, kGradValue };

// Memory of a node, what it must leave in the gradients, and the kernel.
struct Job : CudaJob {
  Shape shape = {};
  program::Config config = {};
  program::Program program = {};
  program::Node node = {};
  std::vector<Tensor> memory;  // dense, in the order of Slot
};

Tensor random(const std::vector<int64_t>& sizes, DType dtype, uint32_t seed) {
  Tensor t = Tensor::empty(sizes, dtype);
  uint32_t state = seed;
  for (int64_t i = 0; i < t.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    store_number(static_cast<std::byte*>(t.raw_data()) + static_cast<size_t>(i) * size_of(dtype), dtype,
                 Number::of(static_cast<int32_t>(state) * 0x1.8p-31));
  }
  return t;
}

// Views as [batch, head, position, dim] of the memory.
program::Tensors views(const Job& job, const std::vector<Tensor>& memory) {
  program::Tensors out;
  program::visit_operands(job.node, [&](const program::Operand& o, program::Use, std::string_view, const auto& extents) {
    std::vector<int64_t> sizes, strides;
    for (const Expr& e : extents()) sizes.push_back(e.constant());
    for (const Expr& e : o.strides) strides.push_back(e.constant());
    out.push_back(memory[static_cast<size_t>(o.buffer)].as_strided(sizes, strides, 0));
  });
  return out;
}

// Results and statistics of the forward pass, in double.
void run_forward(const Job& job, const program::Tensors& t) {
  const Shape& s = job.shape;
  const double scale = std::get<program::AttentionBackward>(job.node.problem).scale;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        const int64_t own = h / (s.heads / s.kv_heads), seen = s.causal ? std::min(s.keys, i + 1 + s.keys - s.queries) : s.keys;
        std::vector<double> scores;
        double total = 0, sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double score = 0, change = 0;
          for (int64_t d = 0; d < s.depth; ++d) {
            score += program::element(t[kQ], {b, h, i, d}).as_double() * program::element(t[kK], {b, own, j, d}).as_double();
            change += program::element(t[kGradOut], {b, h, i, d}).as_double() * program::element(t[kV], {b, own, j, d}).as_double();
          }
          total += std::exp(scale * score);
          sum += std::exp(scale * score) * change;
        }
        const double logarithm = seen > 0 ? std::log(total) : -HUGE_VAL;
        program::set_element(t[kLogsumexp], std::array{b, h, i}, Number::of(logarithm));
        program::set_element(t[kRowSums], std::array{b, h, i}, Number::of(seen > 0 ? sum / total : 0));
      }
}

// What a kernel is made for.
struct Way {
  const char* architecture;
  int64_t step;  // queries, of the form with wgmma
  bool ordered;
};

Job job_of(const Shape& s, const Way& way) {
  Job job;
  job.architecture = way.architecture;
  job.shape = s;
  program::AttentionBackward a;
  a.batch = s.batch, a.heads = s.heads, a.kv_heads = s.kv_heads, a.queries = s.queries, a.keys = s.keys;
  a.head_dim = a.value_dim = s.depth, a.causal = s.causal, a.ordered = way.ordered,
  a.scale = 1.25 / std::sqrt(static_cast<double>(s.depth));
  const auto rows = [&](int64_t heads, int64_t positions, DType dtype) {
    const int64_t numel = s.batch * heads * positions * s.depth;
    const int buffer = job.program.new_buffer("b", dtype, numel, loop::BufferKind::Input);
    job.memory.push_back(random({numel}, dtype, static_cast<uint32_t>(buffer) + 1));
    const Expr batch = heads * positions * s.depth;
    return s.positions_first ? program::Operand{buffer, dtype, 0, {batch, s.depth, heads * s.depth, 1}}
                             : program::Operand{buffer, dtype, 0, {batch, positions * s.depth, s.depth, 1}};
  };
  const auto statistic = [&] {
    const int64_t numel = s.batch * s.heads * s.queries;
    const int buffer = job.program.new_buffer("b", DType::F32, numel, loop::BufferKind::Input);
    job.memory.push_back(random({numel}, DType::F32, 1));
    return program::Operand{buffer, DType::F32, 0, {s.heads * s.queries, s.queries, 1}};
  };
  a.q = rows(s.heads, s.queries, s.dtype), a.k = rows(s.kv_heads, s.keys, s.dtype), a.v = rows(s.kv_heads, s.keys, s.dtype);
  a.grad_out = rows(s.heads, s.queries, s.dtype), a.logsumexp = statistic(), a.row_sums = statistic();
  a.grad_query = rows(s.heads, s.queries, DType::F32);
  a.grad_key = rows(s.kv_heads, s.keys, s.dtype), a.grad_value = rows(s.kv_heads, s.keys, s.dtype);
  job.node.problem = a;
  run_forward(job, views(job, job.memory));
  if (way.step > 0) job.config = {.form = "attention_backward", .fields = {{"queries", way.step}, {"heads", 1}}};
  job.node.config = job.config;
  device::cuda::GpuInfo gpu = KernelRunner::has_gpu() ? KernelRunner::gpu_info() : device::cuda::GpuInfo();
  gpu.architecture = way.architecture;
  ConstantMemory constants;
  job.kernel = generate_cuda(job.node, job.program, gpu, constants);
  return job;
}

// What a launch leaves in the memory. Counters that it does not leave as zeros are a failure.
std::vector<Tensor> launch(const Job& job) {
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  std::vector<std::shared_ptr<void>> memory;
  const auto bytes_of = [](const Tensor& t) { return static_cast<size_t>(t.numel()) * size_of(t.dtype()); };
  for (auto& t : job.memory) {
    memory.push_back(gpu.allocate(bytes_of(t)));
    gpu.copy_in(memory.back().get(), t.raw_data(), bytes_of(t));
  }
  const KernelText& k = job.kernel;
  std::vector<void*> addresses;
  for (int b : k.buffers) addresses.push_back(memory[static_cast<size_t>(b)].get());
  std::vector<uint32_t> counters(static_cast<size_t>(k.counters.constant()));
  const size_t counter_bytes = counters.size() * sizeof(uint32_t);
  std::shared_ptr<void> counting;
  if (!counters.empty()) {
    counting = gpu.allocate(counter_bytes);
    gpu.fill_zero(counting.get(), counter_bytes);
    addresses.push_back(counting.get());
  }
  device::cuda::Arguments arguments(k.tensor_maps, {}, addresses.size(), [](const Expr& e) { return e.constant(); });
  arguments.set_pointers(addresses);
  const device::cuda::Kernel kernel = gpu.load(job.cubin, k.name, k.shared_bytes, k.overlaps);
  gpu.launch(kernel, {k.tasks.constant(), k.block, k.shared_bytes, k.overlaps}, arguments.list());
  std::vector<Tensor> out;
  for (size_t i = 0; i < memory.size(); ++i) {
    out.push_back(Tensor::empty(job.memory[i].sizes(), job.memory[i].dtype()));
    gpu.copy_out(out.back().raw_data(), memory[i].get(), bytes_of(out.back()));
  }
  if (counting) gpu.copy_out(counters.data(), counting.get(), counter_bytes);
  EXPECT_EQ(std::count(counters.begin(), counters.end(), 0u), static_cast<std::ptrdiff_t>(counters.size()));
  return out;
}

void run(const Job& job) {
  const std::vector<Tensor> got = launch(job);
  const auto& problem = std::get<program::AttentionBackward>(job.node.problem);
  if (problem.ordered) {
    const auto bytes = static_cast<size_t>(got[kGradQuery].numel()) * sizeof(float);
    for (int again = 0; again < 3; ++again)
      EXPECT_EQ(std::memcmp(launch(job)[kGradQuery].raw_data(), got[kGradQuery].raw_data(), bytes), 0) << "other bits";
  }
  std::vector<Tensor> want = job.memory;
  for (size_t i : {kGradQuery, kGradKey, kGradValue}) {
    want[i] = Tensor::empty(job.memory[i].sizes(), DType::F64);
    for (int64_t e = 0; e < want[i].numel(); ++e) want[i].data<double>()[e] = program::element(job.memory[i], {e}).as_double();
  }
  compute(problem, views(job, want));
  const double half = job.shape.dtype == DType::BF16 ? 6e-3 : 1e-3;
  for (size_t i : {kGradQuery, kGradKey, kGradValue}) {
    double difference = 0, size = 0, most = 0;
    for (int64_t e = 0; e < got[i].numel(); ++e) {
      const double start = i == kGradQuery ? program::element(job.memory[i], {e}).as_double() : 0;
      const double y = want[i].data<double>()[e] - start, off = program::element(got[i], {e}).as_double() - start - y;
      ASSERT_TRUE(std::isfinite(off)) << "element " << e << " of gradient " << i - kGradQuery;
      difference += off * off, size += y * y, most = std::max(most, std::fabs(off));
    }
    // Weights and slopes are rounded once each; a row or a column that is missing or counted twice is beyond that.
    EXPECT_LE(std::sqrt(difference), half * std::sqrt(size)) << "gradient " << i - kGradQuery << ", largest difference " << most;
    EXPECT_LE(most, 10 * half * std::max(1.0, 8 * std::sqrt(size / static_cast<double>(got[i].numel()))));
  }
}

TEST(CudaAttentionBackward, ShapesOfEachKind) {
  if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  constexpr DType kBf16 = DType::BF16, kF16 = DType::F16;
  const Shape shapes[] = {{1, 2, 2, 256, 256, 64, false, kBf16},      {1, 2, 2, 256, 256, 128, true, kBf16},
                          {2, 4, 2, 201, 201, 64, true, kBf16, true}, {2, 4, 2, 201, 201, 128, true, kF16, true},
                          {1, 6, 2, 70, 333, 128, false, kBf16},      {1, 6, 1, 333, 70, 64, false, kF16},
                          {1, 2, 1, 300, 100, 128, true, kBf16},      {1, 1, 1, 1, 1, 64, false, kBf16},
                          {1, 3, 3, 130, 260, 64, true, kF16},        {1, 4, 2, 150, 150, 80, true, kBf16, true}};
  const Way ways[] = {{"sm_90a", 64, false}, {"sm_90a", 64, true}, {"sm_90a", 128, false}, {"sm_90a", 128, true}, {"sm_80", 0, false}};
  std::vector<Job> jobs;
  for (const Shape& s : shapes)
    for (const Way& way : ways) {
      if (way.step > 0 && s.depth != 64 && (way.step == 128 || s.depth != 128)) continue;
      // Without a GPU one text of each kind is enough.
      if (!KernelRunner::has_gpu() && (&s - shapes > 1 || (way.step > 0 && way.ordered != s.causal))) continue;
      jobs.push_back(job_of(s, way));
    }
  compile_side_by_side(
      jobs, [](auto& job) { return job.runs_as(); }, true);
  for (auto& job : jobs) {
    const Shape& s = job.shape;
    SCOPED_TRACE(fmt::format("{} x {}/{} heads x {} x {} x {} {}{} {}", s.batch, s.heads, s.kv_heads, s.queries, s.keys, s.depth,
                             name_of(s.dtype), s.causal ? " causal" : "", job.kernel.plan) +
                 (std::get<program::AttentionBackward>(job.node.problem).ordered ? " ordered" : ""));
    ASSERT_EQ(job.error, "");
    EXPECT_TRUE(job.runs_as() != job.architecture || local_bytes(job.cubin) == 0) << "registers are spilled";
    if (job.runs()) run(job);
  }
}

}  // namespace
}  // namespace toroid::codegen

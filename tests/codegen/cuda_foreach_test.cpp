// One launch for many loops: its text does not grow with them, and each loop finds its own memory.
#include "codegen/cuda/foreach.h"
#include "device/cuda/arguments.h"
#include "device/cuda/gpu.h"
#include "jit/nvrtc.h"
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

constexpr int kScale = 0;  // a number that all loops read

int updated(int loop) { return 1 + 2 * loop; }
int read(int loop) { return 2 + 2 * loop; }
int64_t size_of_loop(int loop) { return 2 + 37 * loop; }

// updated += scale * read, in every loop, of other memory and size.
program::Node updates(int loops) {
  program::Node node;
  for (int i = 0; i < loops; ++i) {
    loop::Nest nest =
        loop::parse(fmt::format("loop (i0: {}) {{\n v0: f32 = load %{} [i0]\n v1: f32 = load %{} [0]\n v2: f32 = load %{} [i0]\n"
                                " v3: f32 = Mul v1 v2\n v4: f32 = Add v0 v3\n store %{} [i0] v4\n}}",
                                size_of_loop(i), updated(i), kScale, read(i), updated(i)));
    if (i == 0)
      node.domain = nest.domain, node.body = nest.body;
    else
      node.beside.push_back(std::move(nest));
  }
  return node;
}

TEST(CudaForeach, TextGrowsByNumbersAlone) {
  const auto length = [](int loops) { return generate_cuda_foreach(updates(loops), -1).source.size(); };
  EXPECT_LT(length(500) - length(400), 100 * 16u) << "of a loop: its first block and its size";
}

TEST(CudaForeach, TakesWhatAllReadFirst) {
  const KernelText k = generate_cuda_foreach(updates(3), -1);
  EXPECT_EQ(k.buffers, (std::vector<int>{kScale, updated(0), read(0), updated(1), read(1), updated(2), read(2)}));
}

// By which a kernel takes many pointers as one structure.
TEST(CudaForeach, PointersLieOneBehindTheOther) {
  const device::cuda::Arguments arguments({}, {}, 5, [](const Expr& e) { return e.constant(); });
  const auto list = arguments.list();
  ASSERT_EQ(list.size(), 5u);
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(static_cast<void* const*>(list[i]), static_cast<void* const*>(list[0]) + i);
}

TEST(CudaForeach, EachLoopHasItsMemory) {
  if (!KernelRunner::has_cuda()) GTEST_SKIP() << "NVRTC, the GPU's compiler, was not found: name its folder in TOROID_CUDA_DIR";
  const int loops = 700;
  const KernelText k = generate_cuda_foreach(updates(loops), -1);
  const bool runs = KernelRunner::has_gpu();
  const std::string cubin = jit::nvrtc_compile(k.source, runs ? KernelRunner::gpu_architecture() : "sm_90a", k.name);
  if (!runs) GTEST_SKIP() << "no GPU";
  device::cuda::Gpu& gpu = device::cuda::gpu(0);
  const auto value = [](int buffer, int64_t i) { return static_cast<float>(buffer % 101) + 0.5f + 0.25f * static_cast<float>(i % 7); };
  std::vector<std::shared_ptr<void>> memory;
  for (int b = 0; b <= 2 * loops; ++b) {
    std::vector<float> host(static_cast<size_t>(b == kScale ? 1 : size_of_loop((b - 1) / 2)));
    for (size_t i = 0; i < host.size(); ++i) host[i] = value(b, static_cast<int64_t>(i));
    memory.push_back(gpu.allocate(std::max<size_t>(host.size() * 4, 16)));
    gpu.copy_in(memory.back().get(), host.data(), host.size() * 4);
  }
  std::vector<void*> addresses;
  for (int b : k.buffers) addresses.push_back(memory[static_cast<size_t>(b)].get());
  device::cuda::Arguments arguments({}, {}, addresses.size(), [](const Expr& e) { return e.constant(); });
  arguments.set_pointers(addresses);
  gpu.launch(gpu.load(cubin, k.name, 0), {k.tasks.constant(), k.block, 0, k.overlaps}, arguments.list());
  for (int loop = 0; loop < loops; ++loop) {
    std::vector<float> got(static_cast<size_t>(size_of_loop(loop)));
    gpu.copy_out(got.data(), memory[static_cast<size_t>(updated(loop))].get(), got.size() * 4);
    int wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      wrong += got[i] != value(updated(loop), at) + value(kScale, 0) * value(read(loop), at);
    }
    EXPECT_EQ(wrong, 0) << "loop " << loop;
  }
}

}  // namespace
}  // namespace toroid::codegen

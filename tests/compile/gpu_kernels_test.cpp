// The kernels of whole models for GPUs, compiled by NVRTC: no GPU is needed.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "compile/model.h"
#include "import/pt2_importer.h"
#include "jit/nvrtc.h"
#include "toroid/error.h"

namespace toroid {
namespace {

class GpuKernels : public testing::TestWithParam<const char*> {};

TEST_P(GpuKernels, OfModelsCompile) {
  const std::filesystem::path folder = std::string(TOROID_SOURCE_DIR) + "/tests/data/models";
  std::set<std::string> seen;
  device::cuda::GpuInfo gpu;
  gpu.architecture = GetParam();
  for (auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    if (file.path().extension() != ".pt2") continue;
    for (auto& k : compiler::kernels_for_gpu(import::load_model(file.path().string()), gpu)) {
      if (!seen.insert(k.source).second) continue;
      try {
        jit::nvrtc_compile(k.source, GetParam(), k.name);
      } catch (const EnvironmentError& e) {
        GTEST_SKIP() << e.what();
      } catch (const InternalError& e) {
        FAIL() << file.path().filename() << ": " << e.what() << "\n" << k.plan << k.source.substr(k.source.find("\nextern"));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, GpuKernels, testing::Values("sm_80", "sm_90a"));

}  // namespace
}  // namespace toroid

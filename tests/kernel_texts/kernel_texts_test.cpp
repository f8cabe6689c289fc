// Whether kernels are those that they were: digests of all kernels of a corpus of graphs and of the exported models beside it, for CPUs
// with AVX2 and for GPUs of sm_90a, are held in tests/data/kernel_texts/digests.txt. A change that means to change kernels draws them anew:
// scripts/kernel_texts.sh --update.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "base/hash.h"
#include "base/options.h"
#include "device/cpu/isa.h"
#include "front/compile_model.h"
#include "graph/random_graph.h"
#include "import/load_model.h"
#include "kernel_texts/corpus.h"

namespace toroid::kernel_texts {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(TOROID_SOURCE_DIR) / "tests/data";

std::string digest_of(const std::vector<codegen::KernelText>& kernels) {
  Hasher all;
  for (auto& k : kernels) {
    all.add(k.name).add(k.source).add(to_string(k.tasks)).add(k.block).add(k.shared_bytes).add(k.overlaps).add(k.serial);
    all.add(to_string(k.scratch_bytes)).add(to_string(k.counters)).add(to_string(k.scratch_bytes_per_thread)).add(k.buffers.size());
    for (auto& p : k.params) all.add(to_string(p));
  }
  return fmt::format("{} {}", kernels.size(), all.finish().hex().substr(0, 16));
}

// What one device's kernels are, or the first line of why there are none.
std::string digest(const graph::Graph& g, const device::cuda::GpuInfo* gpu) {
  const compiler::Setup setup = front::setup_of({.device = gpu ? Device::cuda() : Device::cpu(), .threads = 2});
  try {
    return digest_of(compiler::kernels_of(graph::clone(g), setup, gpu));
  } catch (const UserError& e) {
    return "refused " + hash_text(e.what()).hex().substr(0, 16);
  }
}

std::string digests(const std::string& name, const graph::Graph& g) {
  device::cuda::GpuInfo gpu;
  gpu.architecture = "sm_90a";
  return fmt::format("{}: cpu {}, gpu {}\n", name, digest(g, nullptr), digest(g, &gpu));
}

std::string digests_of_models(const fs::path& folder) {
  std::vector<fs::path> models;
  for (auto& file : fs::recursive_directory_iterator(folder))
    if (file.path().extension() == ".pt2" || file.path().extension() == ".onnx") models.push_back(file.path());
  std::sort(models.begin(), models.end());
  std::string out;
  for (auto& path : models) {
    std::unique_ptr<graph::Graph> g;
    try {
      g = import::load_model(path.string());
    } catch (const UserError&) {
      continue;  // what importers refuse is their tests' affair
    }
    out += digests(fs::relative(path, folder).string(), *g);
  }
  return out;
}

std::string digests_of_corpus() {
  std::string out;
  for (auto& e : from_file(read_file(kData / "kernel_texts/graphs.txt"))) {
    auto g = graph::parse(e.text);
    graph::fill_parameters(*g);
    out += digests(e.name, *g);
  }
  return out + digests_of_models(kData);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

TEST(KernelTexts, AreThoseThatTheyWere) {
  if (device::host().isa < device::Isa::Avx2) GTEST_SKIP() << "kernels for AVX2 are generated on processors that have it";
  const ScopedOption isa("isa", "avx2");
  const std::string asked = environment("TOROID_TEST_KERNEL_TEXTS");
  if (asked == "draw") write(kData / "kernel_texts/graphs.txt", to_file(draw()));
  const std::string now = digests_of_corpus();
  if (!asked.empty()) write(kData / "kernel_texts/digests.txt", now);
  std::istringstream held(read_file(kData / "kernel_texts/digests.txt")), current(now);
  int differ = 0;
  for (std::string a, b; held || current; a.clear(), b.clear()) {
    std::getline(held, a), std::getline(current, b);
    if (a != b && ++differ <= 20) ADD_FAILURE() << "held: " << a << "\nnow:  " << b;
  }
  EXPECT_EQ(differ, 0);
  EXPECT_EQ(now.find("refused"), std::string::npos) << "no graph of the corpus is one that compiles refuse";
}

// Of the models in a folder, to be compared with those of another version.
TEST(KernelTexts, OfAFolder) {
  const std::string folder = environment("TOROID_TEST_KERNEL_FOLDER");
  if (folder.empty()) GTEST_SKIP() << "TOROID_TEST_KERNEL_FOLDER names no folder";
  const ScopedOption isa("isa", "avx2");
  std::fputs(digests_of_models(folder).c_str(), stdout);
}

}  // namespace
}  // namespace toroid::kernel_texts

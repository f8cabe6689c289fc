// Fuzzes the ONNX importer: what it accepts is a graph that the verifier accepts. Once as the file says it, once with inputs of small
// sizes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "fuzz/harness.h"
#include "fuzz/onnx_mutator.h"
#include "import/onnx/importer.h"

namespace {

using namespace toroid;
using namespace toroid::import::onnx;

// A folder with the file; what it names as external data may be in "weights.bin".
class Folder {
 public:
  Folder() : path_(make_temp_dir()) { write_file_atomic(path_ / "weights.bin", std::string(64, '\1')); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path write(std::span<const std::byte> bytes) const {
    write_file_atomic(path_ / "model.onnx", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return path_ / "model.onnx";
  }

 private:
  std::filesystem::path path_;
};

// Inputs of the declared types: open sizes are 2, texts and what is large are left to the importer's complaints.
std::vector<Item> small_inputs(const GraphProto& graph) {
  std::vector<Item> out;
  for (auto* in : user_inputs(graph)) {
    std::vector<int64_t> sizes;
    int64_t count = 1;
    for (auto& d : in->dims.value_or(std::vector<Dim>(2))) {
      sizes.push_back(std::clamp<int64_t>(d.value.value_or(2), 0, 64));
      count *= sizes.back();
    }
    auto dtype = dtype_of(in->element);
    if (!dtype || count > 4096) return out;
    Tensor t = Tensor::full(sizes, 1, *dtype);
    out.push_back(in->kind == TypeKind::Sequence ? Item(std::vector<Tensor>{t, t}) : Item(t));
  }
  return out;
}

void run(std::span<const std::byte> bytes) {
  static const Folder folder;
  auto model = folder.write(bytes);
  std::shared_ptr<const ModelFile> file;
  fuzz::ignoring_user_errors([&] { file = ModelFile::open(model); });
  if (!file) return;
  fuzz::ignoring_user_errors([&] { graph::verify(*import_model(file), "import"); });
  fuzz::ignoring_user_errors([&] {
    auto inputs = small_inputs(file->model().graph);
    graph::verify(*import_model(file, inputs), "import");
  });
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}

// One change in ten is one of libFuzzer's own, to bytes anywhere.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 10 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string changed = fuzz::OnnxMutator(seed)({reinterpret_cast<const char*>(data), size});
  size_t count = std::min(changed.size(), max_size);
  std::memcpy(data, changed.data(), count);
  return count;
}
#else
TEST(Fuzz, Onnx) {
  const char* count = std::getenv("TOROID_FUZZ_COUNT");
  const int mutants = count ? std::atoi(count) : 60;
  size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TOROID_SOURCE_DIR "/tests/data/onnx/fuzz")) {
    const std::string seed = read_file(entry.path());
    for (int i = 0; i < mutants; ++i, ++runs) {
      std::string changed = seed;
      fuzz::OnnxMutator mutate(static_cast<uint32_t>(i + 1));
      for (int k = 0; k < i % 4; ++k) changed = mutate(changed);
      EXPECT_NO_THROW(run(std::as_bytes(std::span(changed)))) << entry.path() << " after change " << i;
    }
  }
  EXPECT_GT(runs, 600u);
}
#endif

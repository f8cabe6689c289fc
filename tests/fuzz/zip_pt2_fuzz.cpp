// Fuzzes the archive readers: zip, pickle, torch.save and .pt2. Every byte of every tensor that they hand out is read.
#include <cstddef>
#include <cstdint>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "fuzz/harness.h"
#include "import/pickle.h"
#include "import/pt2_archive.h"
#include "import/torch_save.h"

namespace {

using namespace toroid::import;
using toroid::fuzz::ignoring_user_errors;

volatile unsigned sink;

void read_all(std::span<const TensorRecord> records) {
  for (const TensorRecord& r : records) {
    unsigned sum = 0;
    for (const std::byte b : r.storage) sum += static_cast<unsigned>(b);
    if (r.is_contiguous())
      for (const std::byte b : r.bytes()) sum += static_cast<unsigned>(b);
    sink = sum;
  }
}

void run(std::span<const std::byte> bytes) {
  ignoring_user_errors([&] {
    const auto archive = Pt2Archive::from_bytes(bytes, "fuzz");
    read_all(archive.weights());
    read_all(archive.constants());
    read_all(archive.sample_inputs());
  });
  ignoring_user_errors([&] { read_all(read_torch_save(bytes, "fuzz")); });
  ignoring_user_errors([&] { Pickle::parse(bytes, "fuzz"); });
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
#else
TEST(Fuzz, Archives) { EXPECT_GT(toroid::fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/import", run, 300), 600u); }
#endif

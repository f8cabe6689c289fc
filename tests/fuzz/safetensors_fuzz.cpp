// Fuzzes the safetensors reader: what it accepts must tile the data and be written back and read again alike.
#include <cstddef>
#include <cstdint>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "base/check.h"
#include "fuzz/harness.h"
#include "import/safetensors.h"

namespace {

using namespace toroid::import;

void run(std::span<const std::byte> bytes) {
  toroid::fuzz::ignoring_user_errors([&] {
    StringMap metadata;
    const auto records = parse_safetensors(bytes, "fuzz", &metadata);
    std::vector<SafetensorsItem> items;
    for (const TensorRecord& r : records) items.push_back({r.name, r.dtype, r.sizes, r.bytes()});
    const std::string image = format_safetensors(items, metadata);
    TOROID_CHECK(parse_safetensors(std::as_bytes(std::span(image)), "again").size() == records.size());
  });
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
#else
TEST(Fuzz, Safetensors) { EXPECT_GT(toroid::fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/import", run, 300), 600u); }
#endif

// Fuzzes the text form of graphs: what parses prints, and parses again to the same.
#include <cstddef>
#include <cstdint>
#include <span>

#ifndef TOROID_FUZZER
#include <gtest/gtest.h>
#endif

#include "base/check.h"
#include "fuzz/harness.h"
#include "graph/graph.h"

namespace {

using namespace toroid;

void run(std::span<const std::byte> bytes) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::unique_ptr<graph::Graph> g;
  fuzz::ignoring_user_errors([&] { g = graph::parse(text); });
  if (!g) return;
  std::string printed = graph::to_string(*g);
  TOROID_CHECK(graph::to_string(*graph::parse(printed)) == printed);
}

}  // namespace

#ifdef TOROID_FUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  run(std::as_bytes(std::span(data, size)));
  return 0;
}
#else
TEST(Fuzz, GraphText) { EXPECT_GT(fuzz::replay_mutants(TOROID_SOURCE_DIR "/tests/data/graph", run, 300), 600u); }
#endif

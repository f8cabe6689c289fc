// The model of the driver's memory for graphs, against what an H200 with driver 580 had less after each graph.
#include "device/cuda/graph_memory.h"

#include <gtest/gtest.h>

namespace toroid::device::cuda {
namespace {

constexpr int64_t kChunk = GraphMemory::kChunk;

// Chunks that so many graphs of so many launches take, after one graph of one launch.
int64_t chunks(size_t launches, int graphs) {
  GraphMemory memory;
  memory.add(1, 0);
  const int64_t before = memory.forecast();
  for (int i = 0; i < graphs; ++i) memory.add(launches, 0);
  return (memory.forecast() - before) / kChunk;
}

TEST(GraphMemory, IsAsMeasured) {
  EXPECT_EQ(chunks(1, 31), 0);
  EXPECT_EQ(chunks(1, 32), 1);
  EXPECT_EQ(chunks(1, 200), 10);
  EXPECT_EQ(chunks(10, 200), 11);
  EXPECT_EQ(chunks(50, 160), 15);
  EXPECT_EQ(chunks(100, 100), 16);
  EXPECT_EQ(chunks(400, 2), 0);
  EXPECT_EQ(chunks(400, 16), 8);
  EXPECT_EQ(chunks(400, 64), 40);
  EXPECT_EQ(chunks(1000, 30), 36);
}

TEST(GraphMemory, SharesAddUpToTheChunksOfManyGraphs) {
  for (size_t launches : {size_t{1}, size_t{10}, size_t{50}, size_t{100}, size_t{400}, size_t{1000}})
    EXPECT_NEAR(static_cast<double>(1000 * GraphMemory::share(launches)), static_cast<double>(chunks(launches, 1000) * kChunk),
                0.03 * static_cast<double>(chunks(launches, 1000) * kChunk))
        << launches;
  EXPECT_EQ(GraphMemory::share(3000), 3 * kChunk + kChunk + kChunk / 32 + kChunk / 43) << "5.1 MiB of one kind are three chunks";
}

TEST(GraphMemory, ChunksAreUsedAgainAndNeverReturned) {
  GraphMemory memory;
  const GraphMemory::Places places = memory.add(1000, 2 * kChunk);
  memory.add(1000, kChunk);
  const int64_t before = memory.forecast();
  memory.remove(1000, places);
  EXPECT_EQ(memory.forecast(), before);
  memory.add(1000, 0);
  EXPECT_EQ(memory.forecast(), before);
  EXPECT_EQ(memory.taken(), 3 * kChunk);
}

}  // namespace
}  // namespace toroid::device::cuda

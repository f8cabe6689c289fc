// Memory that a call gives up.
#include "exec/run/donated.h"

#include <gtest/gtest.h>

#include <random>

#include "exec/plans.h"
#include "toroid/device_memory.h"

namespace toroid::exec {
namespace {

TEST(Donated, PlacesNeverOverlap) {
  std::mt19937_64 random(7);
  const auto range = [&](int64_t bytes) {
    const int first = static_cast<int>(random() % 8), last = first + static_cast<int>(random() % 4);
    return LiveRange{bytes, first, last};
  };
  int placed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<LiveRange> regions;
    std::vector<Wish> wishes;
    for (uint64_t i = 0, n = 1 + random() % 3; i < n; ++i) regions.push_back(range(static_cast<int64_t>(64 + random() % 1000)));
    if (random() % 4 == 0) regions[0].first = regions[0].last = -1;
    for (uint64_t i = 0, n = random() % 8; i < n; ++i)
      wishes.push_back({range(random() % 3 == 0 ? regions[0].bytes : static_cast<int64_t>(random() % 600)), random() % 3 == 0});
    const auto places = place_in(regions, wishes);
    ASSERT_EQ(places.size(), wishes.size());
    for (size_t i = 0; i < wishes.size(); ++i) {
      if (places[i].region < 0) continue;
      ++placed;
      const LiveRange& r = regions[static_cast<size_t>(places[i].region)];
      ASSERT_GT(wishes[i].range.first, r.last) << "it is still read";
      ASSERT_LE(places[i].offset + wishes[i].range.bytes, r.bytes);
      ASSERT_EQ(places[i].offset % 64, 0);
      if (wishes[i].whole) {
        ASSERT_EQ(wishes[i].range.bytes, r.bytes);
      }
      for (size_t k = 0; k < i; ++k) {
        const bool together = places[k].region == places[i].region && wishes[k].range.first <= wishes[i].range.last &&
                              wishes[i].range.first <= wishes[k].range.last;
        if (!together) continue;
        ASSERT_TRUE(places[k].offset + wishes[k].range.bytes <= places[i].offset ||
                    places[i].offset + wishes[i].range.bytes <= places[k].offset);
      }
    }
  }
  EXPECT_GT(placed, 1000);
}

TEST(Donated, TheLargestAreThereFirst) {
  const auto places =
      place_in({{100, 0, 1}, {1000, 0, 1}}, {{{90, 2, 2}, false}, {{1000, 2, 3}, true}, {{900, 2, 3}, false}, {{90, 1, 2}, false}});
  EXPECT_EQ(places[0].region, 0);
  EXPECT_EQ(places[1].region, 1);
  EXPECT_EQ(places[2].region, -1);
  EXPECT_EQ(places[3].region, -1);
}

Plan donating(int length) {
  Plan p = chain(length, false, 4096);
  p.inputs[0].donated = true;
  return p;
}

Tensor ones_of(int64_t n) {
  Tensor t = Tensor::empty({n, 4096}, DType::F32);
  std::fill_n(t.data<float>(), t.numel(), 1.f);
  return t;
}

// x + 5 by five launches over one argument of 16 KiB times 64.
TEST(Donated, ResultsLieThereWhereTheCallGivesItUp) {
  Runnable e(donating(5));
  for (const bool gives_up : {true, false, true}) {
    const Tensor x = ones_of(64);
    const std::byte* memory = x.raw_data();
    x.impl()->storage->donated = gives_up;
    const Tensor y = e.run(std::vector<Tensor>{x})[0];
    EXPECT_EQ(y.raw_data() == memory, gives_up);
    EXPECT_FALSE(y.impl()->storage->donated) << "the result is the caller's";
    EXPECT_EQ(y.data<float>()[0], 6);
    EXPECT_EQ(y.data<float>()[y.numel() - 1], 6);
    if (!gives_up) {
      EXPECT_EQ(x.data<float>()[0], 1);
    }
  }
}

TEST(Donated, AnotherSizeIsBoundAnew) {
  Runnable e(donating(3));
  for (int64_t n : {1, 7, 2, 7}) {
    const Tensor x = ones_of(n);
    x.impl()->storage->donated = true;
    const Tensor y = e.run(std::vector<Tensor>{x})[0];
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(y.data<float>()[y.numel() - 1], 4);
  }
}

TEST(Donated, RecordedCallsKeepTheirPlaces) {
  Plan p = donating(3);
  p.record = true;
  Runnable e(p);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = ones_of(8);
    x.impl()->storage->donated = true;
    const Tensor y = e.run(std::vector<Tensor>{x})[0];
    EXPECT_NE(y.raw_data(), x.raw_data());
    EXPECT_EQ(y.data<float>()[0], 4);
    EXPECT_EQ(x.data<float>()[0], 1);
  }
}

}  // namespace
}  // namespace toroid::exec

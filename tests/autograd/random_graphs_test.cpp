// Gradients of random graphs, and the gradients of those, against differences in f64.
#include <gtest/gtest.h>

#include "autograd/checks.h"
#include "fuzz_compiled/from_environment.h"
#include "ops/reference.h"

namespace toroid::autograd {
namespace {

void check_graphs(uint64_t count, bool second) {
  const uint64_t first = test::from_environment("TOROID_FUZZ_SEED", 1);
  ops::ReferenceDispatcher reference;
  DispatchScope scope(reference);
  int slopes = 0, kinks = 0, refused = 0, failures = 0;
  for (uint64_t seed = first; seed < first + count && failures < 10; ++seed) {
    const RandomCheck found = check_random_graph(seed, second);
    slopes += found.slopes, kinks += found.kinks, refused += found.refused;
    failures += !found.wrong.empty();
    EXPECT_EQ(found.wrong, "");
  }
  std::printf("%d slopes, %d kinks, %d of %d graphs refused\n", slopes, kinks, refused, static_cast<int>(count));
  EXPECT_GT(slopes, static_cast<int>(count) / 2);
  EXPECT_LT(kinks * 4, slopes);
  EXPECT_LT(refused * 4, static_cast<int>(count));
}

TEST(RandomGradients, AreSlopes) { check_graphs(test::from_environment("TOROID_FUZZ_COUNT", 200), false); }
TEST(RandomGradients, HaveGradients) { check_graphs(test::from_environment("TOROID_FUZZ_COUNT", 200) / 4, true); }

}  // namespace
}  // namespace toroid::autograd

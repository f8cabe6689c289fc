// The tests of process groups, and the ranks that they start.
#include <gtest/gtest.h>

#include <cstring>

#include "dist/processes.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank-body") == 0) return toroid::test::run_body(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

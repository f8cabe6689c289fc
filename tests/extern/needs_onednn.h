// A fixture whose tests are left out, with the reason, where oneDNN cannot be used.
#pragma once

#include <gtest/gtest.h>

#include "extern/onednn/onednn.h"
#include "toroid/error.h"

namespace toroid::test {

class NeedsOneDnn : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "oneDNN's OpenMP runtime is not instrumented: ThreadSanitizer takes its barriers for races";
#endif
    try {
      external::onednn_version();
    } catch (const EnvironmentError& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

}  // namespace toroid::test

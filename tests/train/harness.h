// What tests of training share.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "toroid/error.h"
#include "toroid/tensor.h"

namespace toroid::train {

// The message of the UserError that f throws.
inline std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

inline Tensor filled(const std::vector<int64_t>& sizes, double value, DType dtype = DType::F32) {
  return Tensor::full(sizes, value, dtype);
}

}  // namespace toroid::train

#ifndef EXPECT_REFUSED
#define EXPECT_REFUSED(statement, what) \
  do { \
    const std::string error = toroid::train::refusal_of([&] { statement; }); \
    EXPECT_NE(error.find(what), std::string::npos) << error; \
  } while (false)
#endif

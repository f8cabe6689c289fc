// What programs take and return, as values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toroid/dtype.h"

namespace toroid {

// A tensor that a program takes or returns.
struct TensorSpec {
  static constexpr int64_t kUnbounded = INT64_MAX;

  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes;  // -1: open until the run
  std::string text;            // for people, with the names of open sizes: "i64[batch, 128]"; "none" for a result that is no tensor
  std::vector<int64_t> least = {}, greatest = {};  // what each size may be, inclusive; greatest: kUnbounded where there is no end
  bool written = false;                            // an input that a run writes to
};

}  // namespace toroid

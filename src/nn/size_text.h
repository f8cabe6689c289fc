// Sizes that may be open while a function is traced, for checks that must not fix them.
#pragma once

#include <string>
#include <vector>

#include "toroid/tensor.h"

namespace toroid::nn {

// "[2, ?, 3]".
inline std::string size_text(const std::vector<SymInt>& sizes) {
  std::string out;
  for (auto& s : sizes) {
    const auto known = s.expr().maybe_constant();
    out += (out.empty() ? "" : ", ") + (known ? std::to_string(*known) : std::string("?"));
  }
  return "[" + out + "]";
}

// Whether nothing that is known of them differs.
inline bool may_be_equal(const std::vector<SymInt>& a, const std::vector<SymInt>& b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d) {
    const auto x = a[d].expr().maybe_constant(), y = b[d].expr().maybe_constant();
    if (x && y && *x != *y) return false;
  }
  return true;
}

}  // namespace toroid::nn

#include "codegen/transposition.h"

#include <fmt/core.h>

namespace toroid::codegen {

// Swaps the off-diagonal blocks of 2 x 2 blocks of 1, 2, 4 ... lanes.
std::string transposition_text(int lanes) {
  std::string text;
  for (int d = 1; d < lanes; d *= 2) {
    std::string low, high;
    for (int l = 0; l < lanes; ++l) {
      low += fmt::format(", {}", l & d ? lanes + l - d : l);
      high += fmt::format(", {}", l & d ? lanes + l : l + d);
    }
    for (int i = 0; i < lanes; ++i)
      if (!(i & d))
        text +=
            fmt::format("  a = x[{0}], b = x[{1}], x[{0}] = __builtin_shufflevector(a, b{2}), x[{1}] = __builtin_shufflevector(a, b{3});\n",
                        i, i + d, low, high);
  }
  return text;
}

}  // namespace toroid::codegen

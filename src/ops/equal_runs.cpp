#include "ops/equal_runs.h"

namespace toroid::ops {

std::pair<size_t, size_t> equal_runs(std::span<const Expr> from, std::span<const Expr> to) {
  for (size_t total = 2; total <= from.size() + to.size(); ++total)
    for (size_t x = 1; x < total; ++x) {
      if (x > from.size() || total - x > to.size()) continue;
      Expr p = 1, q = 1;
      for (auto& e : from.first(x)) p = p * e;
      for (auto& e : to.first(total - x)) q = q * e;
      if (p == q) return {x, total - x};
    }
  return {from.size(), to.size()};
}

}  // namespace toroid::ops
